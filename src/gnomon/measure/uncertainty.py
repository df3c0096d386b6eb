"""How sure a measured figure is: bootstrap intervals and paired tests over the rows of a test set.

Accuracy, agreement, macro-F1 and their ratios depend on a row only through the kind of row it is (right or
wrong, which gold and which predicted class). Drawing N rows with replacement is then one multinomial draw over
the kinds, so a resample costs the number of kinds, not of rows, and has exactly the same distribution.
Efron and Tibshirani, An Introduction to the Bootstrap (1993), percentile intervals. When every row is of one
kind (all right) the interval has no width: the bootstrap cannot see errors that never occurred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.measure.classification import Classes, Floats, check_rows, macro_f1_of_counts

RESAMPLES = 2000
COVERAGE = 0.95
_CELLS_AT_ONCE = 4_000_000

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A measured `value` and the 95 % interval around it, `low <= value <= high`."""

    value: float
    low: float
    high: float

    @classmethod
    def of_samples(cls, value: float, samples: Floats) -> Interval:
        """The percentile interval of bootstrap `samples` [R], widened to hold `value` where rounding left it out."""
        low, high = np.quantile(samples, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
        return cls(float(value), float(min(low, value)), float(max(high, value)))

    def to_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}

    def __str__(self) -> str:
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


@dataclass(frozen=True, slots=True)
class Paired:
    """Two models on the same rows: accuracy of the first minus the second's, and McNemar's exact p-value."""

    difference: Interval
    p_value: float
    only_first_right: int
    only_second_right: int

    @property
    def significant(self) -> bool:
        """Whether the 95 % interval of the difference leaves out zero."""
        return self.difference.low > 0 or self.difference.high < 0


def accuracy_interval(gold: Classes, predicted: Classes, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Accuracy of `predicted` [N], with its interval; with a teacher's answers as `gold`, the agreement."""
    check_rows(gold, predicted)
    return _interval_of_mean((gold == predicted).astype(np.float64), resamples=resamples, seed=seed)


def macro_f1_interval(gold: Classes, predicted: Classes, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Macro-F1 of `predicted` [N], with its interval. A class that a resample lost leaves its mean (see macro_f1)."""
    check_rows(gold, predicted)
    kinds, counts = np.unique(np.stack([gold, predicted]), axis=1, return_counts=True)  # [2, K], [K]
    of_gold, of_predicted = (kinds[:, :, None] == np.unique(kinds)).astype(np.float64)  # [K, C] each

    def score(drawn: Counts) -> Floats:
        weights = drawn.astype(np.float64)
        return macro_f1_of_counts(weights @ (of_gold * of_predicted), weights @ of_gold, weights @ of_predicted)

    return _bootstrap(counts, score, resamples, seed)


def kept_interval(
    gold: Classes, student: Classes, teacher: Classes, *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Share of the teacher's accuracy that the student keeps, both drawn on the same rows.

    Where the teacher has nothing right there was nothing to lose, and the share is 1.
    """
    check_rows(gold, student, teacher)
    kinds, counts = np.unique(np.stack([student == gold, teacher == gold]), axis=1, return_counts=True)

    def score(drawn: Counts) -> Floats:
        right, base = drawn @ kinds[0], drawn @ kinds[1]
        share: Floats = np.divide(right, base, out=np.ones(np.shape(base)), where=base > 0)
        return share

    return _bootstrap(counts, score, resamples, seed)


def paired(gold: Classes, first: Classes, second: Classes, *, resamples: int = RESAMPLES, seed: int = 0) -> Paired:
    """Compare two models' answers [N] on the same rows; `second` is the teacher, or a student's gold-only twin."""
    check_rows(gold, first, second)
    first_right, second_right = first == gold, second == gold
    only_first, only_second = int(np.sum(first_right & ~second_right)), int(np.sum(second_right & ~first_right))
    difference = first_right.astype(np.float64) - second_right
    interval = _interval_of_mean(difference, resamples=resamples, seed=seed)
    return Paired(interval, mcnemar(only_first, only_second), only_first, only_second)


def mcnemar(only_first_right: int, only_second_right: int) -> float:
    """Exact two-sided McNemar test: the chance of a split at least this uneven were both models equally good.

    McNemar (1947), with the binomial in place of its chi-squared approximation.
    """
    total = only_first_right + only_second_right
    fewer = min(only_first_right, only_second_right)
    if 2 * fewer >= total:
        return 1.0
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    k = np.arange(fewer + 1)
    log_terms = log_factorial[total] - log_factorial[k] - log_factorial[total - k] - total * np.log(2.0)
    return min(1.0, 2.0 * float(np.exp(log_terms).sum()))


def mean_difference(
    gold: Classes, pairs: Sequence[tuple[Classes, Classes]], *, resamples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Mean over `pairs` (say distilled and gold-only, one pair a family) of their difference in accuracy.

    All pairs are resampled on the same rows, so what they share in luck stays shared. Several seeds of a family
    are several pairs; the interval then speaks of new test rows, not of new seeds.
    """
    if not pairs:
        raise ValueError("at least one pair is needed")
    check_rows(gold, *(column for pair in pairs for column in pair))
    differences = [(first == gold).astype(np.int64) - (second == gold) for first, second in pairs]
    return _interval_of_mean(np.sum(differences, axis=0) / len(pairs), resamples=resamples, seed=seed)


def _interval_of_mean(rows: Floats, *, resamples: int, seed: int) -> Interval:
    """The mean of `rows` [N], which take few distinct values."""
    kinds, counts = np.unique(rows, return_counts=True)
    return _bootstrap(counts, lambda drawn: drawn @ kinds / len(rows), resamples, seed)


def _bootstrap(counts: Counts, score: Callable[[Counts], Floats], resamples: int, seed: int) -> Interval:
    """`score` of `counts` [K], the rows of each kind, with its interval; `score` takes draws [..., K], many at once."""
    rows = int(counts.sum())
    generator = np.random.default_rng(seed)
    at_once = max(1, _CELLS_AT_ONCE // len(counts))
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    samples = [score(generator.multinomial(rows, counts / rows, size=size)) for size in sizes]
    return Interval.of_samples(float(score(counts)), np.concatenate(samples))
