"""How long one text takes, and how many a second, measured so that a busy machine is fair to all candidates.

Candidates take turns in short blocks, so slow moments of the machine fall on all of them, and every block
starts with untimed calls: the caches are the candidate's own again, and threads that the candidate before left
spinning have gone to sleep. Garbage collection is off while the clock runs.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gnomon.errors import GnomonError

Name = TypeVar("Name", bound=Hashable)
PredictOne = Callable[[str], object]
PredictMany = Callable[[Sequence[str]], object]


@dataclass(frozen=True, slots=True)
class Latency:
    """Median and 99th percentile of `count` single calls, in milliseconds."""

    p50_ms: float
    p99_ms: float
    count: int


def interleaved(
    candidates: Mapping[Name, PredictOne],
    texts: Sequence[str],
    *,
    rounds: int = 3,
    warmup: int = 10,
    seconds: float | None = None,
) -> dict[Name, Latency]:
    """Time every candidate on the same `texts`, in turns: in each round one block a candidate, the order rotating.

    `seconds` bounds the clock time of one candidate: its block ends early, after 20 calls at the least, when its
    share of a round is used up.
    """
    _refuse_empty(texts)
    names = list(candidates)
    times: dict[Name, list[int]] = {name: [] for name in names}
    limit = None if seconds is None else int(seconds / rounds * 1e9)
    with _without_garbage_collection():
        for turn in range(rounds):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                predict_one = candidates[name]
                for index in range(warmup):
                    predict_one(texts[index % len(texts)])
                times[name] += _timed_block(predict_one, texts, limit)
    return {name: _summary(nanoseconds) for name, nanoseconds in times.items()}


def quickest(measured: Mapping[Name, Latency], *, margin: float = 0.03) -> Name:
    """The first name whose median is within `margin` of the lowest: list the thriftiest (fewest threads) first."""
    lowest = min(result.p50_ms for result in measured.values())
    return next(name for name, result in measured.items() if result.p50_ms <= lowest * (1 + margin))


def throughput(predict_many: PredictMany, texts: Sequence[str], *, batch_size: int = 32, rounds: int = 3) -> float:
    """Texts per second when `texts` come in lists of `batch_size`: the best of `rounds`, after one untimed batch.

    The best round is the one least disturbed by whatever else the machine did.
    """
    _refuse_empty(texts)
    batches = [texts[start : start + batch_size] for start in range(0, len(texts), batch_size)]
    predict_many(batches[0])
    best = 0.0
    with _without_garbage_collection():
        for _ in range(rounds):
            start = time.perf_counter_ns()
            for batch in batches:
                predict_many(batch)
            best = max(best, len(texts) * 1e9 / max(1, time.perf_counter_ns() - start))
    return best


def _timed_block(predict_one: PredictOne, texts: Sequence[str], limit: int | None) -> list[int]:
    nanoseconds: list[int] = []
    clock = time.perf_counter_ns
    begin = clock()
    for text in texts:
        start = clock()
        predict_one(text)
        end = clock()
        nanoseconds.append(end - start)
        if limit is not None and end - begin > limit and len(nanoseconds) >= 20:
            break
    return nanoseconds


def _summary(nanoseconds: Sequence[int]) -> Latency:
    p50, p99 = np.percentile(np.asarray(nanoseconds, dtype=np.float64) / 1e6, [50, 99])
    return Latency(float(p50), float(p99), len(nanoseconds))


def _refuse_empty(texts: Sequence[str]) -> None:
    if not texts:
        raise GnomonError("there are no texts to time", "give at least one text")


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
