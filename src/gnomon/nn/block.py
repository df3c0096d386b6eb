"""One Transformer layer: attention, feed-forward, two residuals, two LayerNorms."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from gnomon.errors import GnomonError, did_you_mean
from gnomon.nn.attention import SelfAttention
from gnomon.nn.feedforward import FeedForward

NORM_POSITIONS = ("post", "pre")


class Block(nn.Module):
    """`post` (BERT): x = norm(x + part(x)). `pre` (GPT-2): x = x + part(norm(x)), and the stack ends with a norm."""

    def __init__(
        self,
        size: int,
        num_heads: int,
        inner_size: int,
        *,
        act: str = "gelu",
        norm_position: str = "post",
        norm_eps: float = 1e-12,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if norm_position not in NORM_POSITIONS:
            raise GnomonError(f"unknown norm_position {norm_position!r}", did_you_mean(norm_position, NORM_POSITIONS))
        self._pre = norm_position == "pre"
        self.attention = SelfAttention(size, num_heads, dropout=attention_dropout)
        self.attention_norm = nn.LayerNorm(size, eps=norm_eps)
        self.feedforward = FeedForward(size, inner_size, act=act)
        self.feedforward_norm = nn.LayerNorm(size, eps=norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        bias: Tensor | None = None,
        see_weights: Callable[[Tensor], None] | None = None,
        first_only: bool = False,
    ) -> Tensor:
        """[B, T, D] -> [B, T, D]; `see_weights` is called with the attention weights [B, H, T, T].

        With `first_only` -> [B, 1, D]: the first position alone, for a sixth of the work.
        """
        seen = self.attention_norm(x) if self._pre else x
        if see_weights is None:
            mixed = self.attention(seen, bias=bias, first_only=first_only)
        else:
            mixed, weights = self.attention.forward_with_weights(seen, bias=bias)
            see_weights(weights)
        x = (x[:, :1] if first_only else x) + self.dropout(mixed)
        if self._pre:
            x = x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        else:
            x = self.attention_norm(x)
            x = self.feedforward_norm(x + self.dropout(self.feedforward(x)))
        return x
