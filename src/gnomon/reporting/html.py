"""report.html: the verdict first, then everything that stands behind it, in one file that needs nothing else."""

from __future__ import annotations

import importlib.resources
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.measure.classification import ClassScores
from gnomon.measure.frontier import Candidate, Frontier
from gnomon.measure.uncertainty import Interval, Paired
from gnomon.measure.verdict import duration, fraction, headline, milliseconds, percent, points, sentences, span
from gnomon.reporting.drawing import page_colour, shortened
from gnomon.reporting.figures import (
    DRAWN_CLASSES,
    Curve,
    confusion_matrices,
    learning_curves,
    quality_against,
)
from gnomon.reporting.tables import cells, ordered

_SHOWN_TEXT = 400  # characters of a text that the page shows
_SHOWN_CONFUSIONS = 15


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A text that teacher and student answer differently, each with the probability of its own answer."""

    text: str
    gold: str | None
    teacher: str
    teacher_probability: float
    student: str
    student_probability: float


@dataclass(frozen=True)
class ReportExtras:
    """What the report shows beside the frontier; a part left out is left out of the page.

    Mappings are by candidate name: `curves` evaluations with "step" and `metric`, `confusion` counts [C, C] and
    `per_class` scores in the order of `labels` (the teacher's and the pick's are shown), `against_teacher` and
    `against_twin` paired tests on the test texts, `proofs` rows with "name", "figure" and "limit". `doctor` is
    QualityReport.to_dict(), `command` what serves the pick, `made` when the run ended.
    """

    title: str = "Frontier"
    made: str = ""
    command: str = ""
    labels: Sequence[str] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    metric: str = "accuracy"
    confusion: Mapping[str, npt.NDArray[np.integer]] = field(default_factory=dict)
    per_class: Mapping[str, Sequence[ClassScores]] = field(default_factory=dict)
    against_teacher: Mapping[str, Paired] = field(default_factory=dict)
    against_twin: Mapping[str, Paired] = field(default_factory=dict)
    mean_against_twins: Interval | None = None
    disagreements: Sequence[Disagreement] = ()
    doctor: Mapping[str, Any] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    proofs: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    decisions: Sequence[str] = ()


def report_html(frontier: Frontier, extras: ReportExtras | None = None) -> str:
    """The whole page. Every text is escaped; half surrogates, which no file can hold, become question marks."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = importlib.resources.files("gnomon.reporting").joinpath("report.html.jinja").read_text(encoding="utf-8")
    page = environment.from_string(source).render(_view(frontier, extras or ReportExtras()))
    return page.encode("utf-8", "replace").decode("utf-8")


def _view(frontier: Frontier, extras: ReportExtras) -> dict[str, Any]:
    """Everything the template shows, already in words: the template only lays out."""
    pick, teacher = frontier.picked, frontier.teacher
    names = [name for name in dict.fromkeys((teacher.name, pick.name)) if name in extras.confusion]
    drawn = {name: extras.confusion[name] for name in names} if len(extras.labels) <= DRAWN_CLASSES else {}
    return {
        "extras": extras,
        "headline": headline(frontier),
        "sentences": sentences(frontier),
        "pick": pick,
        "tiles": _tiles(pick, teacher),
        "rows": [_row(frontier, extras, one) for one in ordered(frontier, twins=True)],
        "latency_figure": quality_against(frontier, "latency"),
        "size_figure": quality_against(frontier, "size"),
        "brought": _brought(frontier, extras),
        "curves_figure": learning_curves(extras.curves, frontier, metric=extras.metric) if extras.curves else "",
        "confusion_figure": confusion_matrices(drawn, extras.labels) if drawn else "",
        "confusions": _confusions(extras.confusion.get(pick.name), extras.labels),
        "classes": _classes(frontier, extras),
        "disagreements": [_disagreement(one) for one in extras.disagreements],
        "stages": _stages(extras.stage_seconds),
        "proofs": _proofs(extras.proofs),
        "settings": list(_flat(frontier.settings)),
        "data": list(_flat(frontier.data)),
        "host": list(_flat(frontier.host)),
    }


def _tiles(pick: Candidate, teacher: Candidate) -> list[tuple[str, str, str]]:
    accuracy = (percent(pick.test.accuracy.value), "test accuracy", f"95 % interval {span(pick.test.accuracy)}")
    speed = (
        milliseconds(pick.p50_ms),
        "a text",
        f"p99 {milliseconds(pick.p99_ms)}, {pick.texts_per_second:,.0f} texts/s",
    )
    if pick is teacher:
        return [accuracy, speed]
    kept = (percent(pick.test.kept.value), "of the teacher kept", f"95 % interval {span(pick.test.kept)}")
    latency = (
        fraction(pick.p50_ms, teacher.p50_ms),
        "of its latency",
        f"{milliseconds(pick.p50_ms)} against {milliseconds(teacher.p50_ms)}",
    )
    size = (
        fraction(pick.size_mb, teacher.size_mb),
        "of its size",
        f"{pick.size_mb:.1f} against {teacher.size_mb:.0f} MB",
    )
    return [kept, latency, size, accuracy]


def _row(frontier: Frontier, extras: ReportExtras, one: Candidate) -> dict[str, Any]:
    """A row of the main table; `bar` is where the interval begins, its value and its width, in percent of one scale."""
    lowest = min(other.test.accuracy.low for other in frontier.candidates)
    highest = max(other.test.accuracy.high for other in frontier.candidates)
    width = max(highest - lowest, 1e-9)
    accuracy = one.test.accuracy
    tested = extras.against_teacher.get(one.name)
    return {
        **cells(frontier, one),
        "style": "picked" if one.name == frontier.pick else one.role,
        "colour": page_colour(one.family if one.role in ("student", "gold_twin") else one.role),
        "bar": [
            round(100 * share / width, 1)
            for share in (accuracy.low - lowest, accuracy.value - lowest, accuracy.high - accuracy.low)
        ],
        "calibration": percent(one.test.calibration_error.value),
        "p_value": "" if tested is None else _p_value(tested.p_value),
        "p99": milliseconds(one.p99_ms),
        "texts_per_second": f"{one.texts_per_second:,.0f}",
        "parameters": _counted(one.parameters),
        "trained": duration(one.train_seconds),
        "runs_on": f"{one.runtime}, {one.precision}, {one.threads} thread" + ("s" if one.threads != 1 else ""),
    }


def _brought(frontier: Frontier, extras: ReportExtras) -> list[dict[str, Any]]:
    """What the teacher brought: each student against its gold-only twin, and their mean."""
    rows = []
    for one in ordered(frontier):
        twin, test = frontier.twin(one.name), extras.against_twin.get(one.name)
        if twin is None:
            continue
        difference = one.test.accuracy.value - twin.test.accuracy.value
        rows.append(
            {
                "name": one.name,
                "with_teacher": percent(one.test.accuracy.value),
                "gold_only": percent(twin.test.accuracy.value),
                "difference": points(difference),
                "interval": "" if test is None else _signed(test.difference),
                "p_value": "" if test is None else _p_value(test.p_value),
            }
        )
    if extras.mean_against_twins is not None:
        mean = extras.mean_against_twins
        rows.append({"name": "", "difference": points(mean.value), "interval": _signed(mean)})
    return rows


def _classes(frontier: Frontier, extras: ReportExtras) -> list[dict[str, Any]]:
    """The pick's scores of every class, the teacher's F1 beside them; the hardest first."""
    scores = extras.per_class.get(frontier.pick, ())
    beside = {one.index: one.f1 for one in extras.per_class.get(frontier.teacher.name, ())}
    return [
        {
            "label": extras.labels[one.index],
            "precision": percent(one.precision),
            "recall": percent(one.recall),
            "f1": percent(one.f1),
            "teacher_f1": percent(beside[one.index]) if one.index in beside else "",
            "support": f"{one.support:,}",
            "never": one.support > 0 and one.predicted == 0,
        }
        for one in sorted(scores, key=lambda one: (one.f1, one.index))
    ]


def _confusions(matrix: npt.NDArray[np.integer] | None, labels: Sequence[str]) -> list[dict[str, Any]]:
    """The pairs mistaken most often, for sets of labels too large to draw."""
    if matrix is None or len(labels) <= DRAWN_CLASSES:
        return []
    wrong = np.array(matrix)
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_SHOWN_CONFUSIONS]
    cells_ = [np.unravel_index(place, wrong.shape) for place in order]
    return [
        {
            "gold": labels[row],
            "answered": labels[column],
            "count": int(wrong[row, column]),
            "of": int(matrix[row].sum()),
        }
        for row, column in cells_
        if wrong[row, column]
    ]


def _disagreement(one: Disagreement) -> dict[str, Any]:
    return {
        "text": shortened(one.text, _SHOWN_TEXT),
        "gold": one.gold,
        "teacher": one.teacher,
        "teacher_probability": percent(one.teacher_probability),
        "student": one.student,
        "student_probability": percent(one.student_probability),
    }


def _stages(seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    if not seconds:
        return []
    whole, longest = sum(seconds.values()) or 1.0, max(seconds.values()) or 1.0
    rows = [
        {"name": name, "time": duration(one), "share": percent(one / whole), "width": round(100 * one / longest, 1)}
        for name, one in seconds.items()
    ]
    return [*rows, {"name": "total", "time": duration(whole), "share": "", "width": 0.0}]


def _proofs(proofs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, str]]:
    """One row a statement: the largest figure over the students it was shown for."""
    largest: dict[str, tuple[float, float, int]] = {}
    for rows in proofs.values():
        for row in rows:
            figure, limit, count = largest.get(row["name"], (-math.inf, math.inf, 0))
            largest[row["name"]] = (max(figure, row["figure"]), min(limit, row["limit"]), count + 1)
    return [
        {"name": name, "figure": f"{figure:.1e}" if figure else "0", "limit": f"{limit:g}", "count": str(count)}
        for name, (figure, limit, count) in largest.items()
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names, each with its value in words."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple) and all(isinstance(entry, Mapping) for entry in value) and value:
            for index, entry in enumerate(value):
                yield from _flat(entry, f"{prefix}{name}[{index}].")
        else:
            yield f"{prefix}{name}", _shown(value)


def _shown(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, list | tuple):
        return ", ".join(_shown(entry) for entry in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _signed(interval: Interval) -> str:
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _counted(count: int) -> str:
    return f"{count / 1e6:.1f} M" if count >= 1_000_000 else f"{count / 1e3:.0f} k" if count >= 1000 else str(count)
