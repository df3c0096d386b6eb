"""What every command's `run` returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import RenderableType


class Result(Protocol):
    """A result that a program can read (`to_dict`, what `--json` prints) and a person can (`shown`)."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        ...

    def shown(self) -> RenderableType:
        """What is printed to standard output."""
        ...


@dataclass(frozen=True)
class Trained:
    """Where a trained model is, and its figures on validation text; `planned` says what a dry run would do."""

    path: Path
    figures: dict[str, Any]
    planned: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Path, figures and plan."""
        return {"path": str(self.path), "figures": self.figures, "plan": self.planned}
