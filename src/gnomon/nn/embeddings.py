"""Tables that turn ids into vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.nn.positions import Positions, take, token_positions
from gnomon.nn.state import Vectors
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

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        segment_ids: Tensor | None = None,
        documents: Tensor | None = None,
    ) -> Tensor:
        """`ids` [B, T], `mask` [B, T] bool, `segment_ids` [B, T] (None: all 0) -> [B, T, D].

        `documents` [B, T] numbers texts packed into a row; each begins again at the first position. Raises GnomonError
        for a text longer than the position table.
        """
        positions = token_positions(ids.shape[1], mask=mask, documents=documents)
        refuse_long_texts(positions, bound=ids.shape[1], limit=self.max_positions)
        x = self.tokens(ids) + take(self.positions.weight[self.position_offset :], positions)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segment_ids is None else self.segments(segment_ids))
        result: Tensor = self.dropout(self.norm(x))
        return result


def refuse_long_texts(positions: Positions, *, bound: int, limit: int) -> None:
    """Raise a GnomonError where a text has more than `limit` tokens; none can have more than `bound`."""
    if bound <= limit:
        return
    longest = positions.stop if isinstance(positions, range) else int(positions.max()) + 1
    if longest > limit:
        raise GnomonError(
            f"a text of {longest} tokens is longer than the {limit} positions this model has",
            f"cut texts to {limit} tokens (max_length)",
        )


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

    def forward(
        self, ids: Tensor, mask: Tensor, *, documents: Tensor | None = None, recent: Vectors | None = None
    ) -> Tensor:
        """`ids` [B, T], `mask` [B, T] bool -> [B, T, D]: at each position, the sum over sizes of what ends there.

        `documents` [B, T] numbers texts packed into a row, which no n-gram crosses. `recent` remembers the ids before
        these, and takes these too.
        """
        length = ids.shape[1]
        if recent is not None:
            if recent.tensors:
                ids, mask = (torch.cat(pair, dim=1) for pair in zip(recent.tensors, (ids, mask), strict=True))
            reach = max(self.sizes) - 1
            recent.tensors = ids[:, -reach:], mask[:, -reach:]
        buckets = ngram_buckets(ids, mask, sizes=self.sizes, num_buckets=self.table.num_embeddings)
        if documents is not None:
            for size, found in zip(self.sizes, buckets, strict=True):
                found[:, size - 1 :] *= documents[:, size - 1 :] == documents[:, : 1 - size]
        result: Tensor = self.table(torch.stack(buckets)[:, :, -length:]).sum(dim=0)
        return result
