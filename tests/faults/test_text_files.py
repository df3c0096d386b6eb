"""Files that are wrong: a clear error with the place and the way out, or a counted row when rows may be skipped."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.text.corpus import MAX_CHARACTERS, read_examples, read_texts
from gnomon.text.examples import check_labels

GOOD = "text,label\ngood film,pos\nbad film,neg\n"


def write(folder: Path, content: str | bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def refusal(path: Path, **options: str) -> GnomonError:
    with pytest.raises(GnomonError) as caught:
        read_examples(path, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    return caught.value


def test_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "train.csv")
    error = refusal(tmp_path / "trian.csv")
    assert "does not exist" in error.message
    assert "did you mean" in error.hint
    assert "train.csv" in error.hint
    assert refusal(tmp_path / "nowhere" / "a.csv").hint == "check the path"


def test_folder_lists_what_it_holds(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path).message
    write(tmp_path, GOOD, "train.csv")
    write(tmp_path, GOOD, "notes.md")
    assert refusal(tmp_path).hint == "it holds train.csv: name one"


@pytest.mark.parametrize("content", ["", "\ufeff", "\n\n \n", "text,label\n"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
def test_nothing_in_it(tmp_path: Path, content: str, name: str) -> None:
    path = write(tmp_path, content, name)
    error = refusal(path)
    assert str(path) in error.message
    assert "is empty" in error.message or "text,label" in content


@pytest.mark.parametrize("name", ["a.xlsx", "a.pkl", "a.zip"])
def test_foreign_formats(tmp_path: Path, name: str) -> None:
    assert "save it as one of .csv" in refusal(write(tmp_path, b"PK\x03\x04", name)).hint


def test_policy_is_one_of_two(tmp_path: Path) -> None:
    assert "did you mean 'skip'" in refusal(write(tmp_path, GOOD), on_bad_row="skipp").hint


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("one column", "1 columns where the header has 2"),
        ("a,b,c", "3 columns where the header has 2"),
        (",pos", "the text is empty"),
        ("  ,pos", "the text is empty"),
        ("fine,", "the label is missing"),
        ('fine,""', "the label is missing"),
        ("nul\0byte,pos", "a NUL byte in the text"),
        ("fine,po\0s", "a NUL byte in the label"),
        (f"{'x' * (MAX_CHARACTERS + 1)},pos", "a text of 100,001 characters"),
        (f"{'x' * (1 << 20)},pos", "more than 131,072 characters"),
        ('"open quote,pos', "a quote that is never closed"),
        ('"a" b,pos', "malformed quotes"),
        ('"back\\"slash",pos', "malformed quotes"),
        ("car\rriage,pos", "a carriage return without a line feed"),
    ],
)
def test_bad_rows_have_a_place(tmp_path: Path, row: str, problem: str) -> None:
    multi = 'text,label\n"two\nlines",pos\n' + row + "\nbad film,neg\n" * 2
    path = write(tmp_path, multi)
    error = refusal(path)
    assert error.message.startswith(f"{path}:4: ")
    assert problem in error.message
    assert "--on-bad-row skip" in error.hint
    skipped = read_examples(path, on_bad_row="skip")
    assert skipped.texts == ("two\nlines", "bad film", "bad film")
    assert [example.line for example in skipped.examples] == [2, 5, 7]
    assert [(bad.line, problem in bad.problem) for bad in skipped.bad_rows] == [(4, True)]
    assert skipped.decisions[-1].startswith(f"left out of {path}: 1 row; line 4: ")
    assert all(len(bad.value) <= 80 for bad in skipped.bad_rows)


def test_many_open_quotes_cost_a_row_each(tmp_path: Path) -> None:
    rows = "".join(f'"open {number},pos\nfine {number},neg\n' for number in range(300))
    skipped = read_examples(write(tmp_path, "text,label\n" + rows), on_bad_row="skip")
    assert len(skipped) == len(skipped.bad_rows) == 300
    assert csv.field_size_limit() == 131072


def test_rows_that_are_all_bad(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, "text,label\na\nb\n"), on_bad_row="skip")
    assert "no row that can be used" in error.message
    assert "line 2: 1 columns" in error.hint


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.encode() + "café,pos\n".encode("latin-1"))
    offset = len(GOOD) + 3
    error = refusal(path)
    assert error.message.startswith(f"{path}:4: byte {offset} of the file (0xE9) is not UTF-8")
    assert "--encoding; it may be latin-1" in error.hint
    assert read_examples(path, encoding="latin-1").texts[-1] == "café"
    error = refusal(path, on_bad_row="skip")
    assert "--encoding" in error.hint


def test_likely_encodings_are_named(tmp_path: Path) -> None:
    chinese = "text,label\n我非常喜欢这部电影,好\n价格太贵了,坏\n"
    assert "it may be gb18030" in refusal(write(tmp_path, chinese.encode("gb18030"))).hint
    windows = "text,label\n“fine”,pos\n".encode("cp1252")
    assert "cp1252" in refusal(write(tmp_path, windows)).hint
    error = refusal(write(tmp_path, GOOD.encode("utf-16-le")))
    assert "utf-16-le" in error.hint


def test_place_in_later_chunks_and_wide_encodings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "text,label\n我喜欢,好\n".encode()
    for size in (5, 7, 1 << 20):
        monkeypatch.setattr("gnomon.text.encodings._CHUNK", size)
        assert f":3: byte {len(body) + 1} of the file (0xFF)" in refusal(write(tmp_path, body + b"a\xff,b\n")).message
        wide = "text,label\nab,c\n".encode("utf-16")
        lone = wide + b"\x00\xd8" + "x".encode("utf-16-le")
        assert f":3: byte {len(wide)} of the file" in refusal(write(tmp_path, lone)).message


def test_unknown_encoding(tmp_path: Path) -> None:
    for name in ("utf8000", "hex", "rot13"):
        assert "no text encoding called" in refusal(write(tmp_path, GOOD), encoding=name).message


def test_one_class_only(tmp_path: Path) -> None:
    train = read_examples(write(tmp_path, "text,label\na,x\nb,x\n"))
    with pytest.raises(GnomonError, match="only the label 'x' in its 2 rows"):
        check_labels(train)


def test_label_unseen_in_training(tmp_path: Path) -> None:
    train = read_examples(write(tmp_path, GOOD))
    test = read_examples(write(tmp_path, "text,label\na,pos\nb,Neg\nc,Neg\nd,other\n", "test.csv"))
    with pytest.raises(GnomonError, match=r"test\.csv:3 has the label 'Neg', which .*a\.csv never has") as caught:
        check_labels(train, test)
    assert "did you mean 'neg'?" in caught.value.hint
    assert "1 more" in caught.value.message
    check_labels(train, train)


def test_texts_alone(tmp_path: Path) -> None:
    with pytest.raises(GnomonError, match="a NUL byte"):
        read_texts(write(tmp_path, "fine\nnul\0\n", "a.txt"))
    with pytest.raises(GnomonError, match="no label"):
        _ = read_texts(write(tmp_path, "fine\n", "a.txt")).labels


def test_no_permission() -> None:
    path = Path("/proc/1/mem")
    if not path.exists():
        pytest.skip("needs /proc")
    with pytest.raises(GnomonError, match="cannot read"):
        read_texts(path)


PIECES = st.sampled_from(
    [
        piece.encode()
        for piece in ("text", "label", ",", "\t", "\n", "\r\n", "\r", '"', '""', "{", "}", "[", "]", ":", " ")
    ]
    + [b'"text": "a"', b'"label": 1', b"\0", b"\xff", b"\xe9", b"\xef\xbb\xbf", b"\xff\xfe", b"null", b"\\ud83d", b"a"]
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    content=st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=40).map(b"".join)),
    suffix=st.sampled_from([".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".csv.gz", ""]),
    policy=st.sampled_from(["stop", "skip"]),
    labelled=st.booleans(),
)
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str, policy: str, labelled: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzz{suffix}"
    path.write_bytes(content)
    try:
        found = read_examples(path, on_bad_row=policy, labelled=labelled)
    except GnomonError:
        return
    assert len(found) > 0
    assert all(example.text.strip() and example.line >= 1 for example in found.examples)
    assert not labelled or len(found.labels) == len(found)
