"""What vectors must beat: one-hot words, of which no two are alike, and words by their documents (TF-IDF)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnomon.vectors.encode import Corpus
from gnomon.vectors.lsa import tf_idf

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class SparseVectors:
    """Words and their vectors as the rows, each of length 1 or zero, of a scipy CSR matrix [V, D]."""

    words: Sequence[str]
    units: Any

    @cached_property
    def index(self) -> dict[str, int]:
        """The place of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def cosines(self, first: Array, second: Array) -> Array:
        """The cosines [N] of the words at the places `first` and `second`."""
        return np.asarray(self.units[first].multiply(self.units[second]).sum(axis=1)).ravel()

    def analogy_cosines(self, a: Array, b: Array, c: Array, *, limit: int) -> Array:
        """The scores [N, limit] of the first `limit` words with b - a + c, in the order of their cosines."""
        found: Array = ((self.units[b] - self.units[a] + self.units[c]) @ self.units[:limit].T).toarray()
        return found


def one_hot(words: Sequence[str]) -> SparseVectors:
    """Each word its own direction: an index, not a meaning (D7 1; worked example C8)."""
    return SparseVectors(words, sparse.identity(len(words), np.float32, "csr"))


def tf_idf_vectors(corpus: Corpus) -> SparseVectors:
    """Each word its row of the table of words by documents that LSA factorises."""
    rows = tf_idf(corpus).T.tocsr()
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    scale = sparse.diags(1 / np.where(lengths > 0, lengths, 1))
    return SparseVectors(corpus.vocabulary.words, (scale @ rows).tocsr())
