"""Text to word ids, read once: counted as it is read, kept in a file that is mapped into memory, not held in it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gnomon.formats.files import explained
from gnomon.vectors.counting import CHUNK, move_entries, renumber, scan
from gnomon.vectors.source import Source, lines, pieces
from gnomon.vectors.vocabulary import Vocabulary, most_frequent

if TYPE_CHECKING:
    from gnomon.text.tokenizer import Tokenizer

Array = npt.NDArray[Any]
_TEXTS_A_BATCH = 1024


@dataclass(frozen=True)
class Corpus:
    """Text as ids: int32, -1 after each sentence, in a file without a name that goes when the array does.

    `words_read` counts all words of the text, `vocabulary` holds those that occur often enough.
    """

    ids: Array
    sentences: int
    words_read: int
    vocabulary: Vocabulary


def encode(
    source: Source,
    *,
    min_count: int = 5,
    by_character: bool = False,
    tokenizer: Tokenizer | None = None,
    folder: Path | None = None,
    on_words: Callable[[int], None] = lambda words: None,
) -> Corpus:
    """Read, count and encode a text. Words are parted by white space, or are characters, or a tokenizer's tokens.

    The ids go to `folder` (default: the system's temporary folder), four bytes a word. `on_words` hears how many
    words have been read. Raises GnomonError for text that is missing, unreadable, empty or all too rare.
    """
    with explained(folder or Path(tempfile.gettempdir()), doing="write word ids to"):
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - the array that maps it outlives this function
        if tokenizer is None:
            counted: _Counted = _Words(by_character)
        else:
            counted = _Tokens(tokenizer)
        words_read = 0
        for ids in counted.read(source):
            ids.tofile(file)
            words_read += int(np.count_nonzero(ids >= 0))
            on_words(words_read)
    counts = counted.counts
    kept = most_frequent(counts, min_count, words_read=words_read)
    numbers = np.full(len(counts), -1, np.int32)
    numbers[kept] = np.arange(len(kept), dtype=np.int32)
    ids = _mapped(file)
    used, sentences = renumber(ids, numbers)
    return Corpus(ids[:used], sentences, words_read, Vocabulary(counted.texts(kept), counts[kept]))


def _mapped(file: IO[bytes]) -> Array:
    file.flush()
    return np.memmap(file, np.int32, mode="r+")


class _Words:
    """Words parted by white space, or single characters, numbered as they first appear."""

    def __init__(self, by_character: bool) -> None:
        self._by_character = by_character
        self._words = 0
        self._keys: Array = np.zeros(0, np.uint64)
        self._numbers: Array = np.zeros(0, np.int32)
        self._starts: Array = np.zeros(0, np.int64)
        self._arena: Array = np.zeros(0, np.uint64)
        self._counts: Array = np.zeros(0, np.int64)
        self._make_room(1 << 15, 1 << 16)

    @property
    def counts(self) -> Array:
        return self._counts[: self._words]

    def texts(self, numbers: Array) -> list[str]:
        arena = self._arena[: self._starts[self._words]].astype("<u8").tobytes()
        starts, ends = ((CHUNK * self._starts[numbers + after]).tolist() for after in (0, 1))
        return [arena[start:end].rstrip(b"\0").decode() for start, end in zip(starts, ends, strict=True)]

    def read(self, source: Source) -> Iterator[Array]:
        held = b""
        for piece in pieces(source):
            data = held + piece.encode()
            cut = len(data) if self._by_character else max(data.rfind(blank) for blank in (b"\n", b" ", b"\t")) + 1
            held = data[cut:]
            yield self._scan(data[:cut])
        yield self._scan(held + b"\n")

    def _scan(self, data: bytes) -> Array:
        """The ids of a text's words; between pieces stands white space, or they are of whole characters."""
        length = len(data)
        padded = data + b"\n" * (CHUNK - 1)
        array = np.frombuffer(padded, np.uint8)
        chunks: Array = np.ndarray(length, "<u8", padded, strides=(1,))
        out = np.empty(length, np.int32)
        place = written = 0
        while True:
            tables = (self._keys, self._numbers, self._starts, self._arena, self._counts)
            place, count, self._words = scan(
                array, chunks, place, self._by_character, *tables, self._words, out[written:]
            )
            written += count
            if place == length:
                return out[:written]
            self._make_room(2 * len(self._counts), 2 * len(self._arena) + length // CHUNK)

    def _make_room(self, words: int, size: int) -> None:
        """Tables for `words` words (a power of two) of `size` chunks in all, with what is known in them."""
        keys, numbers = np.zeros(2 * words, np.uint64), np.zeros(2 * words, np.int32)
        move_entries(self._keys, self._numbers, keys, numbers)
        self._keys, self._numbers = keys, numbers
        self._starts = _longer(self._starts, words + 1)
        self._arena = _longer(self._arena, size)
        self._counts = _longer(self._counts, words)


def _longer(array: Array, length: int) -> Array:
    """A copy with zeros after it."""
    copy = np.zeros(length, array.dtype)
    copy[: len(array)] = array
    return copy


class _Tokens:
    """A tokenizer's tokens, special ones left out, numbered as the tokenizer does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.counts = np.zeros(tokenizer.vocab_size, np.int64)

    def texts(self, numbers: Array) -> list[str]:
        names = {number: token for token, number in self._tokenizer.vocabulary.items()}
        return [names[number] for number in numbers.tolist()]

    def read(self, source: Source) -> Iterator[Array]:
        special = np.array(sorted(self._tokenizer.special_ids), np.int32)
        batch: list[str] = []
        for line in lines(source):
            batch.append(line)
            if len(batch) == _TEXTS_A_BATCH:
                yield self._encode(batch, special)
                batch.clear()
        yield self._encode(batch, special)

    def _encode(self, texts: list[str], special: Array) -> Array:
        rows = [[*encoded.ids, -1] for encoded in self._tokenizer.encode_batch(texts)]
        ids = np.fromiter((number for row in rows for number in row), np.int32)
        ids = ids[~np.isin(ids, special)]
        self.counts += np.bincount(ids[ids >= 0], minlength=len(self.counts))
        return ids


_Counted = _Words | _Tokens
