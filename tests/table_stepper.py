"""Language models for tests of the decoding loops: one made of random tables, one that wraps any model on one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gnomon.decoding.loop import log_softmax

RowModel = Callable[[Sequence[int]], np.ndarray]
"""Ids [T] of one text -> scores [T, V] of what follows each."""


class RowStepper:
    """A Stepper without a cache: it recomputes every row, without its padding, at every call."""

    def __init__(self, model: RowModel, *, max_length: int | None = None) -> None:
        self.model = model
        self.max_length = max_length
        self.calls: list[np.ndarray] = []  # what was fed in each step
        self.trim(0)

    def start(self, source_ids: np.ndarray, mask: np.ndarray) -> None:
        raise NotImplementedError

    def prefill(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        assert ids.dtype == np.int64
        assert mask.dtype == np.bool_
        if not self.ids.size:
            self.ids, self.mask = np.zeros((len(ids), 0), np.int64), np.zeros((len(ids), 0), bool)
        self.ids, self.mask = np.hstack([self.ids, ids]), np.hstack([self.mask, mask])
        assert self.max_length is None or self.ids.shape[1] <= self.max_length
        rows = [row[kept] for row, kept in zip(self.ids, self.mask, strict=True)]
        return np.stack([self.model(row.tolist() or [0])[-1] for row in rows])

    def step(self, ids: np.ndarray) -> np.ndarray:
        self.calls.append(ids.copy())
        return self.prefill(ids[:, None], np.ones((len(ids), 1), bool))

    def score(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        scores = np.zeros(ids.shape)
        for row, (line, real) in enumerate(zip(ids, mask, strict=True)):
            text = line[real]
            given = log_softmax(self.model(text.tolist()))[np.arange(len(text) - 1), text[1:]]
            scores[row, 1 : len(text)] = given
        return scores

    def reorder(self, rows: np.ndarray) -> None:
        self.ids, self.mask = self.ids[rows], self.mask[rows]

    def trim(self, length: int) -> None:
        if length == 0:
            self.ids, self.mask = np.zeros((0, 0), np.int64), np.zeros((0, 0), bool)
        else:
            self.ids, self.mask = self.ids[:, :length], self.mask[:, :length]


def table_model(vocab_size: int, *, seed: int = 0, scale: float = 2.0) -> RowModel:
    """Scores that depend on the last token and, through a hash with positions, on every token before it."""
    generator = np.random.default_rng(seed)
    last = generator.normal(scale=scale, size=(vocab_size, vocab_size)).astype(np.float32)
    past = generator.normal(scale=scale, size=(97, vocab_size)).astype(np.float32)

    def scores(ids: Sequence[int]) -> np.ndarray:
        tokens = np.asarray(ids, np.int64)
        place = np.cumsum((tokens + 1) * (np.arange(len(tokens)) + 3)) % 97
        return last[tokens] + past[place]

    return scores
