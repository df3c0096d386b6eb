"""Static vectors as the arrays that `runtime/static.py` reads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnomon.models.base import HeadConfig

TOKENS = "backbone.tokens.weight"
NGRAMS = "backbone.ngrams.table.weight"
DENSE = "head.dense.weight"


def build_static(head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The model's tensors, smaller and with less left to do: n-gram rows that training never met are zero and are left
    out, and a dense layer after a mean is multiplied into the tables, unless that would widen them."""
    built = dict(arrays)
    if NGRAMS in built:
        built[NGRAMS], built["ngrams.rows"] = _without_zeros(built[NGRAMS])
    if head.pooling == "mean" and head.dense_size is not None and head.dense_size <= built[TOKENS].shape[1]:
        dense = built.pop(DENSE)
        for name in {TOKENS, NGRAMS} & set(built):
            built[name] = built[name] @ dense.T
    return built


def _without_zeros(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that are not zero, after one that is; and the row of each bucket, int32."""
    used = np.flatnonzero(table.any(axis=1))
    rows = np.zeros(len(table), dtype=np.int32)
    rows[used] = np.arange(1, len(used) + 1)
    return np.concatenate([np.zeros_like(table[:1]), table[used]]), rows
