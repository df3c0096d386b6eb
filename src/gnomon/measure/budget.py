"""Choosing under a budget, and the two questions of essay D1: is the ability enough, is the cost acceptable?

The two are orthogonal. Ability that is not enough asks for tuning; a cost that is not acceptable asks for
distilling; both ask for tuning and then distilling; neither asks for nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from gnomon.errors import GnomonError
from gnomon.measure.frontier import Candidate, Frontier, choose
from gnomon.measure.verdict import bargain, megabytes, milliseconds, percent, sentences

Decision = Literal["neither", "tune", "distil", "tune then distil"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What serving may cost and must keep; None sets no limit.

    `latency_ms` bounds the median for one text, `size_mb` the files opened, `memory_mb` the peak of a fresh process
    (megabytes are 10^6 bytes), `minimum_kept` the share of the teacher's accuracy, `minimum_accuracy` the accuracy
    itself, both on validation, so that the test set takes no part in choosing. A limit that is not above 0, or an
    accuracy above 1, is a GnomonError.
    """

    latency_ms: float | None = None
    size_mb: float | None = None
    memory_mb: float | None = None
    minimum_kept: float | None = None
    minimum_accuracy: float | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            limit = getattr(self, field.name)
            if limit is not None and not (limit > 0 and math.isfinite(limit)):
                raise GnomonError(f"{field.name} is {limit}", "a limit is a number above 0; leave it out for none")
        if self.minimum_accuracy is not None and self.minimum_accuracy > 1:
            raise GnomonError(f"minimum_accuracy is {self.minimum_accuracy}", "it is a share: 0.92 for 92 %")

    @property
    def limits_cost(self) -> bool:
        """Whether anything but quality is limited."""
        return any(limit is not None for limit in (self.latency_ms, self.size_mb, self.memory_mb))


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, which candidate to serve, and why, in whole sentences."""

    decision: Decision
    pick: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Limit:
    """One limit against one candidate: `excess` above 1 is over it, infinite where nothing was measured."""

    found: str
    allowed: str
    excess: float
    of_cost: bool

    @property
    def held(self) -> bool:
        return self.excess <= 1 + 1e-9


def pick_within(frontier: Frontier, budget: Budget) -> Candidate:
    """The teacher or student to serve under `budget`.

    With a limit on cost: the most accurate on validation of those that fit. With a floor on quality alone: the
    fastest above it. With no limit at all: the frontier's own rule. If none fits, a GnomonError names the nearest.
    """
    if budget == Budget():
        return choose(frontier.candidates)
    offered = [candidate for candidate in frontier.candidates if candidate.role in ("teacher", "student")]
    fitting = [one for one in offered if all(limit.held for limit in _limits(one, budget))]
    if not fitting:
        raise _nothing_fits(offered, budget)
    if budget.limits_cost:
        return min(fitting, key=lambda one: (-one.valid.accuracy.value, one.p50_ms, one.name))
    return min(fitting, key=lambda one: (one.p50_ms, -one.valid.accuracy.value, one.name))


def advise(frontier: Frontier, budget: Budget, *, untuned_accuracy: float | None = None) -> Advice:
    """Answer the two questions for this task, and choose what to serve; a GnomonError when nothing fits.

    `untuned_accuracy` is the validation accuracy of the model as it came: of a teacher that knew these labels
    before the run. None means that it could not answer them at all. Its ability is enough when it reaches
    `minimum_accuracy` or, without one, the lower end of the tuned teacher's interval. The teacher's cost is
    acceptable when it is within the limits; without limits on cost, the cheapest that keeps enough is wanted.
    """
    teacher = frontier.teacher
    teacher_fits = budget.limits_cost and all(limit.held for limit in _limits(teacher, budget))
    pick = teacher if teacher_fits else pick_within(frontier, budget)
    wanted = budget.minimum_accuracy if budget.minimum_accuracy is not None else teacher.valid.accuracy.low
    able = untuned_accuracy is not None and untuned_accuracy >= wanted
    reasons = [_ability(untuned_accuracy, wanted, able), _cost(teacher, budget, pick), *sentences(frontier, pick)]
    cheaper = choose(frontier.candidates)
    if teacher_fits and cheaper is not teacher:
        reasons.append(f"Cheaper all the same: {cheaper.name} keeps {bargain(cheaper, teacher)}.")
    return Advice(_decision(tune=not able, distil=pick is not teacher), pick.name, tuple(reasons))


def _decision(*, tune: bool, distil: bool) -> Decision:
    if tune:
        return "tune then distil" if distil else "tune"
    return "distil" if distil else "neither"


def _ability(untuned_accuracy: float | None, wanted: float, able: bool) -> str:
    if untuned_accuracy is None:
        return "Is the ability enough? No: as it came, the model could not answer these labels, so it is tuned."
    found = f"as it came, the model answers {percent(untuned_accuracy)} of the validation texts right"
    if able:
        return f"Is the ability enough? Yes: {found}, and {percent(wanted)} is wanted."
    return f"Is the ability enough? No: {found}, and {percent(wanted)} is wanted, so it is tuned."


def _cost(teacher: Candidate, budget: Budget, pick: Candidate) -> str:
    limits = [limit for limit in _limits(teacher, budget) if limit.of_cost]
    if not limits:
        chosen = "the teacher itself" if pick is teacher else pick.name
        return f"Is the cost acceptable? No limit was given, so the fastest that keeps enough is chosen: {chosen}."
    over = [limit for limit in limits if not limit.held]
    if over:
        return f"Is the cost acceptable? No: the teacher has {_all(over)}."
    return f"Is the cost acceptable? Yes: the teacher has {_all(limits)}."


def _all(limits: list[_Limit]) -> str:
    return " and ".join(f"{limit.found} ({limit.allowed})" for limit in limits)


def _limits(candidate: Candidate, budget: Budget) -> list[_Limit]:
    costs = (
        ("latency", candidate.p50_ms, budget.latency_ms, milliseconds),
        ("size", candidate.size_mb, budget.size_mb, megabytes),
        ("peak memory", candidate.peak_memory_mb, budget.memory_mb, megabytes),
    )
    floors = (
        ("kept of the teacher's accuracy", candidate.valid.kept.value, budget.minimum_kept),
        ("validation accuracy", candidate.valid.accuracy.value, budget.minimum_accuracy),
    )
    limits = []
    for what, measured, limit, shown in costs:
        if limit is not None:
            found = f"{what} that was not measured" if measured is None else f"{what} {shown(measured)}"
            excess = math.inf if measured is None else measured / limit
            limits.append(_Limit(found, f"at most {shown(limit)}", excess, of_cost=True))
    for what, measured, floor in floors:
        if floor is not None:
            excess = floor / measured if measured > 0 else math.inf
            limits.append(_Limit(f"{percent(measured)} {what}", f"at least {percent(floor)}", excess, of_cost=False))
    return limits


def _nothing_fits(offered: list[Candidate], budget: Budget) -> GnomonError:
    """The nearest is the one whose worst limit is overrun the least."""
    nearest = min(offered, key=lambda one: max(limit.excess for limit in _limits(one, budget)))
    over = [limit for limit in _limits(nearest, budget) if not limit.held]
    return GnomonError(
        "no model of this run fits the budget",
        f"the nearest is {nearest.name}, which has {_all(over)}; loosen that, or offer other students",
    )
