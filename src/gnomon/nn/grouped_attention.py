"""Self-attention of modern decoders: grouped queries, rotary positions, normalised queries and keys, a cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError
from gnomon.nn.attention import attend
from gnomon.nn.linear import FusedLinear
from gnomon.nn.masks import attention_bias
from gnomon.nn.norms import RMSNorm, rms_norm
from gnomon.nn.rope import Rotation, rotate
from gnomon.nn.state import KeyValues


@dataclass(frozen=True, slots=True)
class Reading:
    """What the layers of one pass share: who may see whom, where the tokens stand, and how many columns came before.

    `bias` comes from `masks.attention_bias`; `causal` takes its place for the plain triangle.
    """

    bias: Tensor | None = None
    causal: bool = False
    rotation: Rotation | None = None
    past: int = 0


class GroupedAttention(nn.Module):
    """H query heads that share G pairs of key and value heads (Ainslie et al. 2023); G = H is plain multi-head.

    `qkv` gives queries, keys and values side by side. With `qk_norm_eps` each head's query and key go through an
    RMSNorm first (Dehghani et al. 2023; Qwen3).
    """

    def __init__(
        self,
        size: int,
        num_heads: int,
        *,
        num_key_value_heads: int,
        head_size: int,
        bias: bool = False,
        output_bias: bool = False,
        qk_norm_eps: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_heads % num_key_value_heads:
            raise GnomonError(
                f"{num_key_value_heads} key-value heads do not divide {num_heads} heads", "choose a number that does"
            )
        self.num_heads = num_heads
        self.num_key_value_heads = num_key_value_heads
        self.head_size = head_size
        self.dropout = dropout
        widths = [heads * head_size for heads in (num_heads, num_key_value_heads, num_key_value_heads)]
        self.qkv = FusedLinear(size, widths, bias=bias)
        self.query_norm = None if qk_norm_eps is None else RMSNorm(head_size, eps=qk_norm_eps)
        self.key_norm = None if qk_norm_eps is None else RMSNorm(head_size, eps=qk_norm_eps)
        self.output = nn.Linear(num_heads * head_size, size, bias=output_bias)

    def forward(
        self,
        x: Tensor,
        reading: Reading,
        *,
        memory: KeyValues | None = None,
        see_weights: Callable[[Tensor], None] | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """`x` [B, T, D] -> [B, T, D], with `last_only` [B, 1, D] of the last position, which sees all before it.
        `memory` holds the keys and values of the columns before, and takes these too; `see_weights` is given the
        weights [B, H, T, S]."""
        query, key, value = self._heads(x, reading.rotation)
        if last_only:
            bias = None if reading.bias is None else reading.bias[..., -1:, :]
            query, reading = query[:, :, -1:], replace(reading, bias=bias, causal=False)
        if memory is not None:
            key, value = memory.append(key, value, start=reading.past)
        if see_weights is not None:
            mixed = self._attend(query, key, value, reading, see_weights)
        else:
            mixed = F.scaled_dot_product_attention(
                query,
                key,
                value,
                attn_mask=reading.bias,
                dropout_p=self.dropout if self.training else 0.0,
                is_causal=reading.causal,
                enable_gqa=self.num_heads != self.num_key_value_heads,
            )
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def _heads(self, x: Tensor, rotation: Rotation | None) -> tuple[Tensor, Tensor, Tensor]:
        """[B, H, T, d], [B, G, T, d], [B, G, T, d]."""
        heads, groups = self.num_heads, self.num_key_value_heads
        parts = self.qkv(x).unflatten(-1, (heads + 2 * groups, self.head_size))
        both, value = parts.split((heads + groups, groups), dim=-2)
        if self.query_norm is not None and self.key_norm is not None:  # queries and keys in one pass
            weight = torch.cat(
                [self.query_norm.weight.expand(heads, -1), self.key_norm.weight.expand(groups, -1)], dim=0
            )
            both = rms_norm(both, weight, self.query_norm.epsilon)
        if rotation is not None:
            both = rotate(both, rotation)
        query, key = both.split((heads, groups), dim=-2)
        return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, reading: Reading, see: Callable[[Tensor], None]
    ) -> Tensor:
        each = self.num_heads // self.num_key_value_heads
        key, value = key.repeat_interleave(each, dim=1), value.repeat_interleave(each, dim=1)
        bias = reading.bias
        if reading.causal:
            bias = attention_bias(None, length=query.shape[2], causal=True, dtype=query.dtype, device=query.device)
        mixed, weights = attend(query, key, value, bias=bias, dropout=self.dropout if self.training else 0.0)
        see(weights)
        return mixed
