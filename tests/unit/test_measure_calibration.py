"""The calibration error is zero for honest probabilities and the gap for dishonest ones."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.measure.calibration import calibration_error, calibration_error_interval, reliability


def _rows(rows: int, said: float, true: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Answers given with probability `said`, right with probability `true`."""
    right = np.random.default_rng(seed).random(rows) < true
    probabilities = np.tile([said, 1 - said], (rows, 1))
    return np.where(right, 0, 1), probabilities


def test_the_gap_between_said_and_true() -> None:
    gold, probabilities = _rows(20_000, said=0.95, true=0.7)
    assert calibration_error(gold, probabilities) == pytest.approx(0.25, abs=0.01)
    interval = calibration_error_interval(gold, probabilities, resamples=200)
    assert interval.low < 0.25 < interval.high
    assert interval.low <= interval.value <= interval.high


def test_honest_probabilities_have_a_small_error_and_an_interval_that_reaches_zero() -> None:
    gold, probabilities = _rows(500, said=0.8, true=0.8)
    interval = calibration_error_interval(gold, probabilities, resamples=300)
    assert interval.value < 0.05
    assert interval.low < 0.02
    assert interval == calibration_error_interval(gold, probabilities, resamples=300)


def test_a_certain_answer_falls_into_the_last_bin_and_the_bins_add_up() -> None:
    gold = np.array([0, 1, 1, 0])
    probabilities = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.55, 0.45]])
    bins = reliability(gold, probabilities)
    assert sum(one.count for one in bins) == 4
    assert bins[-1].confidence == 1.0
    assert bins[-1].accuracy == 1.0
    weighted = sum(one.count * abs(one.accuracy - one.confidence) for one in bins) / 4
    assert calibration_error(gold, probabilities) == pytest.approx(weighted)
