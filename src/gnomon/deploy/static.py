"""Static vectors as the arrays that `runtime/static.py` reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

NGRAMS = "backbone.ngrams.table.weight"


def build_static(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model's own tensors, the n-gram table without its rows of zeros (buckets that training never met).

    `ngrams.rows` int32 says which row of the smaller table each bucket has; row 0 is zero.
    """
    built = dict(arrays)
    if NGRAMS in built:
        table = built[NGRAMS]
        used = np.flatnonzero(table.any(axis=1))
        rows = np.zeros(len(table), dtype=np.int32)
        rows[used] = np.arange(1, len(used) + 1)
        built[NGRAMS] = np.concatenate([np.zeros_like(table[:1]), table[used]])
        built["ngrams.rows"] = rows
    return built
