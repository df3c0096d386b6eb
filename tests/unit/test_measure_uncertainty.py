"""Intervals cover what they should, and drawing kinds of rows equals drawing rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.measure.classification import accuracy, macro_f1
from gnomon.measure.uncertainty import (
    Interval,
    accuracy_interval,
    kept_interval,
    macro_f1_interval,
    mcnemar,
    mean_difference,
    paired,
)

ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50)
PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)


def _answers(rows: int, share: float, seed: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    gold = generator.integers(classes, size=rows)
    wrong = (gold + generator.integers(1, classes, size=rows)) % classes
    return gold, np.where(generator.random(rows) < share, gold, wrong)


@PROPERTY
@given(ROWS)
def test_every_interval_holds_its_value(rows: list[tuple[int, int, int]]) -> None:
    gold, first, second = np.array(rows).T
    found = {
        "accuracy": (accuracy_interval(gold, first, resamples=100), accuracy(gold, first)),
        "macro_f1": (macro_f1_interval(gold, first, resamples=100), macro_f1(gold, first)),
        "difference": (
            paired(gold, first, second, resamples=100).difference,
            accuracy(gold, first) - accuracy(gold, second),
        ),
    }
    if accuracy(gold, second) > 0:
        kept = accuracy(gold, first) / accuracy(gold, second)
        found["kept"] = (kept_interval(gold, first, second, resamples=100), kept)
    for interval, value in found.values():
        assert interval.value == pytest.approx(value, abs=1e-12)
        assert interval.low <= interval.value <= interval.high


def test_drawing_kinds_gives_the_spread_of_drawing_rows() -> None:
    gold, predicted = _answers(300, 0.8, seed=1)
    generator = np.random.default_rng(2)
    drawn = generator.integers(300, size=(2000, 300))
    by_rows = np.quantile([macro_f1(gold[rows], predicted[rows]) for rows in drawn], [0.025, 0.975])
    by_kinds = macro_f1_interval(gold, predicted)
    np.testing.assert_allclose([by_kinds.low, by_kinds.high], by_rows, atol=0.006)


def test_the_accuracy_interval_covers_the_truth_nineteen_times_in_twenty() -> None:
    covered = 0
    for seed in range(300):
        interval = accuracy_interval(*_answers(400, 0.85, seed), resamples=500)
        covered += interval.low <= 0.85 <= interval.high
    assert 0.91 <= covered / 300 <= 0.98


def test_a_seed_gives_the_same_interval_again() -> None:
    gold, predicted = _answers(200, 0.7, seed=3)
    assert macro_f1_interval(gold, predicted, seed=5) == macro_f1_interval(gold, predicted, seed=5)
    assert accuracy_interval(gold, predicted, seed=5) != accuracy_interval(gold, predicted, seed=6)


def test_kept_is_drawn_in_pairs_so_shared_luck_cancels() -> None:
    gold, teacher = _answers(500, 0.9, seed=4)
    assert kept_interval(gold, teacher, teacher) == Interval(1.0, 1.0, 1.0)
    student = teacher.copy()
    student[:25] = (gold[:25] + 1) % 4
    interval = kept_interval(gold, student, teacher)
    alone = accuracy_interval(gold, student)
    assert interval.high - interval.low < (alone.high - alone.low) / accuracy(gold, teacher)


def test_a_teacher_with_nothing_right_leaves_nothing_to_lose() -> None:
    gold = np.zeros(10, dtype=np.int64)
    assert kept_interval(gold, gold, gold + 1) == Interval(1.0, 1.0, 1.0)


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (3, 3), (1, 7), (12, 30), (0, 5), (400, 480)])
def test_mcnemar_is_the_exact_binomial_test(only_first: int, only_second: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    total = only_first + only_second
    expected = stats.binomtest(only_first, total, 0.5).pvalue if total else 1.0
    assert mcnemar(only_first, only_second) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_stands_large_counts() -> None:
    assert 0 <= mcnemar(480_000, 500_000) < 1e-50


def test_paired_finds_a_difference_and_says_when_there_is_none() -> None:
    gold, teacher = _answers(1000, 0.9, seed=5)
    worse = teacher.copy()
    worse[:80] = (gold[:80] + 1) % 4
    result = paired(gold, worse, teacher)
    assert result.significant
    assert result.p_value < 1e-6
    assert result.only_first_right == 0
    assert not paired(gold, teacher, teacher).significant


def test_the_mean_over_families_is_the_mean_of_their_differences() -> None:
    gold, base = _answers(400, 0.8, seed=6)
    pairs = [
        (_answers(400, share, seed=7)[1] * 0 + np.where(np.arange(400) < cut, gold, base), base)
        for share, cut in ((0.8, 40), (0.8, 80))
    ]
    found = mean_difference(gold, pairs)
    expected = np.mean([accuracy(gold, one) - accuracy(gold, other) for one, other in pairs])
    assert found.value == pytest.approx(expected)
    assert found.low > 0
    assert found == mean_difference(gold, pairs)
