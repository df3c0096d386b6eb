"""Threads that run kernels, how far they are, and Ctrl-C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_TICK = 0.2  # seconds


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is: `done` of `total` (0: unknown) words or cells, how many a second, the loss of late."""

    stage: str
    done: int
    total: int
    per_second: float
    loss: float | None

    @property
    def seconds_left(self) -> float:
        """Seconds until the stage ends at this pace; infinite before it has one."""
        return (self.total - self.done) / self.per_second if self.per_second else float("inf")


Watch = Callable[[Progress], None]


def unwatched(progress: Progress) -> None:
    """A watch that looks away."""


@dataclass
class Meter:
    """Turns the counters that kernels write, float64 [threads, fields], into Progress for `watch`."""

    stage: str
    total: int
    watch: Watch
    started: float = field(default_factory=time.perf_counter)
    loss: float | None = None
    per_second: float = 0.0
    _seen: tuple[float, float] = (0.0, 0.0)

    def tell(self, done: float, loss: float, pairs: float) -> None:
        """`done` so far, and the loss summed over `pairs` so far."""
        if pairs > self._seen[1]:
            self.loss = (loss - self._seen[0]) / (pairs - self._seen[1])
            self._seen = (loss, pairs)
        seconds = time.perf_counter() - self.started
        self.per_second = done / seconds if seconds else 0.0
        self.watch(Progress(self.stage, int(done), self.total, self.per_second, self.loss))


class Gate:
    """Where threads wait for one another, and where all of them stop once halt[0] is set: at the same place."""

    def __init__(self, threads: int, halt: Array) -> None:
        self._stopped = np.zeros(1, np.int64)
        self._barrier = threading.Barrier(threads, action=lambda: np.copyto(self._stopped, halt))

    def passes(self) -> bool:
        """Wait for the others; False when all must stop."""
        self._barrier.wait()
        return not self._stopped[0]

    def abort(self) -> None:
        """Let nobody wait any more: whoever does fails."""
        self._barrier.abort()


def run_together(
    tasks: Sequence[Callable[[], None]], *, halt: Array, tick: Callable[[], None], gate: Gate | None = None
) -> bool:
    """Run each task in a thread of its own, calling `tick` five times a second and at the end.

    On Ctrl-C (KeyboardInterrupt) halt[0] becomes 1, which tasks must heed, and the result is True once they have
    stopped. The first exception of a task halts the others (at `gate`, where they wait) and is raised here.
    """
    failures: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            failures.append(error)
            halt[0] = 1
            if gate is not None:
                gate.abort()

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
    interrupted = False
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            next(thread for thread in threads if thread.is_alive()).join(_TICK)
            tick()
    except KeyboardInterrupt:
        interrupted = True
        halt[0] = 1
    for thread in threads:
        if thread.ident is not None:
            thread.join()
    tick()
    if failures:
        raise failures[0]
    return interrupted


def new_halt() -> Array:
    """The flag that stops kernels."""
    return np.zeros(1, np.int64)
