"""Accuracy, macro-F1 and their kin agree with scikit-learn on any two columns of classes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.measure.classification import accuracy, confusion, macro_f1, never_predicted, per_class

metrics = pytest.importorskip("sklearn.metrics")

ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=60)
PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


def _columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    gold, predicted = np.array(rows, dtype=np.int64).T
    return gold, predicted


@PROPERTY
@given(ROWS)
def test_figures_equal_scikit_learn(rows: list[tuple[int, int]]) -> None:
    gold, predicted = _columns(rows)
    assert accuracy(gold, predicted) == pytest.approx(metrics.accuracy_score(gold, predicted))
    expected = metrics.f1_score(gold, predicted, average="macro", zero_division=0)
    assert macro_f1(gold, predicted) == pytest.approx(expected)
    expected_matrix = metrics.confusion_matrix(gold, predicted, labels=range(6))
    assert (confusion(gold, predicted, num_labels=6) == expected_matrix).all()


@PROPERTY
@given(ROWS)
def test_per_class_scores_equal_scikit_learn(rows: list[tuple[int, int]]) -> None:
    gold, predicted = _columns(rows)
    expected = metrics.precision_recall_fscore_support(gold, predicted, labels=range(6), zero_division=0)
    scores = per_class(gold, predicted, num_labels=6)
    found = [[one.precision for one in scores], [one.recall for one in scores], [one.f1 for one in scores]]
    np.testing.assert_allclose(found, expected[:3], atol=1e-12)
    assert [one.support for one in scores] == list(expected[3])
    assert [one.predicted for one in scores] == [int((predicted == index).sum()) for index in range(6)]


def test_a_class_given_up_is_named_and_counts_in_macro_f1() -> None:
    gold, predicted = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 0, 0, 0])
    assert never_predicted(gold, predicted) == [1, 2]
    assert macro_f1(gold, predicted) == pytest.approx((2 * 3 / 8) / 3)


def test_no_rows_is_the_users_mistake_and_unequal_columns_ours() -> None:
    with pytest.raises(GnomonError, match="no rows"):
        accuracy(np.array([], dtype=np.int64), np.array([], dtype=np.int64))
    with pytest.raises(ValueError, match="differ in length"):
        accuracy(np.array([1]), np.array([1, 2]))
    with pytest.raises(ValueError, match="must lie in"):
        confusion(np.array([3]), np.array([0]), num_labels=3)
