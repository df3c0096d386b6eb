"""Hashed n-grams of token ids: the one definition, for numpy arrays and torch tensors alike.

Only operators that both understand are used, on 64-bit integers that wrap, so both give the same buckets.
Bucket 0 means "no n-gram ends here"; its row in a table is zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_, xor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Integers = TypeVar("Integers", bound=Any)
"""np.ndarray int64 or torch.Tensor int64, [..., T]."""

Tables = Mapping[tuple[int, int], NDArray[np.int64]]
"""`position_hash` of every token id int64 [vocab_size], by (size, offset)."""

# Odd 63-bit constants of SplitMix64 (Steele, Lea and Flood 2014), their top bit cleared to fit a signed number.
_STEP = 0x1E3779B97F4A7C15
_MIX = 0x3F58476D1CE4E5B9
_POSITIVE = 0x7FFFFFFFFFFFFFFF


def ngram_buckets(
    ids: Integers, mask: Any, *, sizes: Sequence[int], num_buckets: int, tables: Tables | None = None
) -> list[Integers]:
    """For each size n, the bucket [..., T] of the n-gram that ends at each position, in 1 .. num_buckets - 1.

    `ids` int64 [..., T], `mask` bool [..., T] (None: all are real). 0 where fewer than n real tokens in a row end; so
    padding never counts.
    The hash is that of simple tabulation (Patrascu and Thorup 2012): each token's, by its place, joined by XOR.
    Who asks often may give the `ngram_tables` of a vocabulary, for the same buckets in less time.
    """
    buckets = []
    for size in sizes:
        result = ids * 0
        if size <= ids.shape[-1]:
            found = buckets_inside(ids, size=size, num_buckets=num_buckets, tables=tables)
            if mask is not None:
                found = found * reduce(and_, (mask[..., here] for here in _places(ids, size)))
            result[..., size - 1 :] = found
        buckets.append(result)
    return buckets


def buckets_inside(ids: Integers, *, size: int, num_buckets: int, tables: Tables | None = None) -> Integers:
    """The buckets [..., T - size + 1] of the n-grams of one size that lie whole in ids [..., T], all of them real."""
    parts = (
        position_hash(ids[..., here], size, offset) if tables is None else tables[size, offset].take(ids[..., here])
        for offset, here in enumerate(_places(ids, size))
    )
    found: Integers = reduce(xor, parts) % (num_buckets - 1) + 1
    return found


def _places(ids: Integers, size: int) -> list[slice]:
    """Where the first, second, ... tokens of n-grams stand; nowhere in a text that is shorter than one."""
    count = max(ids.shape[-1] - size + 1, 0)
    return [slice(offset, offset + count) for offset in range(size)]


def ngram_tables(vocab_size: int, sizes: Sequence[int]) -> Tables:
    """What `ngram_buckets` looks up instead of computing: 8 bytes for each token, size and place."""
    ids = np.arange(vocab_size, dtype=np.int64)
    return {(size, offset): position_hash(ids, size, offset) for size in sizes for offset in range(size)}


def position_hash(ids: Integers, size: int, offset: int) -> Integers:
    """63 well mixed bits of each id, as the token at place `offset` of an n-gram of `size`."""
    state: Any = ids * _STEP + (size << 32) + (offset << 16)
    state = (state ^ (state >> 31)) * _MIX
    hashed: Integers = (state ^ (state >> 29)) & _POSITIVE
    return hashed
