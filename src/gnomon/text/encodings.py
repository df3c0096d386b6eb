"""Files to bytes, bytes to text with the place of what does not decode; halves of surrogate pairs mended."""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from gnomon.errors import GnomonError
from gnomon.formats.files import explained

_CHUNK = 1 << 20
_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_BYTES = re.compile(rb"[\x80-\xff]+")
# The longer marks first: that of UTF-32 begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def mend_surrogates(text: str) -> tuple[str, int]:
    """Join the halves of surrogate pairs and replace each lone half by U+FFFD; also how many were replaced.

    Half a pair comes from JSON ("\\ud83d"), from text cut at UTF-16 units or from undecodable command-line bytes;
    no tokenizer takes it.
    """
    if _SURROGATE.search(text) is None:
        return text, 0
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.subn("\ufffd", joined)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The bytes of a file, of a .gz file those inside. Inside, errors of reading it are GnomonErrors that name it."""
    with explained(path, doing="read"):
        try:
            with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as stream:
                yield cast(BinaryIO, stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise GnomonError(f"{path} is a damaged gzip file: {error}", "restore it from where it came") from error


def decoded_lines(stream: BinaryIO, source: str, encoding: str | None = None) -> Iterator[str]:
    """The lines of `stream`, each with its "\\n": cut there and nowhere else. Raises GnomonError as `decoded_text`."""
    unfinished: list[str] = []
    for text in decoded_text(stream, source, encoding):
        *finished, last = text.split("\n")
        for line in finished:
            yield "".join((*unfinished, line, "\n"))
            unfinished.clear()
        unfinished.append(last)
    if any(unfinished):
        yield "".join(unfinished)


def decoded_text(stream: BinaryIO, source: str, encoding: str | None = None) -> Iterator[str]:
    """The text of `stream` in pieces of about a million characters. A byte order mark is obeyed and left out.

    Raises GnomonError with line, byte offset and value of the first byte that is not `encoding` (default UTF-8).
    """
    chunk = stream.read(_CHUNK)
    codec, offset = _codec(chunk, source, encoding)
    chunk = chunk[offset:]
    decoder = codecs.getincrementaldecoder(codec)()
    number = 1
    while True:
        waiting = len(decoder.getstate()[0])
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            number += codecs.decode(error.object[: error.start], codec, "ignore").count("\n")
            raise _undecodable(error, source, number, offset - waiting + error.start, codec) from error
        if offset <= len(codecs.BOM_UTF32_LE) and text.startswith("\ufeff"):
            text = text[1:]
        offset += len(chunk)
        number += text.count("\n")
        yield text
        if not chunk:
            return
        chunk = stream.read(_CHUNK)


def _codec(head: bytes, source: str, encoding: str | None) -> tuple[str, int]:
    """The codec's name, and the length of the byte order mark."""
    mark, marked = next(((mark, name) for mark, name in _MARKS if head.startswith(mark)), (b"", ""))
    if encoding is None:
        if not mark and len(head) > 3 and 0 in (head[0], head[1]) and head[:200].count(0) * 3 > len(head[:200]):
            raise GnomonError(
                f"{source} looks like UTF-16 without a byte order mark",
                f"give --encoding utf-16-{'be' if head[0] == 0 else 'le'}",
            )
        return marked or "utf-8", len(mark)
    try:
        name = codecs.lookup(encoding).name
        "".encode(name).decode(name)  # refuses codecs that are not from bytes to text, such as hex
    except (LookupError, ValueError) as error:
        raise GnomonError(
            f"there is no text encoding called {encoding!r}", "give one such as utf-8, utf-16, gb18030, big5 or latin-1"
        ) from error
    if marked.startswith(name.removesuffix("-sig")):
        return marked, len(mark)
    return name, 0


def _undecodable(error: UnicodeDecodeError, source: str, line: int, offset: int, codec: str) -> GnomonError:
    value = error.object[error.start]
    return GnomonError(
        f"{source}:{line}: byte {offset} of the file (0x{value:02X}) is not {codec.upper()}: {error.reason}",
        f"save the file as UTF-8, or say what it is with --encoding; it may be {_likely(error.object)}",
    )


def _likely(data: bytes) -> str:
    """A guess for the hint alone: Chinese text has its high bytes in pairs, Western text has lone ones."""
    runs = [len(run) for run in _HIGH_BYTES.findall(data)]
    paired = sum(run for run in runs if run % 2 == 0)
    try:
        codecs.getincrementaldecoder("gb18030")().decode(data)
    except UnicodeDecodeError:
        paired = 0
    if paired > 0.8 * sum(runs):
        return "gb18030"
    return "cp1252 or latin-1" if re.search(rb"[\x80-\x9f]", data) else "latin-1"
