"""Packed windows: documents kept apart, every token once, and a pure function of (seed, epoch, index)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.text.shards import PartWriter
from gnomon.text.windows import NO_TARGET, PackedBatches, Window, pack

quick = settings(deadline=None, derandomize=True, max_examples=60)
PAD = 99
lengths = st.lists(st.integers(1, 9), min_size=1, max_size=12)


def make_part(folder, sizes, shard_tokens=13):
    """Documents whose ids are all different, so that a token tells its place."""
    folder.mkdir(exist_ok=True)
    writer = PartWriter(folder, "train", "<u2", shard_tokens)
    ids = np.arange(1000, 1000 + sum(sizes))
    for size, end in zip(sizes, np.cumsum(sizes), strict=True):
        writer.add(ids[end - size : end], size=size, unknown=0)
    return writer.close()


def batches(part, **more):
    settings_ = {"batch_size": 2, "length": 5, "vocab_size": 10_000, **more}
    return PackedBatches(part, **settings_)


def test_targets_documents_and_positions_of_a_row():
    window = Window(np.array([5, 6, 7, 8, 9, 10, 11, 12, 13]), np.array([3, 7]))
    packed = pack([window, Window(np.array([1, 2, 3]), np.array([0]))], length=8, pad_id=PAD)
    assert packed.ids.tolist() == [[5, 6, 7, 8, 9, 10, 11, 12], [1, 2, 3, PAD, PAD, PAD, PAD, PAD]]
    no = NO_TARGET
    assert packed.targets.tolist() == [[6, 7, no, 9, 10, 11, no, 13], [2, 3, no, no, no, no, no, no]]
    assert packed.documents.tolist() == [[0, 0, 0, 1, 1, 1, 1, 2], [0, 0, 0, -1, -1, -1, -1, -1]]
    assert packed.positions.tolist() == [[0, 1, 2, 0, 1, 2, 3, 0], [0, 1, 2, 0, 0, 0, 0, 0]]
    assert packed.num_targets == 8


@given(sizes=lengths, length=st.integers(1, 12), batch_size=st.integers(1, 3))
@quick
def test_in_order_each_token_is_a_target_once(tmp_path_factory, sizes, length, batch_size):
    if sum(sizes) < 2:
        return
    part = make_part(tmp_path_factory.mktemp("part"), sizes)
    source = batches(part, length=length, batch_size=batch_size, shuffle=False)
    epoch = source.epoch(0)
    assert len(epoch) == source.steps_per_epoch
    seen = []
    for windows in epoch:
        packed = pack(windows, length=length, pad_id=PAD)
        real = packed.targets != NO_TARGET
        assert (packed.targets[real] == packed.ids[real] + 1).all()
        assert (packed.documents[packed.ids == PAD] == -1).all()
        seen += packed.targets[real].tolist()
    first = set((1000 + np.cumsum([0, *sizes[:-1]])).tolist())
    assert seen == [token for token in range(1000, 1000 + sum(sizes)) if token not in first]


@given(sizes=lengths, length=st.integers(1, 12), seed=st.integers(0, 3))
@quick
def test_shuffled_no_token_is_read_twice_and_few_are_left_out(tmp_path_factory, sizes, length, seed):
    if sum(sizes) < 2:
        return
    part = make_part(tmp_path_factory.mktemp("part"), sizes)
    source = batches(part, length=length, seed=seed)
    for n in range(3):
        rows = [window for batch in source.epoch(n) for window in batch]
        assert len(rows) == source.num_windows
        inputs = [token for window in rows for token in window.ids[:length].tolist()]
        assert len(set(inputs)) == len(inputs) > sum(sizes) - length
        packed = pack(rows, length=length, pad_id=PAD)
        real = packed.targets != NO_TARGET
        assert (packed.targets[real] == packed.ids[real] + 1).all()


@given(sizes=lengths, length=st.integers(2, 12))
@quick
def test_rows_know_their_documents_wherever_they_are_cut(tmp_path_factory, sizes, length):
    if sum(sizes) < 2:
        return
    part = make_part(tmp_path_factory.mktemp("part"), sizes)
    owner = dict(zip(range(1000, 1000 + sum(sizes)), np.repeat(np.arange(len(sizes)), sizes), strict=True))
    for windows in batches(part, length=length).epoch(1):
        packed = pack(windows, length=length, pad_id=PAD)
        for ids, documents, positions in zip(packed.ids, packed.documents, packed.positions, strict=True):
            for place in range(1, int((ids != PAD).sum())):
                together = owner[int(ids[place])] == owner[int(ids[place - 1])] and ids[place] == ids[place - 1] + 1
                assert (documents[place] == documents[place - 1]) == together
                assert positions[place] == (positions[place - 1] + 1 if together else 0)


def test_a_place_in_the_data_is_a_pure_function(tmp_path):
    part = make_part(tmp_path, [7] * 20)
    first, again = batches(part, seed=3), batches(part, seed=3)
    rows = [window.ids.tolist() for windows in first.epoch(5) for window in windows]
    assert [window.ids.tolist() for window in again.epoch(5)[4]] == rows[8:10]
    assert [[w.ids.tolist() for w in batch] for batch in again.epoch(5)[1:3]] == [rows[2:4], rows[4:6]]
    assert again.epoch(5)[-1][0].ids.tolist() == rows[-2]
    other = [window.ids.tolist() for windows in batches(part, seed=4).epoch(5) for window in windows]
    assert other != rows != [window.ids.tolist() for windows in first.epoch(6) for window in windows]
    with pytest.raises(IndexError):
        first.epoch(5)[first.steps_per_epoch]


def test_an_id_beyond_the_vocabulary_stops_with_its_place(tmp_path):
    part = make_part(tmp_path, [7] * 3)
    with pytest.raises(GnomonError, match=r"id 1,0\d\d near place \d+, and the model knows the ids 0 to 1,009"):
        list(batches(part, vocab_size=1010).epoch(0))


def test_too_little_text_and_impossible_sizes_are_refused(tmp_path):
    with pytest.raises(GnomonError, match="1 tokens"):
        batches(make_part(tmp_path / "a", [1]))
    with pytest.raises(GnomonError, match="length"):
        batches(make_part(tmp_path / "b", [5]), length=0)
