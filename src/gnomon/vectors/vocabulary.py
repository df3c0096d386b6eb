"""Which words there are and how often each occurs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Vocabulary:
    """Words by falling count (`counts`, int64 [V]); a word's id is its place."""

    words: Sequence[str]
    counts: Array

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def index(self) -> dict[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words)}

    @property
    def total(self) -> int:
        """Occurrences of all words."""
        return int(self.counts.sum())

    def keep_chances(self, subsample: float) -> Array:
        """The chance float64 [V] that an occurrence is trained on: word2vec's (sqrt(f / t) + 1) t / f, at most 1.

        f is a word's share of the text and t is `subsample`; 0 keeps every occurrence.
        """
        if subsample == 0:
            return np.ones(len(self))
        relative = self.counts / (subsample * self.total)
        return np.minimum((np.sqrt(relative) + 1) / relative, 1.0)


def most_frequent(counts: Array, min_count: int, *, words_read: int) -> Array:
    """The numbers of the words that occur `min_count` times or more, by falling count, then by first appearance.

    Raises GnomonError when fewer than two are left: there is nothing to learn from one word.
    """
    if words_read == 0:
        raise GnomonError("the text holds no words", "give text with one sentence or document a line")
    kept = np.flatnonzero(counts >= max(min_count, 1))
    if len(kept) < 2:
        distinct = int((counts > 0).sum())
        raise GnomonError(
            f"{len(kept)} of {distinct:,} different words occur {min_count} times or more in the {words_read:,} words "
            "read, and vectors need two words at least",
            "give more text or a lower --min-count; text without spaces needs --segment chars or --tokenizer",
        )
    return kept[np.argsort(-counts[kept], kind="stable")]
