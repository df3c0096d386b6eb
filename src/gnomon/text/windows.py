"""Windows over a part's tokens for language models: packed, so that no attention crosses a document, and resumable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from gnomon.errors import GnomonError
from gnomon.text.shards import Array, TokenPart

NO_TARGET = -1


@dataclass(frozen=True, slots=True)
class Window:
    """T + 1 consecutive ids (fewer where the text ends), and the places in it where a document begins, 0 included."""

    ids: Array
    starts: Array


@dataclass(frozen=True, slots=True)
class Packed:
    """Windows side by side, each array [B, T].

    `targets` are the ids that follow, NO_TARGET where none does in the same document; `documents` number the documents
    of a row from 0, -1 on padding; `positions` count from 0 in each document, or from the window's beginning.
    """

    ids: Array
    targets: Array
    documents: Array
    positions: Array

    @property
    def num_targets(self) -> int:
        """The weight of the batch: places that have a target."""
        return int((self.targets != NO_TARGET).sum())


def pack(windows: Sequence[Window], *, length: int, pad_id: int) -> Packed:
    """Lay windows of at most `length` + 1 ids into rows of `length`, the rest padded with `pad_id`."""
    shape = (len(windows), length)
    ids, targets = np.full(shape, pad_id, np.int64), np.full(shape, NO_TARGET, np.int64)
    documents, positions = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    for row, window in enumerate(windows):
        size = min(len(window.ids), length)  # a text of one id alone is an input without a target
        begins = np.zeros(len(window.ids), np.int64)
        begins[window.starts] = 1
        begins[0] = 1
        document = np.cumsum(begins) - 1
        place = np.arange(len(window.ids))
        ids[row, :size] = window.ids[:size]
        documents[row, :size] = document[:size]
        positions[row, :size] = (place - np.maximum.accumulate(place * begins))[:size]
        follows = document[1:] == document[:-1]
        targets[row, : len(follows)] = np.where(follows, window.ids[1:], NO_TARGET)
    return Packed(ids, targets, documents, positions)


class PackedBatches:
    """Batches of windows of `length` inputs, a pure function of (seed, epoch, index); used where `Batches` is.

    Shuffled, epoch n cuts the text, closed to a ring, at places of its own, so that every token is read once (but for
    fewer than `length` that differ from epoch to epoch). Unshuffled, every epoch is the text in order, each token the
    target of one place; the last window may be short. `most_windows` limits an epoch, unshuffled to the beginning.
    """

    def __init__(
        self,
        part: TokenPart,
        *,
        batch_size: int,
        length: int,
        vocab_size: int,
        seed: int = 0,
        shuffle: bool = True,
        most_windows: int | None = None,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("length", length), ("most_windows", most_windows or 1)):
            if value < 1:
                raise GnomonError(f"{name} is {value}", "give 1 or more")
        if part.tokens < 2:
            raise GnomonError(
                f"the text in {part.folder} has {part.tokens} tokens", "at least 2 are needed to learn from"
            )
        self.part = part
        self.batch_size = batch_size
        self.length = length
        self.vocab_size = vocab_size
        self.seed = seed
        self.shuffle = shuffle
        whole, rest = divmod(part.tokens if shuffle else part.tokens - 1, length)
        windows = max(1, whole) if shuffle else whole + (rest > 0)
        self.num_windows = windows if most_windows is None else min(windows, most_windows)

    @property
    def steps_per_epoch(self) -> int:
        """Batches in one epoch."""
        return -(-self.num_windows // self.batch_size)

    def epoch(self, n: int) -> Sequence[list[Window]]:
        """The batches of epoch `n`, read one by one as they are asked for."""
        order, phase = np.arange(self.num_windows), 0
        if self.shuffle:
            random = np.random.Generator(np.random.PCG64([self.seed, n]))
            order, phase = random.permutation(self.num_windows), int(random.integers(self.part.tokens))
        return _Epoch(self, order, phase)

    def window(self, number: int, *, phase: int = 0) -> Window:
        """Window `number` of the cut that begins at place `phase`; GnomonError for an id beyond the vocabulary."""
        tokens = self.part.tokens
        start = phase + number * self.length
        if self.shuffle:
            start %= tokens
            stop = start + min(self.length + 1, tokens)
        else:
            stop = min(start + self.length + 1, tokens)
        ids, starts = self.part.read(start, min(stop, tokens)), self.part.starts(start, min(stop, tokens)) - start
        if stop > tokens:  # round the ring: place 0 begins a document
            ids = np.concatenate([ids, self.part.read(0, stop - tokens)])
            starts = np.concatenate([starts, self.part.starts(0, stop - tokens) + tokens - start])
        if ids.max() >= self.vocab_size:
            raise GnomonError(
                f"the tokens in {self.part.folder} hold the id {ids.max():,} near place {start:,}, "
                f"and the model knows the ids 0 to {self.vocab_size - 1:,}",
                "prepare the text with the model's own tokenizer",
            )
        return Window(ids, starts)


class _Epoch(Sequence[list[Window]]):
    def __init__(self, batches: PackedBatches, order: Array, phase: int) -> None:
        self._batches = batches
        self._order = order
        self._phase = phase

    def __len__(self) -> int:
        return -(-len(self._order) // self._batches.batch_size)

    @overload
    def __getitem__(self, index: int) -> list[Window]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[list[Window]]: ...
    def __getitem__(self, index: int | slice) -> list[Window] | Sequence[list[Window]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        first = index % len(self) * self._batches.batch_size
        numbers = self._order[first : first + self._batches.batch_size].tolist()
        return [self._batches.window(number, phase=self._phase) for number in numbers]
