"""Which positions may see which, as numbers added to attention scores."""

from __future__ import annotations

import torch
from torch import Tensor


def attention_bias(mask: Tensor | None, *, length: int, causal: bool, dtype: torch.dtype) -> Tensor | None:
    """What to add to scores [B, H, T, T]: 0 where a position may be seen, `forbidden(dtype)` where not.

    `mask` [B, T] bool is True on real tokens (None: all real). Gives [B, 1, 1, T], with `causal` [B or 1, 1, T, T],
    or None when everything may be seen.
    """
    if mask is None and not causal:
        return None
    allowed = torch.ones(1, 1, 1, length, dtype=torch.bool) if mask is None else mask[:, None, None, :]
    if causal:
        allowed = allowed & torch.ones(length, length, dtype=torch.bool, device=allowed.device).tril()
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, forbidden(dtype))


def forbidden(dtype: torch.dtype) -> float:
    """Half the lowest finite number: its softmax share is exactly 0 beside anything allowed, adding a score to it
    does not overflow in any precision, and a row that may see nothing gives finite weights instead of NaN."""
    return torch.finfo(dtype).min / 2
