"""`gnomon info DIR`: check a model folder and say what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from gnomon.errors import GnomonError
from gnomon.formats.check import FolderReport, check_model_dir
from gnomon.reporting.console import Console
from gnomon.runs import resolve_model


@dataclass(frozen=True)
class Config:
    """Check the files, tensors and shapes of a model folder; exit 2 when something is off."""

    folder: Path
    """A model folder, or a run folder (its pick)."""


@dataclass(frozen=True)
class InfoResult:
    """What the folder holds."""

    report: FolderReport

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return self.report.to_dict()

    def shown(self) -> RenderableType:
        """A table of what is there."""
        table = Table(show_header=False)
        for name, value in self.report.to_dict().items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            table.add_row(name.replace("_", " "), shown)
        return table


def run(config: Config, console: Console | None = None) -> InfoResult:
    """Check the folder. Raises GnomonError that lists everything that is off, after showing what could be read."""
    console = console or Console(quiet=True)
    result = InfoResult(check_model_dir(resolve_model(config.folder)))
    if result.report.problems:
        console.show(result.shown())
        listed = "\n    ".join(str(problem) for problem in result.report.problems)
        raise GnomonError(f"{config.folder} is damaged:\n    {listed}", "restore it from where it came")
    return result
