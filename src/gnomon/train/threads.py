"""How many threads a step is fastest with, measured: more are often slower on small models."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from gnomon.runtime.threads import available_processors

_ROUNDS = 3
# A larger count must win by this much: two counts within the noise of a clock should give the same choice.
_WORTH = 0.97


@dataclass(frozen=True)
class ThreadChoice:
    """The count chosen, and the seconds of a step with each count tried."""

    threads: int
    seconds: Mapping[int, float]

    def __str__(self) -> str:
        tried = ", ".join(f"{count}: {1000 * seconds:.1f} ms" for count, seconds in self.seconds.items())
        return f"{self.threads} (a step with {tried})"


def choose_threads(step: Callable[[], object], candidates: Sequence[int] | None = None) -> ThreadChoice:
    """Time `step` with each count of threads, interleaved, and set torch to the fastest.

    `candidates` None: powers of two up to the processors, and all of them. The best of three rounds counts,
    after one that warms up. `step` must leave no trace (see `rehearsal`).
    """
    counts = sorted(set(candidates)) if candidates else _default_counts()
    seconds = dict.fromkeys(counts, float("inf"))
    for round_number in range(_ROUNDS + 1 if len(counts) > 1 else 0):
        for count in counts:
            torch.set_num_threads(count)
            start = time.perf_counter()
            step()
            if round_number:
                seconds[count] = min(seconds[count], time.perf_counter() - start)
    best = counts[0]
    for count in counts[1:]:
        if seconds[count] < _WORTH * seconds[best]:
            best = count
    torch.set_num_threads(best)
    return ThreadChoice(best, seconds)


def _default_counts() -> list[int]:
    processors = available_processors()
    return sorted({processors, *(2**power for power in range(processors.bit_length()))})
