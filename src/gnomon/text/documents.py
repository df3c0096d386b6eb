"""Files of raw text to a stream of documents, in bounded memory whatever the size of a file, a line or a document."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from gnomon.errors import GnomonError, did_you_mean
from gnomon.text.encodings import decoded_lines, decoded_text, mend_surrogates, opened

STANDARD_INPUT = Path("-")
LONGEST = 65_536  # characters; a longer document counts as several
_UNPACKED = 3  # what a byte of gzip commonly unpacks to, of text
_JSON_LINES = (".jsonl", ".ndjson")
_TEXT = (".txt", ".text", ".md", *_JSON_LINES)
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".json")


def documents(
    paths: Sequence[Path | str],
    *,
    separator: str | None = None,
    text_field: str = "text",
    encoding: str | None = None,
    longest: int = LONGEST,
) -> Iterator[str]:
    """The documents of text files, .jsonl files (the field `text_field` of each line), either as .gz, folders of them,
    and standard input ("-").

    A text file is one document, or as many as `separator` parts it into ("\\n": a line each; "<|endoftext|>").
    A document longer than `longest` characters is cut into several, after a line or before a space where it can be.
    CRLF is read as LF; what holds nothing but white space is left out. Raises GnomonError with file and line.
    """
    if separator == "":
        raise GnomonError("the separator of documents is empty", "give some text, or none for a document a file")
    for path in text_files(paths):
        with _stream(path) as stream:
            if _kind(path) in _JSON_LINES:
                wholes = _json_texts(stream, path, text_field, encoding)
                parts: Iterable[str] = (part for text in wholes for part in _cut(text, longest))
            else:
                parts = _split(_unix_lines(decoded_text(stream, _name(path), encoding)), separator, longest)
            yield from (part for part in parts if part.strip())


def typed_separator(text: str | None) -> str | None:
    """A separator as typed in a shell, where \\n, \\r and \\t are two characters each and mean one."""
    if text is None:
        return None
    for typed, meant in (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t")):
        text = text.replace(typed, meant)
    return text


def text_files(paths: Sequence[Path | str]) -> list[Path]:
    """The files that `paths` name; a folder gives its .txt, .md and .jsonl files, plain or .gz, at any depth."""
    if not paths:
        raise GnomonError("no text is given", "name text files, .jsonl files or folders, or - for standard input")
    found: list[Path] = []
    for path in map(Path, paths):
        if path == STANDARD_INPUT or path.is_file():
            _refuse_table(path)
            found.append(path)
        elif path.is_dir():
            inside = sorted(item for item in path.rglob("*") if _kind(item) in _TEXT and _is_visible(item, path))
            if not inside:
                raise GnomonError(f"the folder {path} holds no text", f"files of text end in {', '.join(_TEXT)} or .gz")
            found += inside
        else:
            raise GnomonError(f"there is no file {path}", "check the path")
    return found


def text_size(paths: Sequence[Path | str]) -> int | None:
    """About how many bytes of text the files that `paths` name hold; None where standard input is one of them."""
    files = text_files(paths)
    if STANDARD_INPUT in files:
        return None
    return sum(path.stat().st_size * (_UNPACKED if path.suffix.lower() == ".gz" else 1) for path in files)


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _name(path: Path) -> str:
    return "standard input" if path == STANDARD_INPUT else str(path)


def _is_visible(path: Path, folder: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _refuse_table(path: Path) -> None:
    if _kind(path) in _TABLES:
        raise GnomonError(
            f"{path} is a table or a list, not running text",
            'write one {"text": "..."} a line into a .jsonl file, or the texts into a .txt file',
        )


@contextmanager
def _stream(path: Path) -> Iterator[BinaryIO]:
    if path == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with opened(path) as stream:
        yield stream


def _unix_lines(pieces: Iterable[str]) -> Iterator[str]:
    held = ""
    for piece in pieces:
        text = held + piece
        held = "\r" if text.endswith("\r") else ""
        yield text.removesuffix(held).replace("\r\n", "\n")
    yield held


def _split(pieces: Iterable[str], separator: str | None, longest: int) -> Iterator[str]:
    """Parts of a stream of text, none longer than `longest`; what no separator ends yet is held, cut when too long."""
    held = ""
    reserve = len(separator or "")  # a separator may have begun in the last characters
    for piece in pieces:
        held += piece
        if separator is not None:
            *whole, held = held.split(separator)
            for text in whole:
                yield from _cut(text, longest)
        *parts, held = _cut(held, longest, reserve=reserve)
        yield from parts
    yield from _cut(held, longest)


def _cut(text: str, longest: int, *, reserve: int = 0) -> list[str]:
    """`text` in parts of at most `longest` characters (the last one up to `reserve` longer)."""
    parts = []
    start = 0
    while len(text) - start > longest + reserve:
        end = _place(text, start, start + longest)
        parts.append(text[start:end])
        start = end
    return [*parts, text[start:]]


def _place(text: str, start: int, end: int) -> int:
    """Where to cut text[start:end], in its second half where there is a place: after a line, else before a space."""
    middle = (start + end) // 2
    line = text.rfind("\n", middle, end)
    if line >= 0:
        return line + 1
    space = text.rfind(" ", middle, end)
    return space if space > start else end


def _json_texts(stream: BinaryIO, path: Path, field: str, encoding: str | None) -> Iterator[str]:
    for number, line in enumerate(decoded_lines(stream, _name(path), encoding), 1):
        if not line.strip():
            continue
        try:
            record: Any = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise GnomonError(
                f"{_name(path)}:{number}: not a JSON object on one line ({error})",
                f'one {{"{field}": "..."}} a line is expected',
            ) from error
        if not isinstance(record, dict):
            raise GnomonError(
                f"{_name(path)}:{number}: a {type(record).__name__}, not a JSON object",
                f'one {{"{field}": "..."}} a line is expected',
            )
        text = record.get(field)
        if not isinstance(text, str):
            found = "is no text" if field in record else "is missing"
            raise GnomonError(
                f"{_name(path)}:{number}: the field {field!r} {found}",
                f"name the field that holds the text with --text-field; {did_you_mean(field, map(str, record))}",
            )
        yield mend_surrogates(text)[0].replace("\r\n", "\n")
