"""Token, position and n-gram tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.nn.embeddings import NgramEmbedding, TransformerEmbeddings
from gnomon.text.ngrams import ngram_buckets, ngram_tables

quick = settings(deadline=None, derandomize=True, max_examples=40)


def plain_buckets(row: list[int], size: int, num_buckets: int) -> list[int]:
    """The definition with Python's unbounded integers, wrapped by hand, one n-gram at a time."""

    def signed(value: int) -> int:
        value &= 2**64 - 1
        return value - 2**64 if value >= 2**63 else value

    result = [0] * len(row)
    for end in range(size - 1, len(row)):
        joined = 0
        for offset, token in enumerate(row[end - size + 1 : end + 1]):
            state = signed(token * 0x1E3779B97F4A7C15 + size * 2**32 + offset * 2**16)
            state = signed((state ^ (state >> 31)) * 0x3F58476D1CE4E5B9)
            joined ^= (state ^ (state >> 29)) & (2**63 - 1)
        result[end] = 1 + joined % (num_buckets - 1)
    return result


rows_of_ids = st.lists(st.lists(st.integers(0, 50_000), max_size=6), min_size=1, max_size=4)


@quick
@given(rows_of_ids, st.lists(st.integers(1, 4), min_size=1, max_size=3), st.sampled_from([2, 3, 101, 100_003]))
def test_numpy_torch_and_the_definition_agree(rows: list[list[int]], sizes: list[int], num_buckets: int) -> None:
    length = max(1, *map(len, rows))
    ids = np.array([row + [7] * (length - len(row)) for row in rows], dtype=np.int64)
    mask = np.arange(length) < np.array([len(row) for row in rows])[:, None]
    buckets = ngram_buckets(ids, mask, sizes=sizes, num_buckets=num_buckets)
    by_table = ngram_buckets(ids, mask, sizes=sizes, num_buckets=num_buckets, tables=ngram_tables(50_001, sizes))
    in_torch = ngram_buckets(torch.from_numpy(ids), torch.from_numpy(mask), sizes=sizes, num_buckets=num_buckets)
    for size, ours, looked_up, theirs in zip(sizes, buckets, by_table, in_torch, strict=True):
        assert ours.dtype == np.int64
        np.testing.assert_array_equal(ours, looked_up)
        np.testing.assert_array_equal(ours, theirs.numpy())
        for row, found in zip(rows, ours.tolist(), strict=True):
            assert found == plain_buckets(row, size, num_buckets) + [0] * (length - len(row))


def test_buckets_are_the_same_for_ever() -> None:
    """A saved table is read with this hash: these numbers may never change."""
    ids, mask = np.array([[101, 2054, 2003, 102]]), np.ones((1, 4), dtype=bool)
    found = [item.tolist() for item in ngram_buckets(ids, mask, sizes=(2, 3), num_buckets=100_003)]
    assert found == [[plain_buckets([101, 2054, 2003, 102], size, 100_003)] for size in (2, 3)]
    assert found == [[[0, 61689, 2028, 78693]], [[0, 0, 59509, 26468]]]


def test_buckets_are_spread_evenly() -> None:
    pairs = np.stack(np.meshgrid(np.arange(200), np.arange(200)), axis=-1).reshape(-1, 2)
    (buckets,) = ngram_buckets(pairs, np.ones(pairs.shape, dtype=bool), sizes=(2,), num_buckets=1001)
    counts = np.bincount(buckets[:, 1], minlength=1001)
    assert counts[0] == 0
    chi_squared = ((counts[1:] - 40) ** 2 / 40).sum()
    assert 850 < chi_squared < 1150  # 999 degrees of freedom, deviation 45


def test_order_matters() -> None:
    both = np.array([[5, 6], [6, 5]])
    (buckets,) = ngram_buckets(both, np.ones((2, 2), dtype=bool), sizes=(2,), num_buckets=100_003)
    assert buckets[0, 1] != buckets[1, 1]


def test_an_ngram_table_starts_at_zero_and_pads_never_count() -> None:
    table = NgramEmbedding(11, 4, sizes=(2, 3))
    ids, mask = torch.randint(0, 9, (3, 5)), torch.arange(5) < torch.tensor([[5], [2], [1]])
    assert not table(ids, mask).any()
    with torch.no_grad():
        table.table.weight[1:] = torch.randn(10, 4)
    vectors = table(ids, mask)
    assert not vectors[~mask].any()
    assert not vectors[:, 0].any()
    assert vectors[:2, 1].any()
    vectors.sum().backward()
    gradient = table.table.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    assert not gradient.to_dense()[0].any()


def test_impossible_ngrams_are_refused() -> None:
    for buckets, sizes in ((1, (2,)), (10, ()), (10, (1, 2))):
        with pytest.raises(GnomonError, match="n-grams of sizes"):
            NgramEmbedding(buckets, 4, sizes=sizes)


def test_c12_learned_positions_are_saved_tensors() -> None:
    embeddings = TransformerEmbeddings(10, 6, 2, 4)
    assert set(embeddings.state_dict()) == {
        "tokens.weight", "positions.weight", "segments.weight", "norm.weight", "norm.bias"
    }  # fmt: skip


def test_positions_count_real_tokens_wherever_padding_is() -> None:
    torch.manual_seed(0)
    embeddings = TransformerEmbeddings(10, 8, 0, 4, position_offset=2).eval()
    text = torch.tensor([[4, 5, 6]])
    alone = embeddings(text)
    for left, right in ((0, 2), (2, 0), (1, 2)):
        ids = torch.nn.functional.pad(text, (left, right))
        mask = torch.nn.functional.pad(torch.ones_like(text, dtype=torch.bool), (left, right))
        torch.testing.assert_close(embeddings(ids, mask)[:, left : left + 3], alone)
    expected = embeddings.norm(embeddings.tokens(text) + embeddings.positions(torch.tensor([[2, 3, 4]])))
    torch.testing.assert_close(alone, expected)


def test_a_text_longer_than_the_table_is_explained() -> None:
    embeddings = TransformerEmbeddings(10, 8, 2, 4, position_offset=2)
    assert embeddings.max_positions == 6
    embeddings(torch.zeros(1, 6, dtype=torch.long))
    with pytest.raises(GnomonError, match="7 tokens is longer than the 6 positions"):
        embeddings(torch.zeros(1, 7, dtype=torch.long))
