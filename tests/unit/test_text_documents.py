"""Files of raw text to documents: separators, long lines, folders, gzip, JSON lines, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.text import documents as d
from gnomon.text import encodings

quick = settings(deadline=None, derandomize=True, max_examples=60)


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_is_one_document_or_as_many_as_its_separator_says(tmp_path):
    path = write(tmp_path / "a.txt", "one\ntwo\n\n \nthree\n")
    assert list(d.documents([path])) == ["one\ntwo\n\n \nthree\n"]
    assert list(d.documents([path], separator="\n")) == ["one", "two", "three"]
    assert list(d.documents([path], separator="\n\n")) == ["one\ntwo", " \nthree\n"]
    assert list(d.documents([write(path, "a<|x|>b<|x|>")], separator="<|x|>")) == ["a", "b"]


def test_crlf_is_lf_and_a_byte_order_mark_is_no_text(tmp_path):
    path = write(tmp_path / "a.txt", b"\xef\xbb\xbfone\r\ntwo\r\rthree\r")
    assert list(d.documents([path])) == ["one\ntwo\r\rthree\r"]
    assert list(d.documents([write(path, "one\r\ntwo".encode("utf-16"))])) == ["one\ntwo"]


@given(
    text=st.text("ab \n|é", max_size=80),
    separator=st.sampled_from([None, "\n", "\n\n", "|", "a|b"]),
    size=st.integers(1, 7),
    longest=st.integers(1, 30),
)
@quick
def test_pieces_of_any_size_give_the_same_text_and_no_long_document(text, separator, size, longest):
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    parts = list(d._split(iter(pieces), separator, longest))
    whole = [text] if separator is None else text.split(separator)
    assert "".join(parts) == "".join(whole)
    assert max(map(len, parts), default=0) <= longest
    if max(map(len, whole)) <= longest - len(separator or ""):
        assert [part for part in parts if part] == [part for part in whole if part]


def test_a_long_line_is_cut_before_a_space_where_it_can_be():
    assert d._cut("aaa bbb\ncccc dddd", 8) == ["aaa bbb\n", "cccc", " dddd"]
    assert d._cut("x" * 20, 8) == ["x" * 8, "x" * 8, "x" * 4]


def test_a_huge_line_is_never_whole_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(encodings, "_CHUNK", 1 << 16)
    path = tmp_path / "a.txt"
    path.write_bytes(b"word " * 4_000_000)  # 20 MB in one line
    tracemalloc.start()
    characters = sum(map(len, d.documents([path])))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert characters == 20_000_000
    assert peak < 2_000_000


def test_folders_gzip_and_json_lines(tmp_path):
    (tmp_path / "in" / ".hidden").mkdir(parents=True)
    write(tmp_path / "in" / "b.txt", "bee")
    write(tmp_path / "in" / "c.jsonl.gz", gzip.compress(b'{"text": "see"}\n\n{"text": "\\ud83d"}\n{"text": " "}\n'))
    write(tmp_path / "in" / "a.md", "ay")
    write(tmp_path / "in" / "skip.png", "no")
    write(tmp_path / "in" / ".hidden" / "d.txt", "no")
    assert list(d.documents([tmp_path / "in"])) == ["ay", "bee", "see", "\ufffd"]
    assert d.text_size([tmp_path / "in"]) == 5 + 3 * (tmp_path / "in" / "c.jsonl.gz").stat().st_size


def test_a_long_json_text_is_cut(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps({"content": "ab " * 10, "id": 3}))
    assert "".join(d.documents([path], text_field="content", longest=8)) == "ab " * 10


def test_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("né\nb".encode())))
    assert list(d.documents(["-"], separator="\n")) == ["né", "b"]
    assert d.text_size(["-"]) is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', r"a\.jsonl:2: the field 'text' is missing"),
        ("a.jsonl", b'{"text": 3}\n', r"a\.jsonl:1: the field 'text' is no text"),
        ("a.jsonl", b'{"text": "a"}\n{"te\n', r"a\.jsonl:2: not a JSON object"),
        ("a.jsonl", b"[1]\n", r"a\.jsonl:1: a list, not a JSON object"),
        ("a.txt", b"ok\nna\xefve \xff", r"a\.txt:2: byte 5 of the file"),
        ("a.txt.gz", gzip.compress(b"x" * 99)[:-9], "damaged gzip"),
        ("a.txt.gz", b"not gzip", "damaged gzip"),
        ("a.csv", b"a,b", "table"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    with pytest.raises(GnomonError, match=message):
        list(d.documents([write(tmp_path / name, content)]))


def test_missing_files_empty_folders_and_no_paths_are_refused(tmp_path):
    for paths, message in (([tmp_path / "x.txt"], "no file"), ([tmp_path], "holds no text"), ([], "no text is given")):
        with pytest.raises(GnomonError, match=message):
            list(d.documents(paths))
    with pytest.raises(GnomonError, match="separator"):
        list(d.documents([write(tmp_path / "a.txt", "a")], separator=""))


def test_a_separator_typed_in_a_shell_means_what_it_means_in_code() -> None:
    typed = ("\\n", "\\n\\n", "\\t", "\n", "<|endoftext|>", "")
    assert [d.typed_separator(one) for one in typed] == ["\n", "\n\n", "\t", "\n", "<|endoftext|>", ""]
    assert d.typed_separator(None) is None
