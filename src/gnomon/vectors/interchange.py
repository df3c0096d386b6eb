"""Vectors in other programs' files: word2vec's text and binary formats, and GloVe's text, plain or gzipped.

word2vec's formats begin with a line "V D"; text has a word and D numbers a line, binary a word, a space and D
little-endian float32. GloVe's has no first line. gensim reads and writes all three. A word may not hold white space.
"""

from __future__ import annotations

import mmap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats.files import explained, new_file
from gnomon.formats.modeldir import is_pickle
from gnomon.text.encodings import opened
from gnomon.vectors.keyed import Array, Floats, WordVectors
from gnomon.vectors.storage import load

Format = Literal["word2vec", "word2vec-binary", "glove"]
FORMATS: tuple[Format, ...] = ("word2vec", "word2vec-binary", "glove")
_AGAIN = "download or write it again"
_LONGEST_WORD = 4096  # bytes; more without a space means that the place is wrong
_MOST_NUMBERS = 1 << 16


def read_vectors(path: Path | str) -> WordVectors:
    """Word vectors from a folder of our own, or from a file in any of the formats, which is found by its content.

    Raises GnomonError for what is missing, cut short, or does not hold what its first line promises.
    """
    place = Path(path)
    if not place.exists():
        raise GnomonError(f"there are no vectors {place}", "check the path")
    if place.is_dir():
        return load(place)
    if is_pickle(place):
        raise GnomonError(
            f"{place} is a pickle; gnomon never opens one, for a pickle can run any code",
            "in gensim: vectors.save_word2vec_format('vectors.bin', binary=True)",
        )
    with opened(place) as stream:
        data = _contents(place, stream)
        end = data.find(b"\n")
        first = data[: end if end >= 0 else len(data)].split()
        if not first:
            raise GnomonError(f"{place} is empty, or begins with an empty line", _AGAIN)
        if len(first) == 2 and all(number.isdigit() for number in first):
            words, size = int(first[0]), int(first[1])
            _check_header(place, words, size, len(data))
            if _is_text(data, end + 1, size):
                return _collect(place, _text_rows(place, data, end + 1, size, line=2), words, size)
            return _collect(place, _binary_rows(place, data, end + 1, words, size), words, size)
        return _collect(place, _text_rows(place, data, 0, len(first) - 1, line=1), None, len(first) - 1)


def write_vectors(vectors: WordVectors, path: Path | str, *, format: Format) -> None:
    """Write the table in use to a file, atomically. Raises GnomonError for a word that the format cannot hold."""
    for word in vectors.words:
        if not word or word.split() != [word]:
            raise GnomonError(
                f"the word {word!r} holds white space (or nothing), which {format} cannot express",
                "keep the vectors in a folder of gnomon's own",
            )
    with new_file(Path(path)) as file:
        if format != "glove":
            file.write(f"{len(vectors)} {vectors.size}\n".encode())
        _write_rows(vectors, file, binary=format == "word2vec-binary")


def _write_rows(vectors: WordVectors, file: BinaryIO, *, binary: bool) -> None:
    pattern = " ".join(["%.9g"] * vectors.size)  # nine digits are enough to give back every float32
    for number, word in enumerate(vectors.words):
        row = vectors.rows(slice(number, number + 1))[0]
        numbers = row.astype("<f4").tobytes() if binary else (pattern % tuple(row.tolist())).encode()
        file.write(word.encode() + b" " + numbers + b"\n")


def _contents(path: Path, stream: BinaryIO) -> mmap.mmap | bytes:
    """The whole file: mapped, or unpacked where it is gzipped."""
    if path.suffix.lower() == ".gz":
        return stream.read()
    with explained(path, doing="read"):
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""


def _check_header(path: Path, words: int, size: int, length: int) -> None:
    if not 1 <= size <= _MOST_NUMBERS or words < 1:
        raise GnomonError(f"{path}:1: a header of {words} words with {size} numbers makes no sense", _AGAIN)
    if words * (size + 2) > length:  # a number takes a byte at least, and so do a word and its space
        raise GnomonError(
            f"{path}: its first line promises {words:,} words with {size} numbers, and {length:,} bytes are too few",
            _AGAIN,
        )


def _is_text(data: mmap.mmap | bytes, start: int, size: int) -> bool:
    """Whether the line at `start` is a word and `size` numbers in text."""
    end = data.find(b"\n", start, start + _LONGEST_WORD + 64 * size)
    fields = data[start : end if end >= 0 else start + _LONGEST_WORD + 64 * size].split()
    try:
        return len(fields) > size and all(np.isfinite(float(field)) for field in fields[-size:])
    except ValueError:
        return False


def _collect(path: Path, rows: Iterator[tuple[str, Floats]], words: int | None, size: int) -> WordVectors:
    """The rows as vectors, of a word given twice the first; `words` is what the header promised."""
    table = np.empty((words or 1024, size), np.float32)
    names: dict[str, None] = {}
    count = 0
    for word, row in rows:
        count += 1
        if words is not None and count > words:
            raise GnomonError(f"{path} has more than the {words:,} words that its first line promises", _AGAIN)
        if word in names:
            continue
        if len(names) == len(table):
            table = np.concatenate([table, np.empty_like(table)])
        table[len(names)] = row
        names[word] = None
    if words is not None and count < words:
        raise GnomonError(
            f"{path} is cut short: its first line promises {words:,} words, and {count:,} are there", _AGAIN
        )
    return WordVectors(list(names), table[: len(names)], details={"source": path.name})


def _text_rows(
    path: Path, data: mmap.mmap | bytes, start: int, size: int, *, line: int
) -> Iterator[tuple[str, Floats]]:
    if size < 1:
        raise GnomonError(f"{path}:{line}: a word and its numbers are expected", "vectors in text have a word a line")
    number = line - 1
    while start < len(data):
        end = data.find(b"\n", start)
        number += 1
        if end < 0:
            raise GnomonError(
                f"{path}:{number}: the last line has no end, so the file may have been cut short",
                f"{_AGAIN}; where it is whole, add a line end",
            )
        raw, start = data[start:end], end + 1
        if not raw.strip():
            continue
        fields = raw.rstrip().rsplit(None, size)
        row = _numbers(b" ".join(fields[1:]), size)
        if len(fields) != size + 1 or row is None:
            raise GnomonError(
                f"{path}:{number}: a word and {size} numbers are expected, found {raw[:60].decode(errors='replace')!r}",
                _AGAIN,
            )
        yield _word(path, number, fields[0].strip()), row


def _numbers(text: bytes, size: int) -> Floats | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy's word for what is no number
        try:
            row: Array = np.fromstring(text.decode("ascii"), np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    return row if len(row) == size else None


def _binary_rows(
    path: Path, data: mmap.mmap | bytes, start: int, words: int, size: int
) -> Iterator[tuple[str, Floats]]:
    for number in range(words):
        space = data.find(b" ", start, start + _LONGEST_WORD)
        if space < 0 or space + 1 + 4 * size > len(data):
            raise GnomonError(
                f"{path} is cut short or damaged: of {words:,} words, number {number + 1:,} is not whole", _AGAIN
            )
        row = np.frombuffer(data[space + 1 : space + 1 + 4 * size], "<f4")
        yield _word(path, number + 1, data[start:space].lstrip(b"\n")), row
        start = space + 1 + 4 * size
    if data[start : start + 2].strip(b"\n"):
        raise GnomonError(f"{path} goes on after the {words:,} words that its first line promises", _AGAIN)


def _word(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise GnomonError(f"{path}: word {number:,}, {raw[:40]!r}, is not UTF-8", _AGAIN) from error
