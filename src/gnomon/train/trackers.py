"""TensorBoard, where it is installed; metrics.jsonl is the engine's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from gnomon.runs import Run
from gnomon.train.hooks import Hook, Step
from gnomon.train.plan import FitResult


class TensorBoard(Hook):
    """Writes losses, rate, gradient norm and evaluations to `tensorboard/` in the run folder."""

    def __init__(self, run: Run, *, start: int, every: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._every = every
        # What an earlier start wrote after its last checkpoint is taken again: purge_step hides it.
        self._writer = SummaryWriter(str(run.path / "tensorboard"), purge_step=start + 1)

    def on_step(self, step: Step) -> None:
        """Every so many updates, the loss and what led to it."""
        if step.number % self._every and step.number != step.of:
            return
        scalars = {"loss": step.loss, "learning_rate": step.learning_rate, "gradient_norm": step.gradient_norm}
        for name, value in (scalars | {f"loss/{name}": share for name, share in step.terms.items()}).items():
            self._writer.add_scalar(f"train/{name}", value, step.number)

    def on_eval(self, number: int, metrics: Mapping[str, float]) -> None:
        """Every figure of an evaluation."""
        for name, value in metrics.items():
            self._writer.add_scalar(f"valid/{name}", value, number)
        self._writer.flush()

    def on_end(self, result: FitResult) -> None:
        """Close the files."""
        self._writer.close()


def installed_trackers(run: Run, *, start: int, every: int) -> list[Hook]:
    """The trackers whose packages are installed."""
    return [TensorBoard(run, start=start, every=every)] if importlib.util.find_spec("tensorboard") else []
