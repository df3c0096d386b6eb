"""Small texts whose words fall into groups, so that vectors learnt from them can be told right from wrong."""

from __future__ import annotations

import random

GROUPS = (
    ("cat", "dog", "horse", "cow", "sheep"),
    ("red", "green", "blue", "pink", "white"),
    ("one", "two", "three", "four", "five"),
)


def grouped_lines(count: int = 2000, *, length: int = 8, seed: int = 0) -> list[str]:
    """Lines of words that are all of one group."""
    source = random.Random(seed)
    return [" ".join(source.choices(source.choice(GROUPS), k=length)) for _ in range(count)]


def grouped_share(nearest: dict[str, list[str]]) -> float:
    """The share of neighbours that are of a word's own group; by chance 4 of 14."""
    hits = [other in group for group in GROUPS for word in group if word in nearest for other in nearest[word]]
    return sum(hits) / len(hits)
