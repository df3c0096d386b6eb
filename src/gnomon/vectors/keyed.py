"""Vectors by word: looking up, comparing, and finding what is near. numpy alone."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError

Floats = npt.NDArray[np.float32]
Array = npt.NDArray[Any]
TableName = Literal["input", "output", "sum"]
TABLES: tuple[TableName, ...] = ("input", "output", "sum")
_SPELLINGS = 200_000  # words a misspelt one is compared with
_BLOCK = 65_536  # rows turned to float32 at once


class UnknownWord(GnomonError, KeyError):  # noqa: N818 - named as GnomonError's other kin are
    """A word that the vectors do not have."""


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors: two tables [V, D], float32 or float16, which may be views of a file.

    `input` holds the words as they predict, `output` as they are predicted (None where there is one table). `table`
    says which one is meant by a word's vector: "input", "output" or their "sum". `counts` are the words' occurrences,
    int64 [V]; `details` says how the vectors were learnt.
    """

    words: Sequence[str]
    input: Array
    output: Array | None = None
    counts: Array | None = None
    table: TableName = "input"
    details: Mapping[str, Any] = field(default_factory=dict)
    tokenizer_json: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.table not in TABLES:
            raise GnomonError(f"there is no table {self.table!r}", f"expected one of: {', '.join(TABLES)}")
        if self.table != "input" and self.output is None:
            raise GnomonError(f"these vectors have no {self.table} table, only one of inputs", 'ask for "input"')
        shapes = {table.shape for table in (self.input, self.output) if table is not None}
        if len(shapes) != 1 or self.input.ndim != 2 or len(self.input) != len(self.words):
            raise GnomonError(f"{len(self.words)} words do not go with tables of the shapes {sorted(shapes)}")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str | Sequence[str]) -> Floats:
        """The vector of a word, float32 [D], or of several words [N, D]. Raises UnknownWord (a KeyError)."""
        if isinstance(word, str):
            one: Floats = self.rows(np.array([self.number(word)]))[0]
            return one
        return self.rows(np.array([self.number(each) for each in word], np.int64))

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        return int(self.input.shape[1])

    @cached_property
    def index(self) -> dict[str, int]:
        """The place of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def using(self, table: TableName) -> WordVectors:
        """The same words with the vectors of another table. Raises GnomonError where there is only one."""
        return WordVectors(self.words, self.input, self.output, self.counts, table, self.details, self.tokenizer_json)

    def number(self, word: str) -> int:
        """The place of a word. Raises UnknownWord with the nearest spelling."""
        found = self.index.get(word)
        if found is None:
            raise UnknownWord(f"the vectors do not have the word {word!r}", self._spelt_like(word))
        return found

    def rows(self, places: slice | Array) -> Floats:
        """The vectors at some places of the vocabulary, float32 [N, D]."""
        first = self.output if self.table == "output" else self.input
        assert first is not None
        rows = np.asarray(first[places], np.float32)
        if self.table == "sum" and self.output is not None:
            return rows + np.asarray(self.output[places], np.float32)
        return rows

    def matrix(self) -> Floats:
        """Every vector, float32 [V, D]."""
        return self.rows(slice(None))

    @cached_property
    def units(self) -> Floats:
        """Every vector scaled to length 1, float32 [V, D]; made at first use and kept. A zero vector stays zero."""
        units = np.empty(self.input.shape, np.float32)
        for start in range(0, len(units), _BLOCK):
            units[start : start + _BLOCK] = unit(self.rows(slice(start, start + _BLOCK)))
        return units

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words' vectors, from -1 to 1. Raises UnknownWord."""
        one, other = unit(self[[first, second]])
        return float(one @ other)

    def nearest(self, word: str | Array, *, count: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors have the largest cosine with a word's, which is left out, or with a vector."""
        if isinstance(word, str):
            number = self.number(word)
            return self._best(unit(self.rows(np.array([number])))[0], count, without=[number])
        vector = np.asarray(word, np.float32)
        if vector.shape != (self.size,):
            raise GnomonError(f"a vector of {self.size} numbers is expected, not one of shape {list(vector.shape)}")
        return self._best(unit(vector[None])[0], count, without=[])

    def analogy(self, a: str, b: str, c: str, *, count: int = 1) -> list[tuple[str, float]]:
        """What is to `c` as `b` is to `a`: the words nearest to b - a + c (of unit vectors), those three left out.

        Source: Mikolov, Yih and Zweig 2013 (3CosAdd of Levy and Goldberg 2014).
        """
        numbers = [self.number(word) for word in (a, b, c)]
        of_a, of_b, of_c = unit(self.rows(np.array(numbers)))
        return self._best(unit((of_b - of_a + of_c)[None])[0], count, without=numbers)

    def cosines(self, first: Array, second: Array) -> Floats:
        """The cosines [N] of the words at the places `first` and `second` [N]."""
        found: Floats = np.einsum("nd,nd->n", unit(self.rows(first)), unit(self.rows(second)))
        return found

    def analogy_cosines(self, a: Array, b: Array, c: Array, *, limit: int) -> Floats:
        """The cosines [N, limit] of the first `limit` words with b - a + c of unit vectors, each [N] places."""
        of_a, of_b, of_c = (unit(self.rows(places)) for places in (a, b, c))
        found: Floats = unit(of_b - of_a + of_c) @ self.units[:limit].T
        return found

    def save(self, path: Path | str, *, precision: Literal["float32", "float16"] = "float32") -> None:
        """Write a folder of our own, as a whole or not at all; see `storage`. `write_vectors` knows other formats."""
        from gnomon.vectors.storage import save

        save(self, path, precision=precision)

    @classmethod
    def load(cls, path: Path | str) -> WordVectors:
        """Read a folder of our own (mapped into memory), or a file of word2vec's or GloVe's; see `read_vectors`."""
        from gnomon.vectors.interchange import read_vectors

        return read_vectors(path)

    def _best(self, target: Floats, count: int, *, without: list[int]) -> list[tuple[str, float]]:
        cosines = self.units @ target
        cosines[without] = -np.inf
        count = max(0, min(count, len(self) - len(set(without))))
        best = np.argpartition(-cosines, count - 1)[:count] if count else np.zeros(0, np.int64)
        best = best[np.lexsort((best, -cosines[best]))]
        return [(self.words[number], float(cosines[number])) for number in best.tolist()]

    def _spelt_like(self, word: str) -> str:
        folded = word.lower()
        if folded in self.index:
            return f"did you mean {folded!r}?"
        choices = [other for other in self.words[:_SPELLINGS] if abs(len(other) - len(word)) <= 2]
        close = difflib.get_close_matches(word, choices, n=3, cutoff=0.6)
        if close:
            return f"did you mean {' or '.join(map(repr, close))}?"
        return "it was not in the text, or occurred too rarely (--min-count)"


def unit(vectors: Floats) -> Floats:
    """Rows scaled to length 1; a row of zeros stays one."""
    lengths: Floats = np.linalg.norm(vectors, axis=-1, keepdims=True)
    lengths[lengths == 0] = 1
    scaled: Floats = vectors / lengths
    return scaled
