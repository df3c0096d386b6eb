"""Where the text of word vectors comes from: files, folders, standard input or lines in memory; a stream of pieces."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.text.documents import STANDARD_INPUT, documents, text_files
from gnomon.text.encodings import decoded_text, mend_surrogates, opened

_JSON_LINES = (".jsonl", ".ndjson")
_LINES_A_PIECE = 4096
_LONGEST_DOCUMENT = 1 << 24  # characters of one JSON text; what is longer counts as two sentences


@dataclass(frozen=True)
class Lines:
    """Text in memory: one sentence or document a line, words parted by white space."""

    lines: Iterable[str]


@dataclass(frozen=True)
class Files:
    """Text files with one sentence or document a line, .jsonl files, either as .gz, folders of them, and "-"."""

    paths: Sequence[Path | str]
    encoding: str | None = None
    text_field: str = "text"


Source = Lines | Files


def pieces(source: Source) -> Iterator[str]:
    """The text in pieces of about a million characters, which may end anywhere; every file ends with a line end.

    Raises GnomonError with file and line for what is missing, damaged or not in its encoding.
    """
    if isinstance(source, Lines):
        yield from _joined(mend_surrogates(line)[0] for line in source.lines)
        return
    for path in text_files(source.paths):
        if Path(path.name.lower().removesuffix(".gz")).suffix in _JSON_LINES:
            found = documents([path], text_field=source.text_field, encoding=source.encoding, longest=_LONGEST_DOCUMENT)
            yield from _joined(found)
        else:
            yield from _plain(path, source.encoding)
            yield "\n"


def lines(source: Source) -> Iterator[str]:
    """The text a line at a time, line ends left out."""
    held = ""
    for piece in pieces(source):
        *whole, held = (held + piece).split("\n")
        yield from whole
    if held:
        yield held


def _plain(path: Path, encoding: str | None) -> Iterator[str]:
    if path == STANDARD_INPUT:
        yield from decoded_text(sys.stdin.buffer, "standard input", encoding)
        return
    with opened(path) as stream:
        yield from decoded_text(stream, str(path), encoding)


def _joined(texts: Iterable[str]) -> Iterator[str]:
    batch: list[str] = []
    for text in texts:
        batch.append(text.replace("\n", " "))
        if len(batch) == _LINES_A_PIECE:
            yield "\n".join(batch) + "\n"
            batch.clear()
    if batch:
        yield "\n".join(batch) + "\n"
