"""What was measured of every candidate, which of them no other beats, and which one to serve.

`Frontier` is frontier.json: plain data, checked when read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gnomon.errors import GnomonError, did_you_mean
from gnomon.measure.fields import Fields
from gnomon.measure.uncertainty import Interval

Role = Literal["teacher", "student", "gold_twin", "control"]
ROLES: tuple[Role, ...] = get_args(Role)
MINIMUM_KEPT = 0.97


@dataclass(frozen=True, slots=True)
class Quality:
    """What a candidate's answers are worth on one set of rows; `kept` and `agreement` are against the teacher."""

    accuracy: Interval
    macro_f1: Interval
    kept: Interval
    agreement: Interval
    calibration_error: Interval

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One model as it would be served, every figure measured in the run that wrote it.

    `size_mb` (10^6 bytes) counts the files the runtime opens, `p50_ms` and `p99_ms` are for one text with
    tokenizing, at `threads`, the count that measured best. `path` is relative to the run folder; None where nothing
    was saved. `peak_memory_mb` is of a fresh process that loads the model and answers; None where there is no such
    process. `twin_of` names the student whose gold-only twin this is.
    """

    name: str
    family: str
    role: Role
    path: str | None
    parameters: int
    size_mb: float
    train_seconds: float
    test: Quality
    valid: Quality
    p50_ms: float
    p99_ms: float
    texts_per_second: float
    peak_memory_mb: float | None
    threads: int
    runtime: str
    precision: str
    twin_of: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The candidate as frontier.json holds it: both latencies under one key."""
        fields: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "p50_ms":
                fields["latency_ms"] = {"p50": self.p50_ms, "p99": self.p99_ms}
            elif field.name != "p99_ms":
                fields[field.name] = value.to_dict() if isinstance(value, Quality) else value
        return fields


@dataclass(frozen=True, slots=True)
class Frontier:
    """frontier.json: `candidates` in the order they were made, `frontier` the names no other beats, fastest first."""

    task: str
    data: Mapping[str, Any]
    host: Mapping[str, Any]
    settings: Mapping[str, Any]
    candidates: tuple[Candidate, ...]
    frontier: tuple[str, ...]
    pick: str

    @classmethod
    def of(
        cls,
        candidates: Iterable[Candidate],
        *,
        data: Mapping[str, Any],
        host: Mapping[str, Any],
        settings: Mapping[str, Any],
        task: str = "classification",
        minimum_kept: float = MINIMUM_KEPT,
    ) -> Frontier:
        """The frontier and the pick among `candidates`, which hold exactly one teacher."""
        measured = tuple(candidates)
        pick = choose(measured, minimum_kept=minimum_kept)
        names = tuple(candidate.name for candidate in pareto(measured))
        return cls(task, data, host, settings, measured, names, pick.name)

    @property
    def teacher(self) -> Candidate:
        return _teacher(self.candidates)

    @property
    def picked(self) -> Candidate:
        return self.named(self.pick)

    @property
    def control(self) -> Candidate | None:
        return next((candidate for candidate in self.candidates if candidate.role == "control"), None)

    def named(self, name: str) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate.name == name)

    def twin(self, name: str) -> Candidate | None:
        """The gold-only twin of the student called `name`: the same training, without the teacher."""
        return next((candidate for candidate in self.candidates if candidate.twin_of == name), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "data": dict(self.data),
            "host": dict(self.host),
            "settings": dict(self.settings),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "frontier": list(self.frontier),
            "pick": self.pick,
        }

    @classmethod
    def from_dict(cls, value: object, *, source: str = "frontier.json") -> Frontier:
        """Read what `to_dict` wrote; whatever is missing or of another type is a GnomonError that names its place."""
        fields = Fields(value, source)
        candidates = tuple(_candidate(entry) for entry in fields.entries("candidates"))
        frontier = cls(
            fields.text("task"),
            fields.mapping("data"),
            fields.mapping("host"),
            fields.mapping("settings"),
            candidates,
            tuple(fields.texts("frontier")),
            fields.text("pick"),
        )
        _check_names(frontier, source)
        return frontier


def pareto(candidates: Sequence[Candidate], *, cost: Callable[[Candidate], float] | None = None) -> list[Candidate]:
    """The teacher and the students that no other of them beats in test accuracy and `cost`, the cheapest first.

    `cost` is the median latency unless given. Gold twins and the control stay outside: they are the yardsticks that
    could refute the students, are drawn beside the line, and are not offered for serving. The line is drawn from test
    figures and the pick chosen on validation, so a pick may lie a little off the line.
    """
    cost = cost or (lambda candidate: candidate.p50_ms)
    points = [(one, one.test.accuracy.value, cost(one)) for one in candidates if one.role in ("teacher", "student")]
    left = [
        (price, one.name, one)
        for one, accuracy, price in points
        if not any(a >= accuracy and c <= price and (a > accuracy or c < price) for _, a, c in points)
    ]
    return [one for _, _, one in sorted(left, key=lambda entry: entry[:2])]


def choose(candidates: Sequence[Candidate], *, minimum_kept: float = MINIMUM_KEPT) -> Candidate:
    """The fastest student whose validation accuracy is at least `minimum_kept` of the teacher's, else the teacher."""
    teacher = _teacher(candidates)
    floor = minimum_kept * teacher.valid.accuracy.value - 1e-9  # a share exactly at the floor passes
    able = [one for one in candidates if one.role == "student" and one.valid.accuracy.value >= floor]
    return min(able, key=lambda one: (one.p50_ms, -one.valid.accuracy.value, one.name), default=teacher)


def _teacher(candidates: Sequence[Candidate]) -> Candidate:
    teachers = [candidate for candidate in candidates if candidate.role == "teacher"]
    if len(teachers) != 1:
        raise ValueError(f"a frontier has one teacher, not {len(teachers)}")
    return teachers[0]


def _check_names(frontier: Frontier, source: str) -> None:
    names = [candidate.name for candidate in frontier.candidates]
    doubled = {name for name in names if names.count(name) > 1}
    if doubled:
        raise GnomonError(f"{source}: two candidates are called {doubled.pop()!r}", "names must differ")
    references = {"pick": [frontier.pick], "frontier": frontier.frontier}
    references["twin_of"] = [one.twin_of for one in frontier.candidates if one.twin_of is not None]
    for field, referred in references.items():
        for name in referred:
            if name not in names:
                raise GnomonError(f"{source}: {field} names {name!r}, which is no candidate", did_you_mean(name, names))
    teachers = sum(candidate.role == "teacher" for candidate in frontier.candidates)
    if teachers != 1:
        raise GnomonError(f"{source}: found {teachers} candidates with the role teacher", "exactly one is expected")


def _candidate(fields: Fields) -> Candidate:
    latency = fields.inner("latency_ms")
    return Candidate(
        name=fields.text("name"),
        family=fields.text("family"),
        role=fields.choice("role", ROLES),
        path=fields.optional_text("path"),
        parameters=fields.whole("parameters"),
        size_mb=fields.number("size_mb"),
        train_seconds=fields.number("train_seconds"),
        test=_quality(fields.inner("test")),
        valid=_quality(fields.inner("valid")),
        p50_ms=latency.number("p50"),
        p99_ms=latency.number("p99"),
        texts_per_second=fields.number("texts_per_second"),
        peak_memory_mb=fields.optional_number("peak_memory_mb"),
        threads=fields.whole("threads"),
        runtime=fields.text("runtime"),
        precision=fields.text("precision"),
        twin_of=fields.optional_text("twin_of"),
    )


def _quality(fields: Fields) -> Quality:
    return Quality(*(_interval(fields.inner(field.name)) for field in dataclasses.fields(Quality)))


def _interval(fields: Fields) -> Interval:
    return Interval(fields.number("value"), fields.number("low"), fields.number("high"))
