"""`gnomon frontier DATA --teacher DIR`: tune a teacher, distil it onto every family, measure, report, pick."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group, RenderableType

from gnomon.errors import GnomonError
from gnomon.formats.files import read_json
from gnomon.measure.frontier import Frontier
from gnomon.recipes.extras import need_training
from gnomon.recipes.inputs import (
    Inputs,
    examine,
    find_teacher,
    keep_parents,
    read,
    read_inputs,
    read_tokenizer,
    report_findings,
    weights,
)
from gnomon.recipes.settings import (
    DistilSettings,
    RunSettings,
    SplitSettings,
    TuneSettings,
    resume_command,
    run_folder,
    run_settings,
)
from gnomon.reporting.console import Console
from gnomon.reporting.tables import frontier_table
from gnomon.runs import Run
from gnomon.text.quality import QualityReport

if TYPE_CHECKING:
    from gnomon.distillation.students import StudentSpec
    from gnomon.vectors.keyed import WordVectors


@dataclass(frozen=True)
class Config(SplitSettings, RunSettings):
    """The whole job: from labelled text and a pretrained model to measured students, a report and a pick to serve.

    The pick is the fastest student whose validation accuracy is at least 0.97 of the teacher's, else the teacher.
    """

    data: Path
    """Labelled text: a .csv, .tsv, .jsonl, .parquet or .txt file, or "demo"."""
    _: KW_ONLY
    teacher: str
    """The model to tune and to learn from: a folder, a run, a hub name, or "demo"."""
    unlabelled: Path | None = None
    """More text, without labels, for the teacher to label."""
    student: tuple[str, ...] = ()
    """Students to train (may be given several times): a family, a name such as encoder-2, or a family with options.
    Default: static, static-ngrams, convolutional, recurrent, encoder-2, encoder-3."""
    vectors: Path | None = None
    """Word vectors (of gnomon vectors train, word2vec's or GloVe's) that static students start from, whole vocabulary
    and all. Default: the teacher's own."""
    tune: TuneSettings = field(default_factory=TuneSettings)
    """How the teacher is tuned."""
    distil: DistilSettings = field(default_factory=DistilSettings)
    """How students are distilled."""


@dataclass(frozen=True)
class FrontierResult:
    """The frontier, where it and its report are; None and the plan after a dry run."""

    out: Path
    frontier: Frontier | None
    planned: dict[str, Any]

    @property
    def report(self) -> Path:
        """The page to send."""
        return self.out / "report.html"

    def to_dict(self) -> dict[str, Any]:
        """What frontier.json holds, and the paths; or the plan."""
        if self.frontier is None:
            return {"out": str(self.out), "plan": self.planned}
        return {"out": str(self.out), "report": str(self.report), **self.frontier.to_dict()}

    def shown(self) -> RenderableType:
        """The table, the pick, and how to go on."""
        if self.frontier is None:
            lines = [f"would write {self.out}:", *(f"  {name}: {what}" for name, what in self.planned.items())]
            return "\n".join(lines)
        return Group(
            frontier_table(self.frontier),
            f"report: {self.report}",
            f"serve the pick, {self.frontier.pick}: gnomon predict {self.out} 'a text'",
        )


def run(config: Config, console: Console | None = None) -> FrontierResult:
    """Do all of it in one run folder; starting again continues where the last start stopped."""
    need_training("gnomon frontier")
    from gnomon.distillation.students import FRONTIER, parse_student
    from gnomon.recipes.distilling import starting_vectors
    from gnomon.recipes.tuning import max_length

    console = console or Console()
    specs = tuple(parse_student(text) for text in config.student) or FRONTIER
    vectors = starting_vectors(config.vectors, specs)
    inputs = read_inputs(config.data, config, console)
    more = read(config.unlabelled, config, console, labelled=False).texts if config.unlabelled else ()
    folder = find_teacher(config.teacher)
    tokenizer = read_tokenizer(folder, console)
    length = max_length(config.tune, tokenizer, inputs, folder)
    report = examine(inputs, tokenizer, length)
    report_findings(report, console)
    out = run_folder(config, "frontier", config.data)
    planned = _planned(config, specs, inputs, length)
    if config.dry_run:
        return FrontierResult(out, None, planned)
    with Run.start(
        out, run_settings(config), overwrite=config.overwrite, resume_command=resume_command("frontier", out)
    ) as run_:
        keep_parents(run_, inputs, weights(folder), config.unlabelled, config.vectors)
        if run_.figures and (out / "frontier.json").is_file():
            console.say(f"  {out} is finished: nothing is left to do")
            run_.finish(**run_.figures)
            return FrontierResult(out, read_frontier(out), {})
        run_.update(seed=config.seed, plan=planned)
        for name, what in planned.items():
            console.say(f"  {name}: {what}")
        frontier = _go(config, specs, vectors, inputs, more, folder, length, report, run_, console)
    return FrontierResult(out, frontier, {})


def read_frontier(run: Path) -> Frontier:
    """The frontier that a finished run holds; GnomonError when there is none or the file is damaged."""
    path = run / "frontier.json"
    if not path.is_file():
        raise GnomonError(f"{run} holds no finished frontier", "gnomon frontier DATA --teacher DIR --out RUN")
    return Frontier.from_dict(read_json(path), source=str(path))


def _go(
    config: Config,
    specs: tuple[StudentSpec, ...],
    vectors: WordVectors | None,
    inputs: Inputs,
    more: tuple[str, ...],
    folder: Path,
    length: int,
    report: QualityReport,
    run: Run,
    console: Console,
) -> Frontier:
    """Every stage in order; each is taken from the run folder where an earlier start finished it."""
    from gnomon.measure.controls import fit_control
    from gnomon.recipes.candidates import TEACHER, Entry, measure
    from gnomon.recipes.distilling import distil_student, prepare_lesson
    from gnomon.recipes.frontier_report import write_frontier
    from gnomon.recipes.tuning import tune_teacher, tuning_plan
    from gnomon.runtime.threads import thread_counts

    console.stages = _stages(specs)
    plan = tuning_plan(config.tune, inputs, seed=config.seed)
    teacher_run = run.child(TEACHER)
    teacher = tune_teacher(
        folder, inputs, config.tune, plan, length=length, run=teacher_run, threads=config.threads, console=console
    )
    lesson = prepare_lesson(
        teacher,
        inputs,
        specs,
        config.distil,
        vectors=vectors,
        unlabelled=more,
        run=run,
        seed=config.seed,
        threads=config.threads,
        console=console,
    )
    entries = [Entry(TEACHER, "teacher", teacher, teacher_run)]
    for spec in specs:
        for gold_only in (False, True):
            name = f"{spec.name}-gold" if gold_only else spec.name
            child = run.child(name)
            path = distil_student(spec, lesson, run=child, gold_only=gold_only, console=console)
            entries.append(
                Entry(name, "gold_twin", path, child, twin_of=spec.name)
                if gold_only
                else Entry(name, "student", path, child)
            )
    with console.stage("control"):
        train, valid = (np.array(inputs.label_ids(part)) for part in (inputs.train, inputs.valid))
        control = fit_control(
            inputs.train.texts, train, inputs.valid.texts, valid, num_labels=len(inputs.labels), seed=config.seed
        )
    with console.stage("measure") as tick:
        measured = measure(entries, control, inputs, root=run.path, threads=thread_counts(), tick=tick)
    with console.stage("report"):
        return write_frontier(
            measured, entries, inputs, report, run=run, settings=run_settings(config), console=console
        )


def _stages(specs: tuple[StudentSpec, ...]) -> list[tuple[str, float]]:
    """The stages and their usual shares of the time, from which the time left is estimated."""
    shares = {"static": 1.0, "convolutional": 2.0, "recurrent": 3.0, "encoder": 4.0}
    students = [(f"{spec.name}{suffix}", shares[spec.family]) for spec in specs for suffix in ("", ", gold only")]
    return [("tune the teacher", 4.0), ("ask the teacher", 6.0), *students, ("control", 0.5), ("measure", 2.0)]


def _planned(config: Config, specs: tuple[StudentSpec, ...], inputs: Inputs, length: int) -> dict[str, str]:
    """What a dry run says: the teacher's plan, each student's effort, and how many steps they come to."""
    from gnomon.recipes.distilling import effort
    from gnomon.recipes.tuning import tuning_plan

    plan = tuning_plan(config.tune, inputs, seed=config.seed)
    steps = plan.epochs * -(-len(inputs.train) // config.tune.batch_size)
    planned = {
        "teacher": f"{plan.epochs} epochs, {steps:,} steps of {config.tune.batch_size} texts, {length} tokens a text"
    }
    for spec in specs:
        takes = effort(spec, config.distil)
        texts = len(inputs.train) * (1 + takes.copies)
        steps = takes.epochs * -(-texts // takes.batch_size)
        planned[spec.name] = (
            f"{takes.epochs} epochs of {texts:,} texts ({takes.copies} copies of each), "
            f"{steps:,} steps of {takes.batch_size}, learning rate {takes.learning_rate:g}"
        )
    return planned
