"""What may watch a training: four events, and the hook that drives a progress bar."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gnomon.train.plan import FitResult


@dataclass(frozen=True, slots=True)
class Step:
    """One update: its number from 1 `of` so many, and the passes over the data so far.

    `loss` is the sum of `terms`, each term's share; `gradient_norm` is that before clipping.
    """

    number: int
    of: int
    epoch: float
    loss: float
    terms: Mapping[str, float]
    learning_rate: float
    gradient_norm: float


class Hook:
    """Sees a training's events; all do nothing unless overridden. A hook may not change the training."""

    def on_step(self, step: Step) -> None:
        """After each update."""

    def on_eval(self, number: int, metrics: Mapping[str, float]) -> None:
        """After the evaluation at update `number`."""

    def on_save(self, number: int, path: Path) -> None:
        """After the checkpoint at update `number` was written to `path`."""

    def on_end(self, result: FitResult) -> None:
        """When the training is complete."""


class ShowProgress(Protocol):
    """What shows progress: the update, of how many, the loss, the latest evaluation, and the seconds that are left."""

    def __call__(
        self, step: int, total: int, loss: float, metrics: Mapping[str, float], seconds_left: float, /
    ) -> None: ...


class Progress(Hook):
    """Calls `show` at most every `interval` seconds, and at the end; evaluations count into the time that is left."""

    def __init__(self, show: ShowProgress, *, interval: float = 0.1) -> None:
        self._show = show
        self._interval = interval
        self._metrics: Mapping[str, float] = {}
        self._first: tuple[int, float] | None = None
        self._shown = 0.0

    def on_step(self, step: Step) -> None:
        """Show this step, unless one was shown just now."""
        now = time.monotonic()
        if self._first is None:
            self._first = (step.number, now)
        if now - self._shown >= self._interval or step.number == step.of:
            start, began = self._first
            pace = (now - began) / (step.number - start) if step.number > start else 0.0
            self._shown = now
            self._show(step.number, step.of, step.loss, self._metrics, pace * (step.of - step.number))

    def on_eval(self, number: int, metrics: Mapping[str, float]) -> None:
        """Keep the latest figures."""
        self._metrics = metrics
