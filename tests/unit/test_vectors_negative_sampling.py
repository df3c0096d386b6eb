"""Skip-gram and CBOW: one step against numpy, worked example C7, and what whole trainings must hold."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.vectors import Lines, WordVectors, train
from gnomon.vectors.kernels import (
    POOL,
    REPORT_FIELDS,
    WORDS,
    Sampling,
    Shape,
    Tables,
    combine,
    train_stretch,
    train_window,
)
from gnomon.vectors.lanes import LANES, OUTPUTS
from gnomon.vectors.negative_sampling import _aligned
from gnomon.vectors.randomness import build_alias, draw, next_random, seed_state
from gnomon.vectors.workers import new_halt
from vector_corpora import GROUPS, grouped_lines, grouped_share

QUICK = settings(deadline=None, derandomize=True, max_examples=40)
Array = np.ndarray[Any, Any]


def step(inputs: Array, words: list[int], output: Array, centre: int, negatives: list[int], rate: float) -> None:
    """One window on padded tables [V, W], in place, as training does it."""
    width = inputs.shape[1]
    addresses = np.array([inputs.ctypes.data + 4 * width * word for word in [*words, 0]], np.int64)
    scratch = np.zeros((2 + len(words)) * LANES, np.float32)
    chosen = np.array(negatives, np.int64)
    rows = np.zeros(OUTPUTS, np.int64)
    spare = np.zeros(width, np.float32)
    tables = (output.ctypes.data, width, spare.ctypes.data)
    train_window(addresses, len(words), centre, chosen, *tables, rows, scratch, np.float32(rate))
    assert not spare.any()


def by_numpy(inputs: Array, words: list[int], output: Array, centre: int, negatives: list[int], rate: float) -> None:
    """The same from the definition: gradients of the logistic loss, six output rows at a time."""
    targets = [centre, *negatives]
    for first in range(0, len(targets), OUTPUTS):
        rows = targets[first : first + OUTPUTS]
        labels = np.array([1.0 if first == 0 and place == 0 else 0.0 for place in range(len(rows))])
        x, o = inputs[words].astype(np.float64), output[rows].astype(np.float64)
        errors = (labels - 1 / (1 + np.exp(-x @ o.T))) * rate
        np.add.at(inputs, words, (errors @ o).astype(np.float32))
        output[rows] = o + errors.T @ x


def random_tables(words: int, size: int, seed: int) -> tuple[Array, Array]:
    source = np.random.default_rng(seed)
    width = -(-size // LANES) * LANES
    tables = _aligned(words, width), _aligned(words, width)
    for table in tables:
        table[:, :size] = source.normal(0, 0.5, (words, size))
    return tables


@QUICK
@given(st.integers(1, 10), st.integers(1, 13), st.integers(1, 40), st.integers(0, 99))
def test_a_step_is_the_gradient_of_the_loss(count: int, negatives: int, size: int, seed: int) -> None:
    inputs, output = random_tables(30, size, seed)
    source = np.random.default_rng(seed + 1)
    centre, *chosen = source.choice(30, negatives + 1, replace=False).tolist()
    words = source.choice(30, count, replace=False).tolist()
    expected_inputs, expected_output = inputs.copy(), output.copy()
    step(inputs, words, output, centre, chosen, 0.1)
    by_numpy(expected_inputs, words, expected_output, centre, chosen, 0.1)
    np.testing.assert_allclose(inputs, expected_inputs, atol=2e-6)
    np.testing.assert_allclose(output, expected_output, atol=2e-6)
    assert not inputs[:, size:].any()  # the padding stays zero
    assert not output[:, size:].any()


def test_worked_example_c7() -> None:
    """吃 near 苹果, against 北京, V = 3, D = 2: only in[吃], out[苹果], out[北京] change; a score rises, one falls."""
    eat, apple, beijing = range(3)
    inputs, output = random_tables(3, 2, 7)
    before_inputs, before_output = inputs.copy(), output.copy()
    step(inputs, [eat], output, apple, [beijing], 0.1)
    assert [bool(row.any()) for row in inputs != before_inputs] == [True, False, False]
    assert [bool(row.any()) for row in output != before_output] == [False, True, True]
    scores, before = output @ inputs[eat], before_output @ before_inputs[eat]
    assert scores[apple] > before[apple]
    assert scores[beijing] < before[beijing]


@pytest.mark.parametrize("score", [-80.0, -20.0, 20.0, 80.0])
def test_extreme_scores_stay_finite(score: float) -> None:
    inputs, output = random_tables(3, 1, 0)
    inputs[:, 0], output[:, 0] = score, 1.0
    step(inputs, [0], output, 1, [2], 0.5)
    assert np.isfinite(inputs).all()
    assert np.isfinite(output).all()


@pytest.mark.parametrize("method", ["skipgram", "cbow"])
@pytest.mark.parametrize("options", [{}, {"shared_table": True}, {"threads": 3}, {"threads": 3, "deterministic": True}])
def test_words_of_a_group_end_up_together(method: Any, options: dict[str, Any]) -> None:
    learnt = train(
        Lines(grouped_lines()),
        method=method,
        size=8,
        window=3,
        negatives=4,
        subsample=0,
        **{"threads": 1, "epochs": 8, **options},
    )
    nearest = {word: [other for other, _ in learnt.nearest(word, count=4)] for group in GROUPS for word in group}
    # One table for both parts of a word stops in local optima with so few words; by chance it is 0.29.
    assert grouped_share(nearest) > (0.7 if options.get("shared_table") else 0.9)
    assert (learnt.output is None) == bool(options.get("shared_table"))
    assert learnt.details["loss"] > 0


@pytest.mark.parametrize("options", [{}, {"threads": 3, "deterministic": True}, {"method": "cbow"}])
def test_the_same_seed_gives_the_same_bits(options: dict[str, Any]) -> None:
    def once(seed: int) -> WordVectors:
        return train(Lines(grouped_lines(500)), size=8, epochs=2, seed=seed, **{"threads": 1, **options})

    first, again, other = once(1), once(1), once(2)
    assert np.array_equal(first.input, again.input)
    assert first.output is not None
    assert again.output is not None
    assert np.array_equal(first.output, again.output)
    assert not np.array_equal(first.input, other.input)


def test_another_process_gives_the_same_bits() -> None:
    """No hash() of Python's in it: it differs from process to process."""
    program = (
        "import hashlib; from gnomon.vectors import Lines, train; "
        "v = train(Lines(['a b c d e f', 'f a c e'] * 40), size=8, threads=1, epochs=2); "
        "print(hashlib.sha256(v.input.tobytes() + v.output.tobytes()).hexdigest(), *v.words)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("negatives", [1, 2, 5, 20])
def test_two_words_are_enough(negatives: int) -> None:
    learnt = train(Lines(["a b a b b"] * 20), size=3, negatives=negatives, threads=2, min_count=1, subsample=0)
    assert np.isfinite(learnt.matrix()).all()


def test_a_shared_table_needs_words_to_set_against() -> None:
    with pytest.raises(GnomonError, match="too few for a shared table"):
        train(Lines(["a b c d"] * 20), shared_table=True, window=5, min_count=1)


def test_a_sentence_longer_than_the_buffer_is_learnt_whole() -> None:
    line = " ".join(grouped_lines(3000))
    learnt = train(Lines([line]), size=8, threads=1, subsample=0, epochs=2)
    assert len(learnt) == 15


def test_draws_follow_the_weights() -> None:
    weights = np.array([1.0, 2.0, 4.0, 0.5, 10.0])
    thresholds, others = np.empty(5, np.uint32), np.empty(5, np.int32)
    build_alias(weights / weights.mean(), thresholds, others)
    state = seed_state(1, 2)
    counts = np.zeros(5)
    for _ in range(40_000):
        state = np.uint64(next_random(state))
        counts[draw(state, thresholds, others)] += 1
    np.testing.assert_allclose(counts / counts.sum(), weights / weights.sum(), atol=0.012)


def test_seeds_are_apart_and_never_zero() -> None:
    states = {int(seed_state(a, b)) for a in range(50) for b in range(50)}
    assert len(states) == 2500
    assert 0 not in states
    assert POOL & (POOL - 1) == 0


def test_copies_are_joined_by_the_mean_move_of_those_that_touched_a_row() -> None:
    master = np.zeros((4, 8), np.float32)
    copies = np.zeros((2, 4, 8), np.float32)
    copies[0, 0], copies[0, 1], copies[1, 1], copies[1, 2] = 1, 1, 3, 5
    touched = np.array([[1, 3, 0, 0], [0, 1, 2, 0]], np.uint8)
    combine(master, copies, touched, 1, 0, 4)
    assert master[:, 0].tolist() == [1, 2, 0, 0]
    assert copies[0, :, 0].tolist() == [1, 2, 0, 0]
    assert touched.tolist() == [[0, 2, 0, 0], [0, 0, 2, 0]]
    combine(master, copies, touched, 2, 0, 4)
    assert master[2, 0] == 5


@pytest.mark.parametrize("mean", [False, True])
def test_a_stretch_of_text_is_learnt_window_by_window(mean: bool) -> None:
    """With three words, two negatives and a window of one word nothing is left to chance."""
    lines = [[0, 1, 2], [2, 0], [1, 2, 0, 1], [1]]
    ids = np.array([word for line in lines for word in [*line, -1]], np.int32)
    inputs, output = random_tables(3, 5, 1)
    expected_inputs, expected_output = inputs.copy(), output.copy()
    tables = Tables(inputs.ctypes.data, output.ctypes.data, inputs.shape[1])
    always, pool = np.full(3, 1 << 32, np.uint64), np.arange(POOL) % 3
    sampling = Sampling(always, np.full(3, 2**32 - 1, np.uint32), np.arange(3, dtype=np.int32), pool)
    report = np.zeros(REPORT_FIELDS)
    arguments = (tables, sampling, Shape(1, 2, mean), np.uint64(7), np.zeros(0, np.uint8), report, new_halt())
    train_stretch(ids, (0, len(ids)), (0.5, 0.5), *arguments)
    for line in lines:
        for place, centre in enumerate(line):
            negatives = [word for word in range(3) if word != centre]
            near = [*line[max(0, place - 1) : place], *line[place + 1 : place + 2]]
            if mean and near:
                middle = expected_inputs[near].mean(axis=0, keepdims=True)
                before = middle.copy()
                by_numpy(middle, [0], expected_output, centre, negatives, 0.5)
                np.add.at(expected_inputs, near, middle - before)
            elif near:
                by_numpy(expected_inputs, near, expected_output, centre, negatives, 0.5)
    np.testing.assert_allclose(inputs, expected_inputs, atol=1e-5)
    np.testing.assert_allclose(output, expected_output, atol=1e-5)
    assert report[WORDS] == sum(map(len, lines))
