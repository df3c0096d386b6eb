"""PPMI, LSA and GloVe against their definitions in plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from gnomon.errors import GnomonError
from gnomon.vectors import Lines, train
from gnomon.vectors.encode import encode
from gnomon.vectors.factorise import truncated_svd
from gnomon.vectors.glove import cell_weights
from gnomon.vectors.kernels import LOSS, REPORT_FIELDS, train_cells
from gnomon.vectors.lsa import tf_idf
from gnomon.vectors.ppmi import positive_pmi
from vector_corpora import GROUPS, grouped_lines, grouped_share


def random_counts(size: int, seed: int) -> Any:
    source = np.random.default_rng(seed)
    upper = np.triu(source.poisson(0.7, (size, size)).astype(np.float32))
    return sparse.csr_matrix(upper + upper.T)


def test_positive_pmi_is_its_definition() -> None:
    counts = random_counts(20, 0)
    dense = counts.toarray().astype(np.float64)
    joint, of_word = dense / dense.sum(), dense.sum(axis=1) / dense.sum()
    of_context = dense.sum(axis=1) ** 0.75
    of_context /= of_context.sum()
    with np.errstate(divide="ignore"):
        expected = np.maximum(np.log(joint / np.outer(of_word, of_context)), 0)
    np.testing.assert_allclose(positive_pmi(counts).toarray(), expected, atol=1e-5)


def test_tf_idf_is_its_definition() -> None:
    corpus = encode(Lines(["a b a c", "b b", "c d"]), min_count=1)
    matrix = tf_idf(corpus).toarray()
    place = corpus.vocabulary.index
    idf = {word: np.log(3 / documents) for word, documents in {"a": 1, "b": 2, "c": 2, "d": 1}.items()}
    first = np.zeros(4)
    first[place["a"]], first[place["b"]], first[place["c"]] = (1 + np.log(2)) * idf["a"], idf["b"], idf["c"]
    np.testing.assert_allclose(matrix[0], first / np.linalg.norm(first), rtol=1e-5)
    assert matrix[1][place["b"]] == pytest.approx(1)
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1, rtol=1e-5)


def test_the_randomised_svd_finds_what_the_exact_one_does() -> None:
    source = np.random.default_rng(3)
    dense = (source.normal(size=(80, 10)) @ source.normal(size=(10, 60))).astype(np.float32)
    left, values, right = truncated_svd(sparse.csr_matrix(dense), 6, seed=0, threads=2)
    exact = np.linalg.svd(dense)
    np.testing.assert_allclose(values, exact[1][:6], rtol=1e-4)
    best = exact[0][:, :6] * exact[1][:6] @ exact[2][:6]
    np.testing.assert_allclose(left * values @ right.T, best, atol=1e-3)


def test_more_numbers_than_the_counts_hold_are_refused() -> None:
    with pytest.raises(GnomonError, match="vectors of 100 numbers"):
        train(Lines(grouped_lines(50)), method="ppmi", threads=1)


def glove_by_numpy(cells: list[tuple[int, int, float]], values: Any, squares: Any, rate: float) -> float:
    """The same steps from the loss f(x) (w.c + b + b' - log x)^2 / 2 and AdaGrad's definition."""
    loss = 0.0
    for row, column, count in cells:
        weight = min(count / 10.0, 1.0) ** 0.75
        word, other = values[0, row].copy(), values[1, column].copy()
        difference = word[:-1] @ other[:-1] + word[-1] + other[-1] - np.log(count)
        loss += weight * difference**2 / 2
        gradients = (
            np.append(weight * difference * other[:-1], weight * difference),
            np.append(weight * difference * word[:-1], weight * difference),
        )
        for table, number, gradient in zip((0, 1), (row, column), gradients, strict=True):
            squares[table, number] += gradient**2
            values[table, number] -= rate * gradient / np.sqrt(squares[table, number])
    return loss


@pytest.mark.parametrize("size", [1, 7, 20])
def test_glove_takes_the_steps_of_the_reference(size: int) -> None:
    source = np.random.default_rng(size)
    values = source.normal(0, 0.3, (2, 12, size + 1)).astype(np.float32)
    squares = np.ones_like(values)
    cells = [
        (int(a), int(b), float(x))
        for a, b, x in zip(*source.integers(0, 12, (2, 50)), source.gamma(1, 8, 50), strict=True)
    ]
    expected_values, expected_squares = values.astype(np.float64), squares.astype(np.float64)
    expected = glove_by_numpy(cells, expected_values, expected_squares, 0.05)
    rows, columns, counts = (np.array(column) for column in zip(*cells, strict=True))
    counts = counts.astype(np.float32)
    report = np.zeros(REPORT_FIELDS)
    arrays = (rows.astype(np.int32), columns.astype(np.int32), np.log(counts), cell_weights(counts))
    train_cells(*arrays, np.float32(0.05), values, squares, report, np.zeros(1, np.int64))
    assert report[LOSS] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(values, expected_values, atol=1e-5)
    np.testing.assert_allclose(squares, expected_squares, rtol=1e-4)


def test_the_gradient_of_glove_is_that_of_its_loss() -> None:
    """Finite differences on the reference loss, so that reference and kernel cannot share a mistake."""
    source = np.random.default_rng(5)
    word, other, count = source.normal(size=5), source.normal(size=5), 4.0

    def loss(of_word: Any) -> float:
        difference = of_word[:-1] @ other[:-1] + of_word[-1] + other[-1] - np.log(count)
        return float((count / 10) ** 0.75 * difference**2 / 2)

    values = np.stack([word, other])[:, None].astype(np.float32)
    squares = np.ones_like(values)
    one, counted = np.zeros(1, np.int32), np.full(1, count, np.float32)
    stop = np.zeros(1, np.int64)
    train_cells(one, one, np.log(counted), cell_weights(counted), np.float32(1), values, squares, np.zeros(8), stop)
    squared = squares[0, 0] - 1
    numeric = [(loss(word + step) - loss(word - step)) / 2e-5 for step in np.eye(5) * 1e-5]
    np.testing.assert_allclose(np.sqrt(squared), np.abs(numeric), rtol=1e-3)
    np.testing.assert_allclose(word - values[0, 0], np.array(numeric) / np.sqrt(1 + squared), rtol=1e-3)


@pytest.mark.parametrize("method", ["ppmi", "lsa", "glove"])
@pytest.mark.parametrize("threads", [1, 3])
def test_words_of_a_group_end_up_together(method: Any, threads: int) -> None:
    learnt = train(Lines(grouped_lines(400)), method=method, size=5, window=3, threads=threads)
    nearest = {word: [other for other, _ in learnt.nearest(word, count=4)] for group in GROUPS for word in group}
    assert grouped_share(nearest) > 0.9
    again = train(Lines(grouped_lines(400)), method=method, size=5, window=3, threads=threads)
    assert np.array_equal(learnt.input, again.input)
