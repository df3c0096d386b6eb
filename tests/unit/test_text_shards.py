"""Raw text to token shards and back: documents kept whole and apart, split by hash, duplicates, and atomic writing."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.text.prepare import HashSet, Layout, prepare
from gnomon.text.shards import TokenData
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_training import train_on

LINES = Layout(separator="\n", valid_share=0.2)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_on(["some words of text, and more words"] * 5, size=300).tokenizer


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return [f"line {number}: some words of text" + " and more" * (number % 7) for number in range(300)]


@pytest.fixture
def source(tmp_path, lines):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def all_documents(part):
    return [part.document(number) for number in range(part.documents)]


def expected_ids(tokenizer, text):
    return [*tokenizer.encode(text).ids, tokenizer.eos_id]


def test_every_document_is_kept_whole_with_begin_and_end(tokenizer, lines, source, tmp_path):
    data = prepare([source], tmp_path / "out", tokenizer=tokenizer, layout=LINES)
    found = [ids.tolist() for part in (data.train, data.valid) for ids in all_documents(part)]
    assert sorted(found) == sorted(expected_ids(tokenizer, line) for line in lines)
    assert data.train.documents + data.valid.documents == 300
    assert 30 < data.valid.documents < 90
    assert data.train.bytes + data.valid.bytes == sum(map(len, lines))
    assert data.train.tokens + data.valid.tokens == sum(map(len, found))
    assert data.end_id == tokenizer.eos_id
    assert data.tokenizer().fingerprint == tokenizer.fingerprint
    assert data.facts == {"duplicates": 0, "in_both": 0, "dropped": False}


@pytest.mark.parametrize("shard_tokens", [400, 1000])
def test_shards_of_any_size_read_as_one(tokenizer, source, tmp_path, shard_tokens):
    whole = prepare([source], tmp_path / "one", tokenizer=tokenizer, layout=LINES).train
    layout = Layout(separator="\n", valid_share=0.2, shard_tokens=shard_tokens)
    many = prepare([source], tmp_path / "many", tokenizer=tokenizer, layout=layout).train
    assert len(many.entries) > 1 == len(whole.entries)
    assert many.read(0, many.tokens).tolist() == whole.read(0, whole.tokens).tolist()
    assert many.starts(0, many.tokens).tolist() == whole.starts(0, whole.tokens).tolist()
    generator = np.random.default_rng(0)
    for start, stop in np.sort(generator.integers(0, whole.tokens + 1, (50, 2))).tolist():
        assert many.read(start, stop).tolist() == whole.read(0, whole.tokens)[start:stop].tolist()
        starts = whole.starts(0, whole.tokens)
        assert many.starts(start, stop).tolist() == starts[(starts >= start) & (starts < stop)].tolist()
    for number in (0, 1, whole.documents // 2, whole.documents - 1):
        assert many.document(number).tolist() == whole.document(number).tolist()
    with pytest.raises(IndexError):
        many.document(many.documents)


def test_the_split_depends_on_each_text_alone(tokenizer, lines, tmp_path):
    def validated(name, texts):
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join(texts), encoding="utf-8")
        data = prepare([path], tmp_path / name, tokenizer=tokenizer, layout=LINES, overwrite=True)
        return {tuple(ids.tolist()) for ids in all_documents(data.valid)}

    assert validated("all", lines) == validated("reversed", lines[::-1])
    assert validated("half", lines[:150]) <= validated("all", lines)


def test_duplicates_are_counted_kept_together_and_dropped_when_asked(tokenizer, lines, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join([*lines, *lines[:40], f"  {lines[0]} "]), encoding="utf-8")
    kept = prepare([path], tmp_path / "kept", tokenizer=tokenizer, layout=LINES)
    assert kept.facts["duplicates"] == 41
    assert kept.train.documents + kept.valid.documents == 341
    sides = [{tuple(ids.tolist()) for ids in all_documents(part)} for part in (kept.train, kept.valid)]
    assert not sides[0] & sides[1]
    layout = Layout(separator="\n", valid_share=0.2, drop_duplicates=True)
    dropped = prepare([path], tmp_path / "dropped", tokenizer=tokenizer, layout=layout)
    assert dropped.facts == {"duplicates": 41, "in_both": 0, "dropped": True}
    assert dropped.train.documents + dropped.valid.documents == 300


def test_files_to_validate_on_and_what_they_share_with_training(tokenizer, lines, source, tmp_path):
    other = tmp_path / "valid.txt"
    other.write_text("\n".join(["new text", lines[3], lines[4], "new text"]), encoding="utf-8")
    data = prepare([source], tmp_path / "a", tokenizer=tokenizer, valid=[other], layout=LINES)
    assert (data.train.documents, data.valid.documents) == (300, 4)
    assert data.facts == {"duplicates": 3, "in_both": 2, "dropped": False}
    layout = Layout(separator="\n", drop_duplicates=True)
    data = prepare([source], tmp_path / "b", tokenizer=tokenizer, valid=[other], layout=layout)
    assert (data.train.documents, data.valid.documents) == (298, 3)


def test_a_small_text_always_leaves_something_to_validate_on(tokenizer, tmp_path):
    for number in range(6):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"a {number}\nb {number}\na {number}\nc", encoding="utf-8")
        layout = Layout(separator="\n", valid_share=0.001)
        data = prepare([path], tmp_path / f"out{number}", tokenizer=tokenizer, layout=layout)
        assert data.train.documents + data.valid.documents == 4
        assert data.valid.documents in (1, 2)
        sides = [{tuple(ids.tolist()) for ids in all_documents(part)} for part in (data.train, data.valid)]
        assert not sides[0] & sides[1]
    assert not prepare([path], tmp_path / "none", tokenizer=tokenizer, layout=Layout(valid_share=0.0)).valid.documents


@pytest.mark.parametrize(
    ("text", "message"), [("one document", "single document"), (" \n ", "no text to train on"), ("", "no text")]
)
def test_too_little_text_is_refused_and_leaves_nothing(tokenizer, tmp_path, text, message):
    path = tmp_path / "text.txt"
    path.write_text(text)
    with pytest.raises(GnomonError, match=message):
        prepare([path], tmp_path / "out", tokenizer=tokenizer)
    assert [item.name for item in tmp_path.iterdir()] == ["text.txt"]


def test_an_error_half_way_leaves_what_was_there(tokenizer, lines, source, tmp_path):
    out = tmp_path / "out"
    before = prepare([source], out, tokenizer=tokenizer, layout=LINES)
    bad = tmp_path / "bad.txt"
    bad.write_bytes("\n".join(lines * 20).encode() + b"\n\xff")
    threads = threading.active_count()
    with pytest.raises(GnomonError, match=r"bad\.txt:6001"):
        prepare([bad], out, tokenizer=tokenizer, layout=LINES, overwrite=True)
    assert TokenData.open(out, every_byte=True) == before
    assert {item.name for item in tmp_path.iterdir()} == {"text.txt", "bad.txt", "out"}
    assert threading.active_count() == threads


def test_an_existing_folder_is_replaced_only_when_asked_and_only_if_it_holds_tokens(tokenizer, source, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    prepare([source], out, tokenizer=tokenizer, layout=LINES)
    with pytest.raises(GnomonError, match="holds prepared tokens already"):
        prepare([source], out, tokenizer=tokenizer, layout=LINES)
    prepare([source], out, tokenizer=tokenizer, layout=LINES, overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    with pytest.raises(GnomonError, match="something else"):
        prepare([source], tmp_path / "other", tokenizer=tokenizer, layout=LINES, overwrite=True)


def test_progress_grows_to_the_whole(tokenizer, lines, source, tmp_path):
    seen = []
    data = prepare(
        [source],
        tmp_path / "out",
        tokenizer=tokenizer,
        layout=LINES,
        progress=lambda size, tokens: seen.append((size, tokens)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (sum(map(len, lines)), data.train.tokens + data.valid.tokens)


def test_a_large_vocabulary_is_written_in_four_bytes(source, tmp_path):
    content = json.loads(train_on(["some words"] * 5, size=300).tokenizer.to_json())
    names = content["model"]["vocab"]
    names |= {f"unused{number}": len(names) + number for number in range(70_000 - len(names))}
    tokenizer = Tokenizer.from_json(json.dumps(content), {"eos_token": "<|end_of_text|>"})
    data = prepare([source], tmp_path / "out", tokenizer=tokenizer, layout=LINES)
    assert data.train.dtype == "<u4"
    assert data.train.document(0)[-1] == tokenizer.eos_id


def test_a_wordpiece_frame_is_not_ended_twice(source, tmp_path):
    tokenizer = train_on(["some words of text, and more"] * 5, kind="wordpiece", size=60).tokenizer
    ids = prepare([source], tmp_path / "out", tokenizer=tokenizer, layout=LINES).train.document(0).tolist()
    assert (ids[0], ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
    assert ids.count(tokenizer.sep_id) == 1


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=9), max_size=12))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_a_hash_set_is_a_set(batches):
    ours, theirs = HashSet(), set()
    for batch in batches:
        hashes = np.array(batch, np.uint64)
        assert ours.contains(hashes).tolist() == [number in theirs for number in batch]
        new = []
        for number in batch:
            new.append(number not in theirs)
            theirs.add(number)
        assert ours.add(hashes).tolist() == new
    assert len(ours._runs) <= 8


@pytest.mark.parametrize("layout", [Layout(valid_share=1.0), Layout(valid_share=-0.1), Layout(shard_tokens=0)])
def test_impossible_layouts_are_refused(tokenizer, source, tmp_path, layout):
    with pytest.raises(GnomonError, match=r"valid_share|shard_tokens"):
        prepare([source], tmp_path / "out", tokenizer=tokenizer, layout=layout)
