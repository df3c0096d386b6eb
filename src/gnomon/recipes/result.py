"""What every command's `run` returns."""

from __future__ import annotations

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
