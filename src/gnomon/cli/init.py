"""`gnomon init COMMAND`: a commented TOML of all of a command's settings."""

from __future__ import annotations

import importlib
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from gnomon.cli.table import COMMANDS
from gnomon.config import commented_toml
from gnomon.errors import GnomonError, did_you_mean
from gnomon.formats.files import write_text
from gnomon.reporting.console import Console


@dataclass(frozen=True)
class Config:
    """Write a commented TOML file with every setting of a command, its meaning and its default."""

    command: tuple[str, ...]
    """The command to configure, for instance frontier, or vectors train."""
    _: KW_ONLY
    out: Path | None = None
    """The file to write. Default: standard output."""
    overwrite: bool = False
    """Replace the file if it is there."""


@dataclass(frozen=True)
class InitResult:
    """The TOML text, and where it was written, if anywhere."""

    text: str
    out: Path | None

    def to_dict(self) -> dict[str, Any]:
        """The text and the path."""
        return {"toml": self.text, "out": str(self.out) if self.out else None}

    def shown(self) -> str:
        """The text itself, or one sentence where it was written to a file."""
        return f"wrote {self.out}; use it with --config {self.out}" if self.out else self.text.rstrip("\n")


def run(config: Config, console: Console | None = None) -> InitResult:
    """Write or return the TOML; refuses to replace a file unless asked."""
    commands = {command.name: command for command in COMMANDS if command.name != "init"}
    name = " ".join(config.command)
    if name not in commands:
        raise GnomonError(f"there is no command {name!r} to configure", did_you_mean(name, commands))
    command = commands[name]
    settings = getattr(importlib.import_module(command.module), command.settings)
    text = commented_toml(settings, title=f"gnomon {name} --config THIS_FILE")
    if config.out is not None:
        if config.out.exists() and not config.overwrite:
            raise GnomonError(f"{config.out} exists", "name another file, or give --overwrite")
        write_text(config.out, text)
    return InitResult(text, config.out)
