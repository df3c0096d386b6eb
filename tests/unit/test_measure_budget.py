"""Choosing under a budget, and the two questions: is the ability enough, is the cost acceptable?"""

from __future__ import annotations

import pytest

from gnomon.errors import GnomonError
from gnomon.measure.budget import Budget, advise, pick_within
from gnomon.measure.frontier import Frontier
from made_up_frontier import candidate, frontier


def test_no_limit_means_the_frontiers_own_pick() -> None:
    made = frontier()
    assert pick_within(made, Budget()).name == made.pick == "convolutional"


def test_a_limit_on_cost_gives_the_most_accurate_that_fits() -> None:
    assert pick_within(frontier(), Budget(latency_ms=0.5)).name == "convolutional"
    assert pick_within(frontier(), Budget(latency_ms=5)).name == "encoder"
    assert pick_within(frontier(), Budget(latency_ms=50)).name == "teacher"
    assert pick_within(frontier(), Budget(size_mb=5.2)).name == "recurrent"
    assert pick_within(frontier(), Budget(memory_mb=100)).name == "encoder"


def test_a_floor_on_quality_alone_gives_the_fastest_above_it() -> None:
    assert pick_within(frontier(), Budget(minimum_kept=0.98)).name == "encoder"
    assert pick_within(frontier(), Budget(minimum_accuracy=0.85)).name == "static"


def test_both_kinds_of_limit_hold_at_once() -> None:
    assert pick_within(frontier(), Budget(latency_ms=5, minimum_kept=0.98)).name == "encoder"
    with pytest.raises(GnomonError) as raised:
        pick_within(frontier(), Budget(latency_ms=1, minimum_kept=0.98))
    assert "no model of this run fits the budget" in str(raised.value)
    assert "the nearest is convolutional, which has 97.5 % kept of the teacher's accuracy (at least 98.0 %)" in str(
        raised.value
    )


def test_what_was_not_measured_does_not_fit() -> None:
    everyone = [
        candidate("t", "teacher", 0.95, 9.0, peak_memory_mb=300.0),
        candidate("s", "student", 0.94, 1.0, peak_memory_mb=None),
    ]
    made = Frontier.of(everyone, data={}, host={}, settings={})
    with pytest.raises(GnomonError, match="the nearest is t"):
        pick_within(made, Budget(memory_mb=100))


@pytest.mark.parametrize("wrong", [{"latency_ms": 0.0}, {"size_mb": -1.0}, {"minimum_accuracy": 92.0}])
def test_a_limit_that_means_nothing_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(GnomonError, match=next(iter(wrong))):
        Budget(**wrong)


@pytest.mark.parametrize(
    ("budget", "untuned", "decision", "pick"),
    [
        (Budget(latency_ms=20), 0.94, "neither", "teacher"),
        (Budget(latency_ms=20), None, "tune", "teacher"),
        (Budget(latency_ms=20), 0.60, "tune", "teacher"),
        (Budget(latency_ms=1), 0.95, "distil", "convolutional"),
        (Budget(latency_ms=1), 0.60, "tune then distil", "convolutional"),
        (Budget(latency_ms=1, minimum_accuracy=0.55), 0.60, "distil", "convolutional"),
        (Budget(), None, "tune then distil", "convolutional"),
        (Budget(minimum_kept=0.999), None, "tune", "teacher"),
    ],
)
def test_the_two_questions_are_orthogonal(budget: Budget, untuned: float | None, decision: str, pick: str) -> None:
    advice = advise(frontier(), budget, untuned_accuracy=untuned)
    assert (advice.decision, advice.pick) == (decision, pick)
    assert advice.reasons[0].startswith("Is the ability enough?")
    assert advice.reasons[1].startswith("Is the cost acceptable?")
    assert all(reason.endswith(".") for reason in advice.reasons)


def test_the_reasons_name_the_figures() -> None:
    reasons = " ".join(advise(frontier(), Budget(latency_ms=1, size_mb=50), untuned_accuracy=0.6).reasons)
    assert "the teacher has latency 8.2 ms (at most 1.0 ms) and size 91 MB (at most 50 MB)" in reasons
    assert "60.0 % of the validation texts right" in reasons
    kept = " ".join(advise(frontier(), Budget(latency_ms=20)).reasons)
    assert "Cheaper all the same: convolutional keeps 97.5 % of the teacher's accuracy" in kept


def test_advice_that_cannot_be_had_is_an_error() -> None:
    with pytest.raises(GnomonError, match="nearest is static"):
        advise(frontier(), Budget(latency_ms=0.01))
