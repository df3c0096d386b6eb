"""Whether probabilities mean what they say: of the answers given with 80 %, are 80 % right?

Expected calibration error over 15 bins of equal width, the mean gap between confidence and accuracy weighted by
rows: Guo et al. (2017), On Calibration of Modern Neural Networks. Confidence is the probability of the answer given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.measure.classification import Classes, Floats, check_rows
from gnomon.measure.uncertainty import RESAMPLES, Interval

BINS = 15
_ROWS_AT_ONCE = 4_000_000


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The rows whose confidence lies in one bin: how many, their mean confidence and their accuracy."""

    count: int
    confidence: float
    accuracy: float


def calibration_error(gold: Classes, probabilities: npt.NDArray[np.floating], *, bins: int = BINS) -> float:
    """Expected calibration error in [0, 1] of `probabilities` [N, C] against `gold` [N]."""
    place, gap = _placed(gold, probabilities, bins)
    return float(np.abs(np.bincount(place, weights=gap, minlength=bins)).sum() / len(gap))


def calibration_error_interval(
    gold: Classes,
    probabilities: npt.NDArray[np.floating],
    *,
    bins: int = BINS,
    resamples: int = RESAMPLES // 2,
    seed: int = 0,
) -> Interval:
    """The calibration error with its bootstrap interval.

    Resampling adds its own noise to each bin, so resampled errors are larger on average; the interval is their
    spread about their own mean, moved to the measured value and cut at 0.
    """
    place, gap = _placed(gold, probabilities, bins)
    value, rows = calibration_error(gold, probabilities, bins=bins), len(gap)
    generator = np.random.default_rng(seed)
    at_once = max(1, _ROWS_AT_ONCE // rows)
    samples = []
    for done in range(0, resamples, at_once):
        size = min(at_once, resamples - done)
        drawn = generator.integers(rows, size=(size, rows))
        cells = place[drawn] + bins * np.arange(size)[:, None]
        sums = np.bincount(cells.ravel(), weights=gap[drawn].ravel(), minlength=size * bins)
        samples.append(np.abs(sums.reshape(size, bins)).sum(axis=1) / rows)
    errors = np.concatenate(samples)
    return Interval.of_samples(value, np.clip(errors - errors.mean() + value, 0.0, 1.0))


def reliability(gold: Classes, probabilities: npt.NDArray[np.floating], *, bins: int = BINS) -> list[ReliabilityBin]:
    """The bins that hold rows, from unsure to sure: the points of a reliability diagram."""
    place, gap = _placed(gold, probabilities, bins)
    confidence = probabilities.max(axis=1).astype(np.float64)
    counts = np.bincount(place, minlength=bins)
    confidences = np.bincount(place, weights=confidence, minlength=bins)
    right = np.bincount(place, weights=confidence - gap, minlength=bins)
    return [
        ReliabilityBin(int(counts[i]), float(confidences[i] / counts[i]), float(right[i] / counts[i]))
        for i in np.flatnonzero(counts)
    ]


def _placed(gold: Classes, probabilities: npt.NDArray[np.floating], bins: int) -> tuple[npt.NDArray[np.int64], Floats]:
    """The bin of each row [N], and its confidence minus whether it was right [N]."""
    check_rows(gold, probabilities)
    confidence = probabilities.max(axis=1).astype(np.float64)
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    return place, confidence - (probabilities.argmax(axis=1) == gold)
