"""Tables that turn ids into vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.text.ngrams import ngram_buckets


class TransformerEmbeddings(nn.Module):
    """Token + learned position + optional segment, then LayerNorm and dropout (BERT).

    Positions count real tokens only, so padding on either side moves none; the first is row `position_offset`.
    """

    def __init__(
        self,
        num_tokens: int,
        num_positions: int,
        num_segments: int,
        size: int,
        *,
        position_offset: int = 0,
        norm_eps: float = 1e-12,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.position_offset = position_offset
        self.tokens = nn.Embedding(num_tokens, size)
        self.positions = nn.Embedding(num_positions, size)
        self.segments = nn.Embedding(num_segments, size) if num_segments else None
        self.norm = nn.LayerNorm(size, eps=norm_eps)
        self.dropout = nn.Dropout(dropout)

    @property
    def max_positions(self) -> int:
        """The longest text, in tokens."""
        return self.positions.num_embeddings - self.position_offset

    def forward(self, ids: Tensor, mask: Tensor | None = None, segment_ids: Tensor | None = None) -> Tensor:
        """`ids` [B, T], `mask` [B, T] bool, `segment_ids` [B, T] (None: all 0) -> [B, T, D].

        Raises GnomonError for a text longer than the position table.
        """
        length = ids.shape[1]
        if length > self.max_positions:
            raise GnomonError(
                f"a text of {length} tokens is longer than the {self.max_positions} positions this model has",
                f"cut texts to {self.max_positions} tokens (max_length)",
            )
        if mask is None:
            positions = torch.arange(length, device=ids.device)[None]
        else:
            positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        x = self.tokens(ids) + self.positions(positions + self.position_offset)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segment_ids is None else self.segments(segment_ids))
        result: Tensor = self.dropout(self.norm(x))
        return result


class NgramEmbedding(nn.Module):
    """One vector for each bucket of hashed n-grams of token ids; row 0 is zero and stays so.

    Its gradient is sparse: a step touches the rows that occurred, not the whole table. It starts at zero.
    """

    def __init__(self, num_buckets: int, size: int, *, sizes: Sequence[int]) -> None:
        super().__init__()
        if num_buckets < 2 or not sizes or min(sizes) < 2:
            raise GnomonError(
                f"n-grams of sizes {tuple(sizes)} in {num_buckets} buckets",
                "give sizes of 2 or more, and 2 buckets or more (0 for no n-grams)",
            )
        self.sizes = tuple(sizes)
        self.table = nn.Embedding(num_buckets, size, padding_idx=0, sparse=True)
        nn.init.zeros_(self.table.weight)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """`ids` [B, T], `mask` [B, T] bool -> [B, T, D]: at each position, the sum over sizes of what ends there."""
        buckets = ngram_buckets(ids, mask, sizes=self.sizes, num_buckets=self.table.num_embeddings)
        result: Tensor = self.table(torch.stack(buckets)).sum(dim=0)
        return result
