"""The last stage of a frontier: frontier.json, and the page to send."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.formats.files import write_json, write_text
from gnomon.measure.classification import confusion, per_class, worst_disagreements
from gnomon.measure.frontier import Frontier
from gnomon.measure.uncertainty import mean_difference, paired
from gnomon.recipes.candidates import TEACHER, Entry, Measured
from gnomon.recipes.inputs import Inputs
from gnomon.reporting.console import Console
from gnomon.reporting.drawing import standalone
from gnomon.reporting.figures import quality_against
from gnomon.reporting.html import Disagreement, ReportExtras, report_html
from gnomon.runs import Run, host, versions
from gnomon.text.quality import QualityReport


def write_frontier(
    measured: Measured,
    entries: Sequence[Entry],
    inputs: Inputs,
    doctor: QualityReport,
    *,
    run: Run,
    settings: Mapping[str, Any],
    console: Console,
) -> Frontier:
    """Choose, write frontier.json, frontier.svg and report.html into the run, and mark it finished."""
    frontier = Frontier.of(
        measured.candidates, data=_data(inputs, entries, measured), host=host() | versions(), settings=settings
    )
    write_json(run.path / "frontier.json", frontier.to_dict())
    seconds = {
        **run.info.get("stage_seconds", {}),
        **{name: round(value, 2) for name, value in console.seconds.items()},
    }
    run.update(stage_seconds=seconds)
    gold = np.array(inputs.label_ids(inputs.test))
    given = {name: answers.classes for name, answers in measured.test_answers.items()}
    twins = {entry.twin_of: entry.name for entry in entries if entry.twin_of is not None}
    pairs = [(given[student], given[twin]) for student, twin in twins.items()]
    extras = ReportExtras(
        title=Path(inputs.train.source).name,
        made=time.strftime("%Y-%m-%d %H:%M"),
        command=f"gnomon predict {run.path} 'a text'",
        labels=inputs.labels,
        curves={entry.name: _evaluations(entry.run) for entry in entries},
        confusion={name: confusion(gold, classes, num_labels=len(inputs.labels)) for name, classes in given.items()},
        per_class={name: per_class(gold, classes, num_labels=len(inputs.labels)) for name, classes in given.items()},
        against_teacher={
            name: paired(gold, classes, given[TEACHER]) for name, classes in given.items() if name != TEACHER
        },
        against_twin={student: paired(gold, given[student], given[twin]) for student, twin in twins.items()},
        mean_against_twins=mean_difference(gold, pairs) if pairs else None,
        disagreements=_disagreements(frontier.pick, measured, inputs, gold),
        doctor=doctor.to_dict(),
        stage_seconds=seconds,
        proofs={entry.name: entry.run.figures.get("proofs", []) for entry in entries if entry.role == "student"},
        decisions=inputs.decisions,
    )
    write_text(run.path / "frontier.svg", standalone(quality_against(frontier, "latency")))
    write_text(run.path / "report.html", report_html(frontier, extras))
    run.finish(pick=frontier.pick, frontier=list(frontier.frontier))
    return frontier


def _evaluations(run: Run) -> list[dict[str, Any]]:
    return [record for record in run.records() if record["event"] == "eval"]


def _data(inputs: Inputs, entries: Sequence[Entry], measured: Measured) -> dict[str, Any]:
    """Where the texts are from. A teacher that came tuned tells what it could do before this run."""
    sizes = {"train": len(inputs.train), "valid": len(inputs.valid), "test": len(inputs.test)}
    data: dict[str, Any] = {
        "source": inputs.train.source,
        "rows": sizes,
        "labels": list(inputs.labels),
        "sha256": inputs.hashes,
    }
    teacher = next(entry for entry in entries if entry.name == TEACHER)
    if teacher.run.figures.get("tuned_before"):
        as_it_came = next(candidate for candidate in measured.candidates if candidate.name == TEACHER)
        data["untuned_accuracy"] = as_it_came.valid.accuracy.value
    return data


def _disagreements(pick: str, measured: Measured, inputs: Inputs, gold: np.ndarray) -> tuple[Disagreement, ...]:
    """The test texts on which the pick departs from the teacher, most at odds first."""
    if pick == TEACHER:
        return ()
    student, teacher = measured.test_answers[pick], measured.test_answers[TEACHER]
    return tuple(
        Disagreement(
            text=inputs.test.texts[row],
            gold=inputs.labels[gold[row]],
            teacher=inputs.labels[teacher.classes[row]],
            teacher_probability=float(teacher.probabilities[row, teacher.classes[row]]),
            student=inputs.labels[student.classes[row]],
            student_probability=float(student.probabilities[row, student.classes[row]]),
        )
        for row in worst_disagreements(teacher.probabilities, student.probabilities)
    )
