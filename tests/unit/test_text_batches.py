"""Padding and batches: every row once, by (seed, epoch) alone, rows of like length together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.text.batches import Batches, length_sorted_batches, pad

LENGTHS = st.lists(st.integers(0, 30), max_size=300)


def test_pad() -> None:
    ids, mask = pad([[5, 6, 7], [], [8]], pad_id=9)
    assert ids.tolist() == [[5, 6, 7], [9, 9, 9], [8, 9, 9]]
    assert mask.tolist() == [[True, True, True], [False, False, False], [True, False, False]]
    assert (ids.dtype, mask.dtype) == (np.int64, np.bool_)
    arrays, _ = pad([np.array([5, 6, 7], np.int32), np.array([], np.int32), np.array([8], np.int32)], pad_id=9)
    assert np.array_equal(arrays, ids)


def test_pad_nothing() -> None:
    assert pad([[], []], pad_id=3)[0].tolist() == [[3], [3]]
    assert pad([], pad_id=0)[0].shape == (0, 1)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    lengths=LENGTHS,
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_every_row_exactly_once(lengths: list[int], batch_size: int, seed: int, epoch: int, shuffle: bool) -> None:
    rows = list(range(len(lengths)))
    batches = Batches(rows, lengths, batch_size=batch_size, seed=seed, shuffle=shuffle)
    made = batches.epoch(epoch)
    assert len(made) == batches.steps_per_epoch == -(-len(rows) // batch_size)
    assert sorted(row for batch in made for row in batch) == rows
    assert sum(len(batch) < batch_size for batch in made) <= 1
    again = Batches(rows, np.array(lengths), batch_size=batch_size, seed=seed, shuffle=shuffle).epoch(epoch)
    assert list(again) == list(made)
    place = len(made) // 2
    assert list(made[place:]) == list(made)[place:]


def test_seed_and_epoch_matter() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 5000)
    first = list(Batches(range(5000), lengths, batch_size=32, seed=1).epoch(0))
    assert first != list(Batches(range(5000), lengths, batch_size=32, seed=1).epoch(1))
    assert first != list(Batches(range(5000), lengths, batch_size=32, seed=2).epoch(0))


def test_the_order_is_part_of_the_format() -> None:
    """Resuming after an upgrade needs the same batches; numpy keeps the stream of PCG64's permutation."""
    batches = Batches(list(range(12)), [3, 1, 2] * 4, batch_size=5, seed=7)
    assert [list(batch) for batch in batches.epoch(2)] == [[5, 8, 2, 3, 0], [1, 4, 10, 7, 11], [6, 9]]


def test_little_padding_and_well_shuffled() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 20_000)
    made = Batches(range(20_000), lengths, batch_size=32, seed=0).epoch(0)
    padded = sum(len(batch) * lengths[batch].max() for batch in made)
    assert lengths.sum() / padded > 0.95
    means = np.array([lengths[batch].mean() for batch in made])
    half = len(means) // 2
    assert abs(means[:half].mean() - means[half:].mean()) < 3
    assert abs(np.corrcoef(means[:-1], means[1:])[0, 1]) < 0.15


def test_unshuffled_is_sorted_and_stable() -> None:
    batches = Batches("abcdef", [2, 1, 2, 1, 0, 2], batch_size=4, shuffle=False)
    assert list(batches.epoch(0)) == [list("ebda"), list("cf")] == list(batches.epoch(5))
    assert [batch.tolist() for batch in length_sorted_batches([3, 1, 2], batch_size=2)] == [[1, 2], [0]]
    assert length_sorted_batches([], batch_size=2) == []


def test_refusals() -> None:
    with pytest.raises(GnomonError, match="batch_size is 0"):
        Batches([1], [1], batch_size=0)
    with pytest.raises(GnomonError, match="seed is -1"):
        Batches([1], [1], batch_size=1, seed=-1)
    with pytest.raises(ValueError, match="2 lengths"):
        Batches([1], [1, 2], batch_size=1)
    with pytest.raises(IndexError):
        Batches([1], [1], batch_size=1).epoch(0)[1]
