"""Positive pointwise mutual information of nearby words, and its singular vectors.

PMI(w, c) = log(x_wc / (x_w P(c))), where x counts pairs and P(c) is c's share of all pairs, to the power 0.75 so that
rare contexts do not rule; what is negative becomes 0. Vectors are U sqrt(S) and V sqrt(S).
Source: Church and Hanks 1990; Levy, Goldberg and Dagan 2015 for the smoothing and the square root; D7 2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.vectors.cooccurrence import as_word2vec, cooccurrences
from gnomon.vectors.encode import Corpus
from gnomon.vectors.factorise import truncated_svd
from gnomon.vectors.negative_sampling import Learnt
from gnomon.vectors.settings import Settings
from gnomon.vectors.workers import Watch, unwatched

SMOOTHING = 0.75


def ppmi(corpus: Corpus, settings: Settings, *, watch: Watch = unwatched) -> Learnt:
    """Count, weigh and factorise. Raises GnomonError when `size` is more than there are words."""
    counts = cooccurrences(
        corpus, window=settings.window, falling=as_word2vec, threads=settings.used_threads, watch=watch
    )
    matrix = positive_pmi(counts)
    left, values, right = truncated_svd(
        matrix, settings.size, seed=settings.seed, threads=settings.used_threads, watch=watch
    )
    roots = np.sqrt(values)
    return Learnt(left * roots, right * roots)


def positive_pmi(counts: Any) -> Any:
    """A symmetric CSR matrix of counts [V, V] as one of positive PMI, float32, zeros left out."""
    totals = np.asarray(counts.sum(axis=1), np.float64).ravel()
    shares = totals**SMOOTHING
    shares /= shares.sum()
    with np.errstate(divide="ignore"):  # words that stand near no other: no cell holds them
        row_logs, column_logs = np.log(totals), np.log(shares)
    matrix = counts.copy()
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    values = np.log(counts.data) - row_logs[rows] - column_logs[counts.indices]
    matrix.data = np.maximum(values, 0).astype(np.float32)
    matrix.eliminate_zeros()
    return matrix
