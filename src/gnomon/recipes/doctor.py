"""`gnomon doctor DATA`: look for faults in labelled text before anything is trained on it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gnomon.errors import GnomonError
from gnomon.recipes.inputs import (
    check_inputs,
    choose_max_length,
    examine,
    find_teacher,
    longest_text,
    read_inputs,
    read_tokenizer,
)
from gnomon.recipes.settings import SplitSettings
from gnomon.reporting.console import Console
from gnomon.reporting.tables import findings_table
from gnomon.text.quality import QualityReport


@dataclass(frozen=True)
class Config(SplitSettings):
    """Find duplicates, leaks from training to test, conflicting labels, imbalance, texts too long, unknown tokens."""

    data: Path
    """Labelled text: a .csv, .tsv, .jsonl, .parquet or .txt file, or "demo"."""
    _: KW_ONLY
    teacher: str | None = None
    """A teacher whose tokenizer the text is tried with: a folder, a run, a hub name, or "demo"."""
    max_length: int | None = None
    """Tokens a text is cut at. Default: the smallest of 64, 128, 256, 512 that cuts at most 1 % of the texts."""


@dataclass(frozen=True)
class DoctorResult:
    """What was found."""

    report: QualityReport

    def to_dict(self) -> dict[str, Any]:
        """Every finding and every figure behind it."""
        return self.report.to_dict()

    def shown(self) -> RenderableType:
        """A table of findings, the worst first."""
        return findings_table(self.report.to_dict())


def run(config: Config, console: Console | None = None) -> DoctorResult:
    """Examine the data. Raises GnomonError when a finding would stop a run, after showing the others."""
    console = console or Console(quiet=True)
    inputs = read_inputs(config.data, config, console, check=False)
    folder = find_teacher(config.teacher) if config.teacher else None
    tokenizer = read_tokenizer(folder, console) if folder else None
    length = config.max_length
    if folder is not None and tokenizer is not None and length is None:
        length = choose_max_length(tokenizer, inputs.train.texts, limit=longest_text(folder))
    result = DoctorResult(examine(inputs, tokenizer, length))
    try:
        check_inputs(inputs)
        if result.report.stop:
            raise GnomonError(result.report.stop)
    except GnomonError:
        console.show(result.shown())
        raise
    return result
