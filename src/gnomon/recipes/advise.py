"""`gnomon advise RUN`: which model of a frontier fits a budget, and the two questions of D1 answered for this task."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gnomon.measure.budget import Advice, Budget, advise
from gnomon.recipes.frontier import read_frontier
from gnomon.reporting.console import Console


@dataclass(frozen=True)
class Config:
    """Is the ability enough? Is the cost acceptable? Neither, tune, distil, or tune then distil; and what to serve."""

    run: Path
    """The folder of a finished frontier."""
    _: KW_ONLY
    latency_ms: float | None = None
    """Milliseconds that one text may take (the median)."""
    size_mb: float | None = None
    """Megabytes that the served files may have."""
    memory_mb: float | None = None
    """Megabytes that a fresh process may need at its peak."""
    minimum_kept: float | None = None
    """The least share of the teacher's validation accuracy, for instance 0.97."""
    minimum_accuracy: float | None = None
    """The least validation accuracy."""


@dataclass(frozen=True)
class AdviseResult:
    """The decision, the candidate to serve, its folder and the reasons."""

    advice: Advice
    path: Path

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "decision": self.advice.decision,
            "pick": self.advice.pick,
            "path": str(self.path),
            "reasons": list(self.advice.reasons),
        }

    def shown(self) -> RenderableType:
        """The decision, the reasons a line each, and the folder."""
        return "\n".join([f"{self.advice.decision}: serve {self.advice.pick}", *self.advice.reasons, f"{self.path}"])


def run(config: Config, console: Console | None = None) -> AdviseResult:
    """Choose. Raises GnomonError when the run has no frontier, or when nothing fits, naming the nearest."""
    frontier = read_frontier(config.run)
    budget = Budget(
        latency_ms=config.latency_ms,
        size_mb=config.size_mb,
        memory_mb=config.memory_mb,
        minimum_kept=config.minimum_kept,
        minimum_accuracy=config.minimum_accuracy,
    )
    untuned = frontier.data.get("untuned_accuracy")
    advice = advise(frontier, budget, untuned_accuracy=untuned)
    return AdviseResult(advice, config.run / str(frontier.named(advice.pick).path))
