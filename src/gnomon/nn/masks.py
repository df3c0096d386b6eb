"""Which positions may see which, as numbers added to attention scores."""

from __future__ import annotations

import torch
from torch import Tensor


def attention_bias(
    mask: Tensor | None,
    *,
    length: int,
    causal: bool,
    dtype: torch.dtype,
    past: int = 0,
    documents: Tensor | None = None,
    window: int | None = None,
    device: torch.device | None = None,
) -> Tensor | None:
    """What to add to scores [B, H, T, S], S = `past` + T: 0 where a position may be seen, `forbidden(dtype)` where not.

    `mask` [B, S] bool is True on real tokens (None: all real). `documents` [B, T] (with `past` 0) numbers texts packed
    into one row, which do not see each other. With `window`, a position sees those less than so many columns away.
    Gives [B or 1, 1, T or 1, S], or None when everything may be seen.
    """
    if mask is None and documents is None and not causal and window is None:
        return None
    keys = torch.arange(past + length, device=device if mask is None else mask.device)
    distance = keys[past:, None] - keys
    allowed = (distance >= 0 if causal else torch.ones_like(keys, dtype=torch.bool)[None])[None, None]
    if window is not None:
        allowed = allowed & (distance.abs() < window)
    if mask is not None:
        allowed = allowed & mask[:, None, None, :]
    if documents is not None:
        allowed = allowed & (documents[:, None, :, None] == documents[:, None, None, :])
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(~allowed, forbidden(dtype))


def forbidden(dtype: torch.dtype) -> float:
    """Half the lowest finite number: its softmax share is exactly 0 beside anything allowed, adding a score to it
    does not overflow in any precision, and a row that may see nothing gives finite weights instead of NaN."""
    return torch.finfo(dtype).min / 2
