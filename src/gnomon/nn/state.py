"""What a causal model remembers of the texts it is reading, so that a further token costs one token's work.

A State is the key-value cache's generalisation: one Memory for each layer that needs one (keys and values, a recurrent
layer's vectors, the last inputs of a convolution), and which of the columns read so far are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from gnomon.errors import GnomonError

_FIRST_CAPACITY = 64


class Memory(Protocol):
    """One layer's part of a State, for B rows."""

    can_trim: bool
    """Whether it can go back to an earlier column."""

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was; `rows` int64 [any number]."""
        ...


class KeyValues:
    """Keys and values [B, H, capacity, d] of one attention layer, in buffers that double when they are full."""

    can_trim = True

    def __init__(self, *, capacity: int = _FIRST_CAPACITY) -> None:
        self._capacity = capacity
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._length = 0

    def append(self, key: Tensor, value: Tensor, *, start: int) -> tuple[Tensor, Tensor]:
        """Write `key`, `value` [B, H, T, d] from column `start` on -> all so far, views [B, H, start + T, d]."""
        self._length = end = start + key.shape[2]
        if self._keys is None or self._values is None or end > self._keys.shape[2]:
            self._keys, self._values = (
                self._grown(old, new, start=start, end=end) for old, new in ((self._keys, key), (self._values, value))
            )
        self._keys[:, :, start:end] = key
        self._values[:, :, start:end] = value
        return self._keys[:, :, :end], self._values[:, :, :end]

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was."""
        self._keys, self._values = self._chosen(self._keys, rows), self._chosen(self._values, rows)

    def _grown(self, old: Tensor | None, new: Tensor, *, start: int, end: int) -> Tensor:
        capacity = self._capacity if old is None else old.shape[2]
        while capacity < end:
            capacity *= 2
        grown = new.new_empty(new.shape[0], new.shape[1], capacity, new.shape[3])
        if old is not None:
            grown[:, :, :start] = old[:, :, :start]
        return grown

    def _chosen(self, buffer: Tensor | None, rows: Tensor) -> Tensor | None:
        if buffer is None:
            return None
        chosen = buffer.new_empty(len(rows), *buffer.shape[1:])
        chosen[:, :, : self._length] = buffer[rows, :, : self._length]
        return chosen


class Vectors:
    """Tensors with the row as dimension `dim`, replaced at every step: a recurrent layer's h and c [L, B, D], the last
    k - 1 inputs of a convolution [B, k - 1, D], the last ids of an n-gram table. Empty before the first step."""

    can_trim = False

    def __init__(self, *, dim: int = 0) -> None:
        self._dim = dim
        self.tensors: tuple[Tensor, ...] = ()

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was."""
        self.tensors = tuple(tensor.index_select(self._dim, rows) for tensor in self.tensors)


class State:
    """The memories of a model's layers for B rows, and the columns they have read."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self.memories = tuple(memories)
        self.length = 0
        """Columns read, padding included."""
        self.mask: Tensor | None = None
        """[B, length] bool, true on real tokens; None while there is no padding."""

    @property
    def can_trim(self) -> bool:
        """Whether `trim` can go back; a recurrent state holds only the present."""
        return all(memory.can_trim for memory in self.memories)

    @property
    def counts(self) -> int | Tensor:
        """Real tokens read by each row: one number, or [B] where there is padding."""
        return self.length if self.mask is None else self.mask.sum(dim=1)

    def seen(self, mask: Tensor | None, *, rows: int, length: int) -> Tensor | None:
        """The mask [B, self.length + length] of all columns once `length` more with `mask` are read; None: all real."""
        if mask is None and self.mask is None:
            return None
        device = mask.device if mask is not None else None if self.mask is None else self.mask.device
        before = torch.ones(rows, self.length, dtype=torch.bool, device=device) if self.mask is None else self.mask
        after = torch.ones(rows, length, dtype=torch.bool, device=device) if mask is None else mask
        return torch.cat([before, after], dim=1)

    def advance(self, length: int, mask: Tensor | None) -> None:
        """Note that `length` more columns were read, and `mask` [B, new length], as `seen` gave it."""
        self.length += length
        self.mask = mask

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was: beams that win twice, finished rows left out."""
        for memory in self.memories:
            memory.reorder(rows)
        if self.mask is not None:
            self.mask = self.mask[rows]

    def trim(self, length: int) -> None:
        """Forget all but the first `length` columns. Raises GnomonError where `can_trim` is false."""
        if length >= self.length:
            return
        if not self.can_trim:
            raise GnomonError("a recurrent or convolutional state holds only the present", "read the text again")
        self.length = length
        self.mask = None if self.mask is None else self.mask[:, :length]
