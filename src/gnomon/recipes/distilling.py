"""The work behind `gnomon distill`, which `gnomon frontier` does once for every student and its gold-only twin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnomon.distillation.objective import DistilledRow, DistillLabels, HiddenMatch
from gnomon.distillation.proofs import Proof, prove
from gnomon.distillation.rows import DistilledRows, gold_rows, labelled_rows, transfer_rows
from gnomon.distillation.students import Effort, StudentSpec, build_student
from gnomon.distillation.teacher import LiveTeacher, StoredTeacher
from gnomon.distillation.transfer import TransferSet, transfer_set
from gnomon.errors import GnomonError
from gnomon.formats.modeldir import read_config
from gnomon.models.base import Model
from gnomon.models.folders import load_model
from gnomon.recipes.cards import card
from gnomon.recipes.inputs import Inputs
from gnomon.recipes.settings import DistilSettings
from gnomon.recipes.training import VALID_BATCH, save_and_deploy, train_stage
from gnomon.reporting.console import Console
from gnomon.runs import MODEL, Run
from gnomon.runtime.predictor import is_deployed, load_predictor
from gnomon.runtime.threads import available_processors
from gnomon.text.batches import Batches
from gnomon.train.plan import Plan
from gnomon.vectors.interchange import read_vectors
from gnomon.vectors.keyed import WordVectors
from gnomon.vectors.static_model import TokenTable, token_table
from gnomon.vectors.word_tokenizer import MASK

_PROVED_ROWS = 32


@dataclass(frozen=True)
class Lesson:
    """What every student of one run shares: the data, the teacher's answers, the texts they are about, the settings."""

    inputs: Inputs
    model: Model
    teacher: StoredTeacher
    transfer: TransferSet
    settings: DistilSettings
    seed: int
    threads: int | None
    start: TokenTable | None


def effort(spec: StudentSpec, settings: DistilSettings) -> Effort:
    """The family's own effort, with what the user gave put in its place."""
    given = {
        name: value
        for name in ("copies", "epochs", "batch_size", "learning_rate")
        if (value := getattr(settings, name)) is not None
    }
    return replace(spec.effort, **given)


def starting_vectors(path: Path | None, specs: Sequence[StudentSpec]) -> WordVectors | None:
    """The word vectors that static students start from; GnomonError where no student is one."""
    if path is None:
        return None
    if not any(spec.family == "static" for spec in specs):
        named = ", ".join(spec.name for spec in specs)
        raise GnomonError(
            f"only static students start from word vectors, and the students are {named}",
            "give --student static, or leave out --vectors",
        )
    return read_vectors(path)


def prepare_lesson(
    teacher_folder: Path,
    inputs: Inputs,
    specs: Sequence[StudentSpec],
    settings: DistilSettings,
    *,
    vectors: WordVectors | None,
    unlabelled: Sequence[str],
    run: Run,
    seed: int,
    threads: int | None,
    console: Console,
) -> Lesson:
    """Ask the teacher, once, about every text that any student will see; what it said before is not asked again."""
    model = load_model(teacher_folder)
    # The deployed teacher answers twice as fast; a folder that another tool tuned is not deployed.
    quick = is_deployed(read_config(teacher_folder)) and not settings.hidden
    predictor = load_predictor(teacher_folder, threads=available_processors()) if quick else None
    live = LiveTeacher(model, labels=inputs.labels, predictor=predictor, hidden=settings.hidden > 0)
    teacher = StoredTeacher(live, run.path / "signal")
    transfer = transfer_set(
        inputs.train.texts,
        unlabelled,
        copies=max(effort(spec, settings).copies for spec in specs),
        seed=seed,
        mask_token=model.tokenizer.mask_token,
    )
    with console.stage("ask the teacher") as tick:
        texts = [*transfer.texts, *inputs.valid.texts]
        needed = teacher.bytes_per_text * len(texts)
        console.say(
            f"  {len(texts):,} texts, {transfer.copies} augmented copies of each: at most {needed / 1e6:.0f} MB, "
            f"{teacher.bytes_per_text} bytes a text"
        )
        teacher.fill(texts, progress=lambda done, total: tick(done, total, ""))
    start = None if vectors is None else token_table(vectors, mask_token=model.tokenizer.mask_token or MASK)
    return Lesson(inputs, model, teacher, transfer, settings, seed, threads, start)


def distil_student(spec: StudentSpec, lesson: Lesson, *, run: Run, gold_only: bool, console: Console) -> Path:
    """Train one student in `run`, or take what it already holds; gives the deployed model folder.

    With `gold_only` it is the twin that shows what the teacher brought: the same architecture, starting weights,
    vocabulary, texts (those with a gold label), steps and seed; only the signal differs.
    """
    title = f"{spec.name}, gold only" if gold_only else spec.name
    if run.done():
        console.say(f"  {title}: trained before")
        console.skip(title)
        return run.path / MODEL
    with console.stage(title) as tick:
        student = build_student(
            spec,
            lesson.model,
            lesson.inputs.train.texts,
            labels=lesson.inputs.labels,
            seed=lesson.seed,
            start=lesson.start,
        )
        takes = effort(spec, lesson.settings)
        transfer = lesson.transfer.first(takes.copies)
        objective = _objective(student, lesson, gold_only=gold_only)
        proofs = _prove(student, lesson, transfer)
        rows = _rows(student, lesson, transfer, gold_only=gold_only)
        plan = distilling_plan(takes, lesson, len(transfer.texts))
        result = train_stage(
            student,
            objective,
            Batches(rows, rows.lengths, batch_size=takes.batch_size, seed=lesson.seed),
            plan,
            run=run,
            valid=_valid(student, lesson),
            tick=tick,
            threads=lesson.threads,
            console=console,
        )
        figures: dict[str, Any] = {
            "valid": dict(result.best),
            "train_seconds": result.seconds,
            "steps": result.steps,
            "parameters": student.num_parameters,
            "proofs": [{"name": proof.name, "figure": proof.figure, "limit": proof.limit} for proof in proofs],
        }
        role = "gold-only twin of a student" if gold_only else "student"
        save_and_deploy(student, run, card=card(student, role, figures), check_texts=lesson.inputs.valid.texts)
    run.finish(**figures)
    return run.path / MODEL


def distilling_plan(takes: Effort, lesson: Lesson, texts: int) -> Plan:
    """The training plan. Its length is given in steps, which a twin with fewer texts shares."""
    return Plan(
        steps=takes.epochs * -(-texts // takes.batch_size),
        learning_rate=takes.learning_rate,
        weight_decay=lesson.settings.weight_decay,
        metric="accuracy" if lesson.inputs.gold else "agreement",
        seed=lesson.seed,
    )


def _objective(student: Model, lesson: Lesson, *, gold_only: bool) -> DistillLabels:
    settings = lesson.settings
    match = HiddenMatch(student.pooled_size, lesson.model.pooled_size, settings.hidden_kind, settings.hidden)
    alpha = settings.alpha if lesson.inputs.gold else 1.0
    return DistillLabels(
        num_labels=len(student.labels),
        pad_id=student.tokenizer.pad_id,
        temperature=settings.temperature,
        alpha=0.0 if gold_only else alpha,
        hidden=match if settings.hidden and not gold_only else None,
    )


def _prove(student: Model, lesson: Lesson, transfer: TransferSet) -> tuple[Proof, ...]:
    first = TransferSet(transfer.texts[:_PROVED_ROWS], transfer.sources[:_PROVED_ROWS], 0)
    rows = transfer_rows(student, first, lesson.teacher, gold=lesson.inputs.gold)
    return prove(_objective(student, lesson, gold_only=False), student, list(rows), first.texts, lesson.teacher)


def _rows(student: Model, lesson: Lesson, transfer: TransferSet, *, gold_only: bool) -> DistilledRows:
    make = gold_rows if gold_only else transfer_rows
    return make(student, transfer, lesson.teacher, gold=lesson.inputs.gold)


def _valid(student: Model, lesson: Lesson) -> Batches[DistilledRow]:
    valid = lesson.inputs.valid
    if lesson.inputs.gold:
        rows = labelled_rows(student, valid.texts, lesson.teacher, gold=valid.labels)
    else:
        rows = transfer_rows(student, transfer_set(valid.texts, copies=0, seed=0, mask_token=None), lesson.teacher)
    return Batches(rows, rows.lengths, batch_size=VALID_BATCH, shuffle=False)
