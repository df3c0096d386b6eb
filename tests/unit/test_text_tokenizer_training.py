"""Tokenizers learnt from text: every kind, what it knows, its special tokens, and the essays' worked examples."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models

from gnomon.errors import GnomonError
from gnomon.text import tokenizer_training as t
from gnomon.text.tokenizer import Tokenizer

quick = settings(deadline=None, derandomize=True, max_examples=40)
TEXTS = [
    "The quick brown fox. Hello hello world!\n\n  x = 1\n",
    "我非常喜欢你。我喜欢苹果。非常好！我非常喜欢北京。",
    "hello 😀 the fox, the world",
] * 20
LOSSLESS = [kind for kind in t.KINDS if kind != "wordpiece"]


@pytest.fixture(scope="module")
def trained() -> dict[str, Tokenizer]:
    sizes = {"characters": 200, "byte-bpe": 400}
    return {kind: t.train_on(TEXTS, kind=kind, size=sizes.get(kind, 120)).tokenizer for kind in t.KINDS}


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    words = {number: word for word, number in tokenizer.vocabulary.items()}
    return [words[number] for number in tokenizer.encode(text).ids if number not in tokenizer.special_ids]


@pytest.mark.parametrize("kind", t.KINDS)
def test_special_tokens_are_there_apart_and_placed(trained, kind):
    tokenizer = trained[kind]
    assert tokenizer.pad_id == 0
    assert None not in (tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id)
    assert len({tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, tokenizer.mask_id}) == 4
    assert (tokenizer.unk_id is None) == (kind == "byte-bpe")
    ids = tokenizer.encode("the fox").ids
    assert ids[0] == tokenizer.bos_id
    assert (ids[-1] == tokenizer.eos_id) == (kind == "wordpiece")


@pytest.mark.parametrize("kind", t.KINDS)
def test_a_saved_tokenizer_reads_back_the_same(trained, kind, tmp_path):
    t.save(trained[kind], tmp_path / "new" / "tok")
    again = Tokenizer.from_dir(tmp_path / "new" / "tok")
    assert again.fingerprint == trained[kind].fingerprint
    assert (again.pad_id, again.bos_id, again.eos_id) == tuple(
        getattr(trained[kind], f"{role}_id") for role in ("pad", "bos", "eos")
    )


@pytest.mark.parametrize("kind", LOSSLESS)
def test_text_of_known_characters_comes_back_exactly(trained, kind):
    for text in (*TEXTS[:3], "  two  spaces\n\n\nand lines \n", " hello", "hello ", "好北京我你 fox."):
        known = set("".join(TEXTS))
        if kind == "byte-bpe" or set(text) <= known:
            encoded = trained[kind].encode(text)
            assert trained[kind].decode(encoded.ids) == text
            assert encoded.unknown == 0


@given(st.text(max_size=30))
@quick
def test_byte_level_knows_every_character(trained, text):
    text = text.encode("utf-8", "ignore").decode()
    encoded = trained["byte-bpe"].encode(text)
    assert encoded.unknown == 0
    assert trained["byte-bpe"].decode(encoded.ids) == text


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram", "characters"])
def test_others_count_what_they_do_not_know(trained, kind):
    assert trained[kind].encode("hello world").unknown == 0
    assert trained[kind].encode("hello Ω world").unknown == 1
    assert trained[kind].encode("ж").unknown == 1


def test_an_emoji_does_not_make_its_word_unknown(trained):
    tokenizer = t.train_on(["hello there"] * 9, kind="wordpiece", size=60).tokenizer
    assert tokenizer.encode("hello😀").unknown == 1
    assert tokenizer.vocabulary["hello"] in tokenizer.encode("hello😀").ids
    assert trained["wordpiece"].encode("hello😀").unknown == 0


@pytest.mark.parametrize("kind", ["bpe", "unigram", "byte-bpe", "characters"])
def test_overlapping_entries_give_one_path_without_overlap(trained, kind):
    """C10: with 我, 非常, 喜欢 and longer entries in the vocabulary the text is cut once, and comes back."""
    words = pieces(trained[kind], "我非常喜欢")
    assert trained[kind].decode(trained[kind].encode("我非常喜欢").ids) == "我非常喜欢"
    if kind != "byte-bpe":
        assert "".join(words) == "我非常喜欢"


@pytest.mark.parametrize("model", ["unigram", "wordpiece"])
def test_the_worked_example_with_its_own_vocabulary(model):
    """C10: 我, 非常, 喜欢 and 非常喜欢 overlap; the best single path is 我 非常喜欢."""
    words = ["<unk>", "<s>", "</s>", "我", "非", "常", "喜", "欢", "非常", "喜欢", "非常喜欢"]
    if model == "unigram":
        scores = [-9.0, -9.0, -9.0, -2.0, -6.0, -6.0, -6.0, -6.0, -3.0, -3.0, -5.0]
        backend = tokenizers.Tokenizer(models.Unigram(list(zip(words, scores, strict=True)), unk_id=0))
    else:
        vocabulary = {word: number for number, word in enumerate(words)}
        backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>", continuing_subword_prefix=""))
    backend.decoder = decoders.Fuse()
    backend.add_special_tokens(words[:3])
    tokenizer = Tokenizer.from_json(backend.to_str(), {"eos_token": "</s>", "bos_token": "<s>"})
    assert pieces(tokenizer, "我非常喜欢") == ["我", "非常喜欢"]
    assert tokenizer.decode(tokenizer.encode("我非常喜欢").ids) == "我非常喜欢"
    assert tokenizer.encode("我非常喜欢茶").unknown == 1


def test_characters_alone_are_a_vocabulary_of_the_text(trained):
    tokenizer = trained["characters"]
    ordinary = {word for word, number in tokenizer.vocabulary.items() if number not in tokenizer.special_ids}
    assert ordinary == set("".join(TEXTS))
    assert pieces(tokenizer, "the\n fox") == list("the\n fox")


@pytest.mark.parametrize("kind", t.KINDS)
def test_the_vocabulary_never_exceeds_the_size_asked_for(kind):
    size = {"byte-bpe": 270, "unigram": 60}.get(kind, 20)
    assert t.train_on(TEXTS, kind=kind, size=size).tokenizer.vocab_size <= size


@pytest.mark.parametrize("kind", t.KINDS)
def test_training_twice_gives_the_same_tokenizer(kind):
    first, second = (t.train_on(TEXTS, kind=kind, size=300).tokenizer.to_json() for _ in range(2))
    assert first == second


def test_wordpiece_may_lower_case():
    tokenizer = t.train_on(["Hello There"] * 9, kind="wordpiece", size=60, lowercase=True).tokenizer
    assert tokenizer.encode("HELLO").ids == tokenizer.encode("hello").ids


def test_files_are_learnt_from_in_even_parts_up_to_a_limit(tmp_path):
    lines = [f"word{number:04d}\n" for number in range(1000)]
    path = tmp_path / "a.txt"
    path.write_text("".join(lines))
    trained = t.train([path], kind="byte-bpe", size=300, separator="\n", limit=2000)
    assert 1500 < trained.characters <= 2008
    kept = list(t._spread(lines, 0.2))
    assert 190 < len(kept) < 210
    assert max(int(b[4:8]) - int(a[4:8]) for a, b in pairwise(kept)) <= 8


def test_no_more_is_read_than_the_limit():
    def endless():
        while True:
            yield "some words and more "

    trained = t.train_on(endless(), size=300, limit=5000)
    assert trained.characters == 5000
    assert any("limit" in decision for decision in trained.decisions)


def test_a_vocabulary_that_comes_out_small_is_said():
    assert any("fewer than the 9,000" in decision for decision in t.train_on(TEXTS, size=9000).decisions)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"kind": "byte-bp"}, "byte-bp"),
        ({"size": 200}, "too small"),
        ({"kind": "bpe", "size": 3}, "too small"),
        ({"kind": "unigram", "size": 20}, "not large enough to contain all chars"),
    ],
)
def test_impossible_settings_are_refused(settings_, message):
    with pytest.raises(GnomonError, match=message):
        t.train_on(TEXTS, **settings_)


@pytest.mark.parametrize("kind", t.KINDS)
def test_no_text_is_refused(kind):
    with pytest.raises(GnomonError, match="no text"):
        t.train_on(["", ""], kind=kind, size=500)


def test_an_error_while_reading_stops_the_training(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good line\n" * 9 + b"\xff\n")
    with pytest.raises(GnomonError, match="byte 90"):
        t.train([path], size=300)


def test_a_tokenizer_that_cannot_end_a_text_is_not_saved(trained, tmp_path):
    content = json.loads(trained["byte-bpe"].to_json())
    padded = Tokenizer.from_json(json.dumps(content), {**trained["byte-bpe"].config, "pad_token": "<|end_of_text|>"})
    with pytest.raises(GnomonError, match="pads with the token that ends"):
        t.save(padded, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    backend = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    with pytest.raises(GnomonError, match="no token that ends"):
        t.save(Tokenizer.from_json(backend.to_str()), tmp_path / "x")
