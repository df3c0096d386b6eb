"""`gnomon distill DATA --teacher DIR`: project a tuned teacher onto a smaller family of functions (D1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import RenderableType

from gnomon.errors import GnomonError
from gnomon.formats.modeldir import label_names, read_config
from gnomon.recipes.extras import need_training
from gnomon.recipes.inputs import (
    Inputs,
    examine,
    find_teacher,
    keep_parents,
    read,
    read_inputs,
    read_tokenizer,
    read_unlabelled,
    report_findings,
    weights,
)
from gnomon.recipes.result import Trained
from gnomon.recipes.settings import DistilSettings, RunSettings, SplitSettings, resume_command, run_folder, run_settings
from gnomon.reporting.console import Console
from gnomon.runs import MODEL, Run


@dataclass(frozen=True)
class Config(SplitSettings, RunSettings, DistilSettings):
    """Distil a tuned teacher onto one student, and deploy it. Text alone is enough: `--labels teacher`."""

    data: Path
    """The text to learn on, labelled or not, or "demo"."""
    _: KW_ONLY
    teacher: str
    """A tuned teacher: a model folder or the run that tuned it."""
    student: str = "static"
    """A family (encoder, recurrent, convolutional, static), a name of the frontier's (encoder-2, static-ngrams ...),
    or a family with options, as in recurrent:cell=gru,hidden_size=64."""
    labels: Literal["gold", "teacher"] = "gold"
    """gold: the data has labels. teacher: it has none, or they are not to be used."""
    unlabelled: Path | None = None
    """More text, without labels, for the teacher to label."""
    vectors: Path | None = None
    """Word vectors (of gnomon vectors train, word2vec's or GloVe's) that static students start from, whole vocabulary
    and all. Default: the teacher's own."""
    gold_only: bool = False
    """Train the twin that learns from the gold labels alone instead: the control."""


class DistillResult(Trained):
    """A distilled student."""

    def shown(self) -> RenderableType:
        """One sentence and how to go on."""
        if not self.figures:
            takes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.planned["effort"].items())
            return f"would train {self.planned['student']} into {self.path}: {takes}"
        valid = self.figures["valid"]
        found = [f"{name} {valid[name]:.4f}" for name in ("accuracy", "agreement") if name in valid]
        return f"validation {', '.join(found)}; student in {self.path}\ngo on with: gnomon predict {self.path} 'a text'"


def run(config: Config, console: Console | None = None) -> DistillResult:
    """Distil in a run folder of its own; starting again continues."""
    need_training("gnomon distill")
    from gnomon.distillation.students import parse_student
    from gnomon.recipes.distilling import distil_student, effort, prepare_lesson, starting_vectors

    console = console or Console()
    spec = parse_student(config.student)
    vectors = starting_vectors(config.vectors, [spec])
    folder = find_teacher(config.teacher)
    inputs = _inputs(config, label_names(read_config(folder)), console)
    report_findings(examine(inputs, read_tokenizer(folder, console), None), console)
    out = run_folder(config, f"distill-{spec.name}", config.data)
    planned = {"student": spec.name, "effort": asdict(effort(spec, config))}
    if config.dry_run:
        return DistillResult(out / MODEL, {}, planned)
    more = read(config.unlabelled, config, console, labelled=False).texts if config.unlabelled else ()
    with Run.start(
        out, run_settings(config), overwrite=config.overwrite, resume_command=resume_command("distill", out)
    ) as run_:
        keep_parents(run_, inputs, weights(folder), config.unlabelled, config.vectors)
        run_.update(seed=config.seed, plan=planned)
        lesson = prepare_lesson(
            folder,
            inputs,
            [spec],
            config,
            vectors=vectors,
            unlabelled=more,
            run=run_,
            seed=config.seed,
            threads=config.threads,
            console=console,
        )
        path = distil_student(spec, lesson, run=run_, gold_only=config.gold_only, console=console)
    return DistillResult(path, run_.figures, planned)


def _inputs(config: Config, teacher_labels: tuple[str, ...], console: Console) -> Inputs:
    """The data, whose labels must be the teacher's where it has any."""
    if not teacher_labels:
        raise GnomonError(
            f"{config.teacher} answers with no labels: it is not tuned",
            f"gnomon tune {config.data} --teacher {config.teacher}",
        )
    if config.labels == "teacher":
        if config.gold_only:
            raise GnomonError(
                "--gold-only learns from labels, and --labels teacher leaves them out", "give one of them"
            )
        return read_unlabelled(config.data, config, tuple(sorted(teacher_labels)), console)
    return read_inputs(config.data, config, console)
