"""Settings that several commands share, each a documented dataclass to inherit from or to nest."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gnomon.config import to_dict

_NOT_COMPARED = ("out", "overwrite", "dry_run")


@dataclass(frozen=True, kw_only=True)
class ReadSettings:
    """How a person's files are read."""

    text_column: str | None = None
    """The column that holds the text: its name, or its number from 1 without a header. Default: found by name."""
    label_column: str | None = None
    """The column that holds the label: its name or number. Default: found by name."""
    encoding: str | None = None
    """The files' encoding. Default: UTF-8, or UTF-16 where a byte order mark says so."""
    on_bad_row: Literal["stop", "skip"] = "stop"
    """What to do with a row that cannot be read: stop at it, or skip, count and list it."""


@dataclass(frozen=True, kw_only=True)
class SplitSettings(ReadSettings):
    """Where validation and test rows come from."""

    valid: Path | None = None
    """Labelled text to choose settings by. Default: 10 % of the data, by a hash of each text."""
    test: Path | None = None
    """Labelled text to report figures on. Default: 10 % of the data, by a hash of each text."""


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Where a run goes and what it may use."""

    out: Path | None = None
    """The run folder. Default: runs/COMMAND-DATA. Starting again with the same folder and settings continues."""
    overwrite: bool = False
    """Begin anew where the run folder holds a run with other settings."""
    seed: int = 0
    """Seed of everything random: the same seed and thread count give the same result."""
    threads: int | None = None
    """Threads to train with. Default: the count that a measured step is fastest with."""
    dry_run: bool = False
    """Read, check and plan, print what would be done, and stop before any training."""


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """How the teacher is tuned."""

    again: bool = False
    """Tune even a teacher that answers with the data's labels already. Default: it is taken as it is."""
    epochs: int | None = None
    """Passes over the training text. Default: 3 with 300 or more rows a class, 5 with 100 or more, else 8."""
    batch_size: int = 32
    """Texts a step."""
    learning_rate: float = 1e-4
    """Peak learning rate; it rises over the first tenth of the steps and then falls linearly to zero."""
    weight_decay: float = 0.01
    """Decoupled weight decay of matrices; norms and biases have none."""
    accumulation: int = 1
    """Batches summed up before each step of the optimiser."""
    optimizer: Literal["adamw", "adam_l2", "adam", "momentum", "sgd"] = "adamw"
    """adam_l2 adds the decay to the gradient, adamw takes it off the weight; adam has none."""
    clip_norm: float = 1.0
    """Largest norm of the gradient of all parameters together."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: rows of rare labels count more, so that every label counts alike."""
    patience: int | None = None
    """Stop after so many evaluations (one an epoch) without a better validation accuracy. Default: never."""
    max_length: int | None = None
    """Tokens a text is cut at. Default: the smallest of 64, 128, 256, 512 that cuts at most 1 % of the texts."""


@dataclass(frozen=True, kw_only=True)
class DistilSettings:
    """How students are distilled. What is not given is as each family does best (`--dry-run` lists it)."""

    temperature: float = 2.0
    """Softens both distributions, so that the order among wrong labels counts; 0.01 to 100."""
    alpha: float = 0.9
    """The teacher's share of the loss; the rest is cross-entropy to the gold label, where there is one."""
    hidden: float = 0.0
    """Coefficient of a term that draws the student's pooled vector, projected, to the teacher's; 0 leaves it out."""
    hidden_kind: Literal["cosine", "mse"] = "cosine"
    """How that distance is measured."""
    copies: int | None = None
    """Augmented copies of each text that the teacher labels."""
    epochs: int | None = None
    """Passes over the texts and their copies."""
    batch_size: int | None = None
    """Texts a step."""
    learning_rate: float | None = None
    """Peak learning rate; it rises over the first tenth of the steps and then falls linearly to zero."""
    weight_decay: float = 0.01
    """Decoupled weight decay of matrices."""


def run_folder(config: RunSettings, command: str, data: Path) -> Path:
    """The run folder asked for, or runs/COMMAND-DATA."""
    return config.out if config.out is not None else Path("runs") / f"{command}-{data.stem}"


def resume_command(command: str, out: Path) -> str:
    """The command line that goes on with the run in `out`, whatever its settings were."""
    return f"gnomon {command} --resume {shlex.quote(str(out))}"


def run_settings(config: RunSettings) -> dict[str, Any]:
    """The settings that make two runs the same run: all but where it goes and whether it starts anew."""
    return {name: value for name, value in to_dict(config).items() if name not in _NOT_COMPARED}
