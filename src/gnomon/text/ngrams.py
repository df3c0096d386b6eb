"""Hashed n-grams of token ids: the one definition, for numpy arrays and torch tensors alike.

Only operators that both understand are used, on 64-bit integers that wrap, so both give the same buckets.
Bucket 0 means "no n-gram ends here"; its row in a table is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

Integers = TypeVar("Integers", bound=Any)
"""np.ndarray int64 or torch.Tensor int64, [B, T]."""

# Odd 63-bit constants of SplitMix64 (Steele, Lea and Flood 2014), their top bit cleared to fit a signed number.
_STEP = 0x1E3779B97F4A7C15
_MIX = 0x3F58476D1CE4E5B9
_POSITIVE = 0x7FFFFFFFFFFFFFFF


def ngram_buckets(ids: Integers, mask: Any, *, sizes: Sequence[int], num_buckets: int) -> list[Integers]:
    """For each size n, the bucket [B, T] of the n-gram that ends at each position, in 1 .. num_buckets - 1.

    `ids` int64 [B, T], `mask` bool [B, T]. 0 where fewer than n real tokens in a row end; so padding never counts.
    """
    buckets = []
    length = ids.shape[1]
    for size in sizes:
        result = ids * 0
        if size <= length:
            count = length - size + 1
            state = ids[:, :count] * 0 + size
            real = mask[:, :count]
            for offset in range(size):
                state = _mix(state * _STEP + ids[:, offset : offset + count])
                real = real & mask[:, offset : offset + count]
            result[:, size - 1 :] = (1 + (state & _POSITIVE) % (num_buckets - 1)) * real
        buckets.append(result)
    return buckets


def _mix(state: Any) -> Any:
    state = (state ^ (state >> 31)) * _MIX
    return state ^ (state >> 29)
