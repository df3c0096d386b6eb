"""Learning by negative sampling: what skip-gram and CBOW share. Shards of the text, one thread each.

The plain way with several threads is Hogwild (Niu et al. 2011): all write to the same two tables, unguarded, and no
two runs are quite alike. The deterministic way gives every thread a copy of the tables; after each round of text a
row becomes its old self plus the mean move of the copies that touched it, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError
from gnomon.vectors.encode import Corpus
from gnomon.vectors.kernels import (
    LOSS,
    PAIRS,
    POOL,
    REPORT_FIELDS,
    WORDS,
    Sampling,
    Shape,
    Tables,
    combine,
    train_stretch,
)
from gnomon.vectors.lanes import LANES, LINE
from gnomon.vectors.randomness import build_alias, seed_state
from gnomon.vectors.settings import Settings
from gnomon.vectors.workers import Gate, Meter, Watch, new_halt, run_together, unwatched

Array = npt.NDArray[Any]
POWER = 0.75
"""A negative is drawn in proportion to its count to this power (Mikolov et al. 2013)."""
LAST_RATE = 1 / 250
"""What is left of the learning rate at the end: word2vec's 0.0001 of 0.025."""
ROUND = 1 << 16
"""Words of one round of a deterministic thread: long enough that joining the copies costs little."""
ROUNDS_AN_EPOCH = 8
"""At least so many, for short texts."""


@dataclass(frozen=True)
class Learnt:
    """The tables float32 [V, D] (`output` None where there is one table), and how the learning went."""

    input: Array
    output: Array | None
    interrupted: bool = False
    loss: float | None = None
    per_second: float = 0.0


def learn(corpus: Corpus, settings: Settings, *, mean: bool, watch: Watch = unwatched) -> Learnt:
    """Learn by skip-gram, or by CBOW where the `mean` of a window predicts. Ctrl-C ends it early, with what is there.

    Raises GnomonError when the vocabulary is too small for the settings.
    """
    lesson = _Lesson(corpus, settings, mean=mean, watch=watch)
    interrupted = lesson.rounds() if settings.deterministic and lesson.threads > 1 else lesson.hogwild()
    size = settings.size
    output = None if settings.shared_table else lesson.output[:, :size]
    return Learnt(lesson.input[:, :size], output, interrupted, lesson.meter.loss, lesson.meter.per_second)


class _Lesson:
    """The tables, what is drawn and the counters of one training."""

    def __init__(self, corpus: Corpus, settings: Settings, *, mean: bool, watch: Watch) -> None:
        words = len(corpus.vocabulary)
        self.ids = corpus.ids
        self.settings = settings
        self.threads = settings.used_threads
        self.epochs = settings.used_epochs
        self.shape = Shape(settings.window, _negatives(words, settings), mean)
        self.input, self.output = _tables(words, settings)
        self.halt = new_halt()
        self.report = np.zeros((self.threads, REPORT_FIELDS))
        total = (len(corpus.ids) - corpus.sentences) * self.epochs
        self.meter = Meter("training", total, watch)
        self._keep = (corpus.vocabulary.keep_chances(settings.subsample) * 2.0**32).astype(np.uint64)
        self._weights = corpus.vocabulary.counts**POWER
        self._thresholds = np.empty(words, np.uint32)
        self._others = np.empty(words, np.int32)
        build_alias(self._weights / self._weights.mean(), self._thresholds, self._others)

    def hogwild(self) -> bool:
        """Every thread its shard, all on the same tables; True when interrupted."""
        untouched = np.zeros(0, np.uint8)
        tables = self._as_tables(self.input, self.output)
        spans = _shards(self.ids, self.threads)

        def task(number: int) -> None:
            state, sampling = self._drawing(number)
            for epoch in range(self.epochs):
                state = self._train(number, spans[number], spans[number], epoch, tables, sampling, state, untouched)

        return self._run(task)

    def rounds(self) -> bool:
        """Every thread its shard on copies of its own, joined after each round; True when interrupted."""
        words = len(self.input)
        masters = [self.input] if self.settings.shared_table else [self.input, self.output]
        flags = (3,) if self.settings.shared_table else (1, 2)
        copies = [np.repeat(master[None], self.threads, axis=0) for master in masters]
        touched = np.zeros((self.threads, words), np.uint8)
        spans = _shards(self.ids, self.threads)
        bounds = [words * number // self.threads for number in range(self.threads + 1)]
        longest = max(stop - start for start, stop in spans)
        count = max(ROUNDS_AN_EPOCH, -(-longest // ROUND))
        gate = Gate(self.threads, self.halt)

        def task(number: int) -> None:
            state, sampling = self._drawing(number)
            tables = self._as_tables(copies[0][number], copies[-1][number])
            for epoch in range(self.epochs):
                for part in _parts(spans[number], count):
                    state = self._train(number, part, spans[number], epoch, tables, sampling, state, touched[number])
                    gate.passes()
                    for master, copy, flag in zip(masters, copies, flags, strict=True):
                        combine(master, copy, touched, flag, bounds[number], bounds[number + 1])
                    if not gate.passes():
                        return

        return self._run(task, gate)

    def _run(self, task: Callable[[int], None], gate: Gate | None = None) -> bool:
        tasks = [lambda number=number: task(number) for number in range(self.threads)]
        return run_together(tasks, halt=self.halt, tick=self._tick, gate=gate)

    def _tick(self) -> None:
        done = self.report.sum(axis=0)
        self.meter.tell(done[WORDS], done[LOSS], done[PAIRS])

    def _as_tables(self, input_rows: Array, output_rows: Array) -> Tables:
        return Tables(input_rows.ctypes.data, output_rows.ctypes.data, input_rows.shape[1])

    def _drawing(self, number: int) -> tuple[np.uint64, Sampling]:
        """A thread's own random state and pool of negatives."""
        state = seed_state(self.settings.seed, number, 1)
        generator = np.random.default_rng([self.settings.seed, number, 2])
        pool = generator.choice(len(self._weights), POOL, p=self._weights / self._weights.sum())
        return state, Sampling(self._keep, self._thresholds, self._others, pool.astype(np.int64))

    def _train(
        self,
        number: int,
        part: tuple[int, int],
        shard: tuple[int, int],
        epoch: int,
        tables: Tables,
        sampling: Sampling,
        state: np.uint64,
        touched: Array,
    ) -> np.uint64:
        """Train on `part` of a thread's `shard`, at the rates of its place in the whole training."""
        length = max(shard[1] - shard[0], 1)
        places = [(epoch + (place - shard[0]) / length) / self.epochs for place in part]
        rates = tuple(self.settings.used_rate * (1 + (LAST_RATE - 1) * place) for place in places)
        arguments = (tables, sampling, self.shape, state, touched, self.report[number], self.halt)
        return np.uint64(train_stretch(self.ids, part, rates, *arguments))


def _negatives(words: int, settings: Settings) -> int:
    """As many negatives as asked for, or as there are words that can be ones."""
    free = words - 1 - (2 * settings.window if settings.shared_table else 0)
    if free < 1:
        raise GnomonError(
            f"{words} words are too few for a shared table with a window of {settings.window}: "
            "every word may be near, and none is left to set against it",
            f"leave out --shared-table, or give --window {max(1, (words - 2) // 2)} or less",
        )
    return min(settings.negatives, free)


def _tables(words: int, settings: Settings) -> tuple[Array, Array]:
    """Rows padded to whole registers: input at random in +-1 / D as in gensim, output zero; when shared, one table."""
    width = -(-settings.size // LANES) * LANES
    generator = np.random.default_rng([settings.seed, 0])
    rows = _aligned(words, width)
    for start in range(0, words, 65_536):
        block = rows[start : start + 65_536, : settings.size]
        block[:] = (2 * generator.random(block.shape, np.float32) - 1) / settings.size
    return rows, rows if settings.shared_table else _aligned(words, width)


def _aligned(words: int, width: int) -> Array:
    """Zeros float32 [words, width] that begin at a cache line."""
    size = 4 * words * width
    buffer = np.zeros(size + LINE, np.uint8)
    start = -buffer.ctypes.data % LINE
    return buffer[start : start + size].view(np.float32).reshape(words, width)


def _shards(ids: Array, count: int) -> list[tuple[int, int]]:
    """`count` stretches of about equal length, cut after sentences where one ends within reach."""
    cuts = [0]
    for number in range(1, count):
        place = max(cuts[-1], len(ids) * number // count)
        ends = np.flatnonzero(ids[place : place + ROUND] < 0)
        cuts.append(place + int(ends[0]) + 1 if len(ends) else place)
    return list(zip(cuts, [*cuts[1:], len(ids)], strict=True))


def _parts(span: tuple[int, int], count: int) -> list[tuple[int, int]]:
    """`span` in `count` equal parts."""
    cuts = [span[0] + (span[1] - span[0]) * number // count for number in range(count + 1)]
    return list(pairwise(cuts))
