"""The transfer set: the texts a teacher is asked about, of which only some have a gold label.

A teacher can label any text, so a student need not be limited to the texts that people labelled: it also learns from
unlabelled ones and from noisy copies of both (Tang et al. 2019, arXiv:1903.12136, section 3.3). A copy need not be good
language; it need only lie where the student will have to answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Scripts written without spaces between words: the unit is one character. Kana, Han (with its extensions and
# compatibility forms), Thai, Lao, Khmer, Myanmar.
_UNSPACED = (
    r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f"
)
_UNIT = re.compile(rf"(\s*)([{_UNSPACED}]|[^\s{_UNSPACED}]+)")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Augmentation:
    """How a copy differs from its source. Shares are of units: words, or characters where words have no spaces."""

    mask: float = 0.1  # share of units replaced by the mask token (left out where the tokenizer has none)
    swap: float = 0.1  # share of units replaced by one drawn from all texts, as often as it occurs there
    crop: float = 0.25  # share of copies cut to one run of units
    crop_units: tuple[int, int] = (2, 8)  # the shortest and the longest run, in words; twice that in characters
    join: float = 0.0  # share of copies whose tail is another text's


@dataclass(frozen=True)
class TransferSet:
    """`texts` and, for each, the index of the training text whose gold label it carries (-1: none).

    The originals come first, then one whole round of copies after the other, so that a set with fewer copies is a
    prefix of one with more, and one pass of the teacher serves students that need different numbers.
    """

    texts: tuple[str, ...]
    sources: NDArray[np.int64]
    copies: int

    def first(self, copies: int) -> TransferSet:
        """The same set with at most `copies` copies of each text."""
        if copies >= self.copies:
            return self
        size = len(self.texts) // (1 + self.copies) * (1 + copies)
        return TransferSet(self.texts[:size], self.sources[:size], copies)


def transfer_set(
    train: Sequence[str],
    unlabelled: Sequence[str] = (),
    *,
    copies: int,
    seed: int,
    mask_token: str | None,
    augmentation: Augmentation | None = None,
) -> TransferSet:
    """Training texts, unlabelled texts and `copies` augmented copies of each; the same for the same seed.

    `mask_token` is the teacher's ("[MASK]"), or None where its tokenizer has none.
    """
    originals = [*train, *unlabelled]
    origins = np.concatenate([np.arange(len(train)), np.full(len(unlabelled), -1)]).astype(np.int64)
    texts = list(originals)
    augmenter = _Augmenter(originals, mask_token, augmentation or Augmentation())
    for copy in range(copies):
        # A generator per round: the n-th round is the same however many follow it.
        generator = np.random.default_rng([seed, copy])
        texts.extend(augmenter.copy(index, generator) for index in range(len(originals)))
    return TransferSet(tuple(texts), np.tile(origins, 1 + copies), copies)


def units(text: str) -> list[tuple[str, str]]:
    """`text` as (white space before, unit) pairs; a unit is a word, or one character of a script without spaces."""
    return _UNIT.findall(text)


class _Augmenter:
    def __init__(self, texts: Sequence[str], mask_token: str | None, augmentation: Augmentation) -> None:
        self.rows = [units(text) for text in texts]
        self.texts = texts
        self.mask_token = mask_token
        self.settings = augmentation
        every = [unit for row in self.rows for _, unit in row]
        characters = [unit for unit in every if _IS_UNSPACED.match(unit)]
        words = [unit for unit in every if not _IS_UNSPACED.match(unit)]
        self.pools = {True: characters or words, False: words or characters}

    def copy(self, index: int, generator: np.random.Generator) -> str:
        """One noisy copy of a text; the text itself when it is too short to change."""
        settings = self.settings
        row = self._join(self.rows[index], generator) if generator.random() < settings.join else self.rows[index]
        noisy = []
        for (space, unit), draw in zip(row, generator.random(len(row)), strict=True):
            if draw < settings.mask:
                if self.mask_token is not None:
                    noisy.append((space or " ", self.mask_token))
            elif draw < settings.mask + settings.swap:
                pool = self.pools[_IS_UNSPACED.match(unit) is not None]
                noisy.append((space, pool[generator.integers(len(pool))]))
            else:
                noisy.append((space, unit))
        if generator.random() < settings.crop:
            noisy = self._crop(noisy, generator)
        return "".join(space + unit for space, unit in noisy).strip() or self.texts[index]

    def _crop(self, row: list[tuple[str, str]], generator: np.random.Generator) -> list[tuple[str, str]]:
        shortest, longest = self.settings.crop_units
        if row and sum(_IS_UNSPACED.match(unit) is not None for _, unit in row) > len(row) // 2:
            shortest, longest = 2 * shortest, 2 * longest
        if len(row) <= shortest:
            return row
        length = int(generator.integers(shortest, min(longest, len(row)) + 1))
        start = int(generator.integers(len(row) - length + 1))
        return row[start : start + length]

    def _join(self, row: list[tuple[str, str]], generator: np.random.Generator) -> list[tuple[str, str]]:
        other = self.rows[generator.integers(len(self.rows))]
        head, tail = row[: (len(row) + 1) // 2], other[len(other) // 2 :]
        return [*head, (tail[0][0] or " ", tail[0][1]), *tail[1:]] if tail else row
