"""Scaled dot-product attention ("Attention is all you need", section 3.2), in two paths that agree.

`attend` spells it out and gives the weights; torch's `scaled_dot_product_attention` is the fast one.
"""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError


def attend(
    query: Tensor, key: Tensor, value: Tensor, *, bias: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d_k) + bias) V.

    `query` [..., T, d_k], `key` [..., S, d_k], `value` [..., S, d_v], `bias` broadcastable to [..., T, S]
    -> mixed values [..., T, d_v] and the weights [..., T, S] before dropout.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(dim=-1)
    return F.dropout(weights, dropout, training=dropout > 0) @ value, weights


class SelfAttention(nn.Module):
    """Multi-head self-attention: one projection each for queries, keys and values, split into heads of D / H."""

    def __init__(self, size: int, num_heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if size % num_heads:
            raise GnomonError(f"{num_heads} heads do not divide the width {size}", "choose a number of heads that does")
        self.num_heads = num_heads
        self.dropout = dropout
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.output = nn.Linear(size, size)

    def forward(self, x: Tensor, *, bias: Tensor | None = None, first_only: bool = False) -> Tensor:
        """`x` [B, T, D], `bias` from `masks.attention_bias` -> [B, T, D], or what the first position sees [B, 1, D]."""
        query, key, value = self._heads(x, x[:, :1] if first_only else x)
        if first_only and bias is not None:
            bias = bias[..., :1, :]
        dropout = self.dropout if self.training else 0.0
        return self._join(F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=dropout))

    def forward_with_weights(self, x: Tensor, *, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The same through `attend` -> [B, T, D] and the attention weights [B, H, T, T]."""
        query, key, value = self._heads(x, x)
        mixed, weights = attend(query, key, value, bias=bias, dropout=self.dropout if self.training else 0.0)
        return self._join(mixed), weights

    def _heads(self, x: Tensor, asking: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries of `asking`, the keys and the values of `x`, each [B, H, T, D / H]."""
        query, key, value = (
            projection(source).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for projection, source in ((self.query, asking), (self.key, x), (self.value, x))
        )
        return query, key, value

    def _join(self, mixed: Tensor) -> Tensor:
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result
