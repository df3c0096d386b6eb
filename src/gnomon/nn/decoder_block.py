"""One layer of a modern Transformer: attention and feed-forward, each beside the residual stream, with any norm."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from gnomon.errors import GnomonError, did_you_mean
from gnomon.nn.block import NORM_POSITIONS
from gnomon.nn.feedforward import FeedForward, GatedFeedForward
from gnomon.nn.grouped_attention import GroupedAttention, Reading
from gnomon.nn.norms import make_norm
from gnomon.nn.state import KeyValues


class DecoderBlock(nn.Module):
    """`pre`: x = x + part(norm(x)), and the stack ends with a norm. `post`: x = norm(x + part(x)).

    `norm` is a name of `norms.NORMS`; `attention_norm` false leaves out the norm before (or after) attention, which
    a first layer after normed embeddings does not need.
    """

    def __init__(
        self,
        attention: GroupedAttention,
        feedforward: FeedForward | GatedFeedForward,
        *,
        size: int,
        norm: str,
        norm_eps: float,
        norm_bias: bool = True,
        norm_position: str = "pre",
        attention_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if norm_position not in NORM_POSITIONS:
            raise GnomonError(f"unknown norm_position {norm_position!r}", did_you_mean(norm_position, NORM_POSITIONS))
        self._pre = norm_position == "pre"
        self.attention = attention
        self.attention_norm = make_norm(norm if attention_norm else "none", size, eps=norm_eps, bias=norm_bias)
        self.feedforward = feedforward
        self.feedforward_norm = make_norm(norm, size, eps=norm_eps, bias=norm_bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        reading: Reading,
        *,
        memory: KeyValues | None = None,
        see_weights: Callable[[Tensor], None] | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """[B, T, D] -> [B, T, D], or [B, 1, D] of the last position; the arguments are `GroupedAttention`'s."""
        seen = self.attention_norm(x) if self._pre else x
        mixed = self.attention(seen, reading, memory=memory, see_weights=see_weights, last_only=last_only)
        x = (x[:, -1:] if last_only else x) + self.dropout(mixed)
        if self._pre:
            x = x + self.dropout(self.feedforward(self.feedforward_norm(x)))
        else:
            x = self.attention_norm(x)
            x = self.feedforward_norm(x + self.dropout(self.feedforward(x)))
        return x
