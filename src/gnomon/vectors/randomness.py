"""Random numbers inside kernels: an xorshift64 state a shard, seeded by splitmix64; draws by the alias method."""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.vectors.compiling import kernel

_MASK = (1 << 64) - 1


def seed_state(*numbers: int) -> np.uint64:
    """A state for a generator of its own, the same for the same numbers on every machine; never zero.

    Each number goes through splitmix64 (Steele, Lea, Flood 2014), so neighbours give unrelated states.
    """
    state = 0
    for number in numbers:
        state = (state ^ number) + 0x9E3779B97F4A7C15 & _MASK
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK
        state ^= state >> 31
    return np.uint64(state or 1)


@kernel
def next_random(state: Any) -> Any:
    """The next xorshift64 state (Marsaglia 2003); the state is the random number, its upper bits the better ones."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@kernel
def below(state: Any, limit: Any) -> Any:
    """A number in [0, limit), of the upper half of `state`."""
    return np.int64(((state >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))


@kernel
def build_alias(scaled: Any, thresholds: Any, others: Any) -> None:
    """Fill the tables of the alias method (Vose 1991) for draws in proportion to `scaled` float64 [V].

    Its mean must be 1; it is used up. Slot i means i itself with chance thresholds[i] / 2**32 (uint32 [V]), else
    others[i] (int32 [V]).
    """
    size = len(scaled)
    small, large = np.empty(size, np.int64), np.empty(size, np.int64)
    smalls = larges = 0
    for index in range(size):
        thresholds[index] = np.uint32(0xFFFFFFFF)
        others[index] = index
        if scaled[index] < 1.0:
            small[smalls] = index
            smalls += 1
        else:
            large[larges] = index
            larges += 1
    while smalls > 0 and larges > 0:
        smalls -= 1
        low, high = small[smalls], large[larges - 1]
        thresholds[low] = np.uint32(min(scaled[low] * 4294967296.0, 4294967295.0))
        others[low] = high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1


@kernel
def draw(state: Any, thresholds: Any, others: Any) -> Any:
    """A word drawn with one random state: the upper half picks the slot, the lower half which of its two meanings."""
    slot = below(state, len(thresholds))
    return slot if np.uint32(state & np.uint64(0xFFFFFFFF)) <= thresholds[slot] else np.int64(others[slot])
