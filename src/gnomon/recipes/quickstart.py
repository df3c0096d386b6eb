"""`gnomon quickstart`: the whole job on built-in questions and a built-in teacher, in minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gnomon.recipes import frontier
from gnomon.recipes.demo import DEMO
from gnomon.recipes.frontier import FrontierResult
from gnomon.recipes.settings import DistilSettings, RunSettings
from gnomon.reporting.console import Console

_STUDENTS = ("static-ngrams", "convolutional", "recurrent", "encoder-2")
_COPIES = 4


@dataclass(frozen=True, kw_only=True)
class Config(RunSettings):
    """The frontier of 5,381 questions with 6 labels, taught by a tuned all-MiniLM-L6-v2.

    One student of each family, with fewer augmented copies than `gnomon frontier` takes, so that it ends sooner.
    """

    copies: int = _COPIES
    """Augmented copies of each question that the teacher labels."""
    student: tuple[str, ...] = _STUDENTS
    """The students to train."""


def run(config: Config, console: Console | None = None) -> FrontierResult:
    """Run the frontier on the demonstration. Raises GnomonError with the install command where packages are absent."""
    settings = frontier.Config(
        Path(DEMO),
        teacher=DEMO,
        out=config.out or Path("quickstart"),
        overwrite=config.overwrite,
        seed=config.seed,
        threads=config.threads,
        dry_run=config.dry_run,
        student=config.student,
        distil=DistilSettings(copies=config.copies),
    )
    console = console or Console()
    console.say(f"the same as: gnomon frontier demo --teacher demo --out {settings.out} " + _options(config))
    return frontier.run(settings, console)


def _options(config: Config) -> str:
    students = " ".join(f"--student {name}" for name in config.student)
    return f"--distil.copies {config.copies} --seed {config.seed} {students}"
