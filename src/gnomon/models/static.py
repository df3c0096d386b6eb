"""Static vectors: one learned vector and one learned weight a token, optionally hashed n-grams of token ids.

With n real tokens, a token's share a_i = exp(s_i) / sum_j exp(s_j):
hidden_i = n * a_i * vector[id_i] + sum over sizes of ngram[bucket(i)],
so the head's mean over real positions is the weighted mean of the vectors plus the n-gram vectors' sum over n.
Tensor names: `tokens.weight` [V, E], `scores.weight` [V, 1] (s), `ngrams.weight` [num_ngram_buckets, E], row 0 zero.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StaticConfig:
    """`num_ngram_buckets` 0 means no n-grams; `dropout` falls on whole tokens' vectors."""

    vocab_size: int
    embedding_size: int
    num_ngram_buckets: int = 0
    ngram_sizes: tuple[int, ...] = (2,)
    dropout: float = 0.0
    pad_token_id: int = 0
