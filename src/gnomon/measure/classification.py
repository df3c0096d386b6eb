"""Accuracy, macro-F1 and what lies behind them, from integer arrays of gold and predicted classes.

Conventions, those of scikit-learn with `zero_division=0`: a ratio with nothing below the line is 0, and the
macro average runs over the classes that occur in gold or in predicted, no others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError

Classes = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float64]
Probabilities = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class ClassScores:
    """One class: its index, precision, recall and F1 in [0, 1], rows of it in gold (`support`) and in predicted."""

    index: int
    precision: float
    recall: float
    f1: float
    support: int
    predicted: int


def accuracy(gold: Classes, predicted: Classes) -> float:
    """Share of rows where `predicted` [N] equals `gold` [N]; with a teacher's answers as gold, the agreement."""
    check_rows(gold, predicted)
    return float(np.mean(gold == predicted))


def macro_f1(gold: Classes, predicted: Classes) -> float:
    """Unweighted mean of the F1 of every class that occurs in `gold` [N] or `predicted` [N]."""
    matrix = confusion(gold, predicted)
    return float(macro_f1_of_counts(np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0)))


def confusion(gold: Classes, predicted: Classes, *, num_labels: int | None = None) -> npt.NDArray[np.int64]:
    """Counts [C, C]: rows are gold classes, columns predicted ones. C is `num_labels`, else the largest class + 1."""
    check_rows(gold, predicted)
    largest = int(max(gold.max(), predicted.max()))
    size = largest + 1 if num_labels is None else num_labels
    if largest >= size or min(gold.min(), predicted.min()) < 0:
        raise ValueError(f"classes must lie in [0, {size})")
    cells = gold.astype(np.int64) * size + predicted.astype(np.int64)
    return np.bincount(cells, minlength=size * size).reshape(size, size).astype(np.int64)


def per_class(gold: Classes, predicted: Classes, *, num_labels: int) -> list[ClassScores]:
    """The scores of all `num_labels` classes, in the order of their indices."""
    matrix = confusion(gold, predicted, num_labels=num_labels)
    hits, support, answers = np.diagonal(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    precision, recall, f1 = _ratio(hits, answers), _ratio(hits, support), _ratio(2 * hits, support + answers)
    return [
        ClassScores(i, float(precision[i]), float(recall[i]), float(f1[i]), int(support[i]), int(answers[i]))
        for i in range(num_labels)
    ]


def never_predicted(gold: Classes, predicted: Classes) -> list[int]:
    """The classes that occur in `gold` and never in `predicted`: a rare class that was given up."""
    check_rows(gold, predicted)
    return [int(index) for index in np.setdiff1d(gold, predicted)]


def worst_disagreements(teacher: Probabilities, student: Probabilities, *, limit: int = 20) -> list[int]:
    """Rows where the answers of `teacher` [N, C] and `student` [N, C] differ, the most at odds first.

    Two are at odds by what the teacher gives its own answer beyond what the student gives it.
    """
    check_rows(teacher, student)
    answers = teacher.argmax(axis=1)
    differing = np.flatnonzero(answers != student.argmax(axis=1))
    columns = answers[differing]
    odds = teacher[differing, columns] - student[differing, columns]
    return [int(row) for row in differing[np.argsort(-odds, kind="stable")][:limit]]


def macro_f1_of_counts(hits: npt.NDArray[Any], gold: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> Floats:
    """Macro-F1 [...] from counts [..., C] of rows right, in gold and predicted: of one table, or many at once."""
    present = (gold + predicted) > 0
    total: Floats = _ratio(2 * hits, gold + predicted).sum(axis=-1) / present.sum(axis=-1)
    return total


def check_rows(*columns: npt.NDArray[Any]) -> None:
    """Refuse columns of different lengths (a fault of the caller) and empty ones (nothing to measure)."""
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise ValueError(f"columns differ in length: {sorted(lengths)}")
    if lengths == {0}:
        raise GnomonError("there are no rows to measure on", "give at least one labelled text")


def _ratio(above: npt.NDArray[Any], below: npt.NDArray[Any]) -> Floats:
    result: Floats = np.divide(above, below, out=np.zeros(np.shape(below)), where=below != 0)
    return result
