"""Rows to batches of like length, as a pure function of (seed, epoch): nothing to save but a place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Generic, TypeVar, overload

import numpy as np

from gnomon.errors import GnomonError

T = TypeVar("T")

# Rows are sorted by length within this many batches: enough for little padding, few enough to stay well shuffled.
_MEGA_BATCH = 50


def pad(rows: Sequence[Sequence[int] | np.ndarray], *, pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    """ids int64 [B, T] padded at the end with `pad_id`, and mask bool [B, T], true on real tokens.

    T is the longest row's length, at least 1.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    mask = np.arange(max(1, lengths.max(initial=0))) < lengths[:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    if len(rows) and isinstance(rows[0], np.ndarray):
        ids[mask] = np.concatenate(rows)
    else:
        ids[mask] = np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))
    return ids, mask


def length_sorted_batches(lengths: Sequence[int] | np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Row numbers in batches, shortest rows first, equal lengths in their order: the least padding there is."""
    order = np.argsort(np.asarray(lengths, np.int64), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


class Batches(Generic[T]):
    """Batches of `rows`, every row exactly once an epoch, the last batch possibly smaller.

    Shuffled, an epoch takes a permutation of the rows, sorts each run of 50 batches by length, cuts it and shuffles
    the order of the batches; all of it follows from `seed` and the epoch's number alone, so (epoch, index) is a place
    in the data. Unshuffled, every epoch is the same: shortest rows first, equal lengths in their order.
    """

    def __init__(
        self,
        rows: Sequence[T],
        lengths: Sequence[int] | np.ndarray,
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        if batch_size < 1:
            raise GnomonError(f"batch_size is {batch_size}", "give 1 or more")
        if seed < 0:
            raise GnomonError(f"seed is {seed}", "give 0 or more")
        if len(rows) != len(lengths):
            raise ValueError(f"{len(rows)} rows and {len(lengths)} lengths")
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed
        self.shuffle = shuffle
        self._lengths = np.asarray(lengths, np.int64)

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one epoch."""
        return -(-len(self.rows) // self.batch_size)

    def epoch(self, n: int) -> Sequence[list[T]]:
        """The batches of epoch `n`, made one by one as they are asked for."""
        if not self.shuffle:
            return _Epoch(self.rows, length_sorted_batches(self._lengths, batch_size=self.batch_size))
        random = np.random.Generator(np.random.PCG64([self.seed, n]))
        order = random.permutation(len(self.rows))
        mega_batch = np.arange(len(order)) // (self.batch_size * _MEGA_BATCH)
        order = order[np.lexsort((self._lengths[order], mega_batch))]
        starts = random.permutation(self.steps_per_epoch) * self.batch_size
        return _Epoch(self.rows, [order[start : start + self.batch_size] for start in starts])


class _Epoch(Sequence[list[T]]):
    def __init__(self, rows: Sequence[T], batches: list[np.ndarray]) -> None:
        self._rows = rows
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    @overload
    def __getitem__(self, index: int) -> list[T]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[list[T]]: ...
    def __getitem__(self, index: int | slice) -> list[T] | Sequence[list[T]]:
        if isinstance(index, slice):
            return _Epoch(self._rows, self._batches[index])
        return [self._rows[row] for row in self._batches[index].tolist()]
