"""Static vectors: one learned vector and one learned weight a token, optionally hashed n-grams of token ids.

With n real tokens, a token's share a_i = exp(s_i) / sum_j exp(s_j):
hidden_i = n * a_i * vector[id_i] + sum over sizes of ngram[bucket(i)],
so the head's mean over real positions is the weighted mean of the vectors plus the n-gram vectors' sum over n.
Tensor names: `tokens.weight` [V, E], `scores.weight` [V, 1] (s), `ngrams.table.weight` [buckets, E], row 0 zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.models.base import Backbone, Output, Taps, refuse_state
from gnomon.nn.embeddings import NgramEmbedding
from gnomon.nn.init import init_table
from gnomon.nn.masks import forbidden
from gnomon.nn.packing import take_apart
from gnomon.nn.state import State


@dataclass(frozen=True)
class StaticConfig:
    """`num_ngram_buckets` 0 means no n-grams; `dropout` falls on the whole vector of a position."""

    vocab_size: int
    embedding_size: int
    num_ngram_buckets: int = 0
    ngram_sizes: tuple[int, ...] = (2,)
    dropout: float = 0.0
    pad_token_id: int = 0


class StaticBackbone(Backbone):
    """Tables only: a position's vector depends on its token (and the n-gram that ends there); zero beyond the text."""

    family = "static"

    def __init__(self, config: StaticConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden_size = config.embedding_size
        self.tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.scores = nn.Embedding(config.vocab_size, 1)
        self.ngrams: NgramEmbedding | None = None
        if config.num_ngram_buckets:
            self.ngrams = NgramEmbedding(config.num_ngram_buckets, config.embedding_size, sizes=config.ngram_sizes)
        init_table(self.tokens)
        nn.init.zeros_(self.scores.weight)

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, E]."""
        return self.tokens

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        taps: Taps | None = None,
    ) -> Output:
        """`ids`, `mask`, `documents` [B, T] -> hidden [B, T, D]. Taps: embeddings, weights (a token's share [B, T])."""
        refuse_state(self, state)
        if documents is not None:
            rows, alone, place = take_apart(ids, mask, documents)
            return Output(self.forward(rows, mask=alone, taps=taps).hidden[place])
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        scores: Tensor = self.scores(ids).squeeze(-1)
        shares = scores.masked_fill(~real, forbidden(scores.dtype)).softmax(dim=1) * real
        vectors: Tensor = self.tokens(ids)
        hidden = vectors * (shares * real.sum(dim=1, keepdim=True)).unsqueeze(-1)
        if self.ngrams is not None:
            hidden = hidden + self.ngrams(ids, real)
        if self.training and self.config.dropout:
            hidden = hidden * F.dropout(torch.ones_like(scores), self.config.dropout).unsqueeze(-1)
        if taps is not None:
            taps("embeddings", vectors)
            taps("weights", shares)
        return Output(hidden)
