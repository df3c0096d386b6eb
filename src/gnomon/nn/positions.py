"""Where a token stands: its position, tables by position, sinusoidal positions, ALiBi. (RoPE: `rope.py`.)

A position counts the real tokens before it in its text, so padding and packing move none. Nothing but a learned table
is ever saved: the other schemes are formulas, their tables made when first needed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

POSITIONS = ("rope", "learned", "sinusoidal", "alibi", "none")

Positions = range | Tensor
"""Positions of the columns of a batch: one range for all rows, or a tensor [B, T]."""


def token_positions(
    length: int, *, mask: Tensor | None = None, documents: Tensor | None = None, past: int | Tensor = 0
) -> Positions:
    """The position of each of `length` columns.

    `mask` [B, T] is true on real tokens; `documents` [B, T] numbers the texts packed into a row, each of which starts
    again at 0; `past` are the real tokens each row has read before, one number or [B].
    """
    if documents is not None:
        columns = torch.arange(length, device=documents.device)
        starts = torch.ones_like(documents, dtype=torch.bool)
        starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
        return columns - torch.where(starts, columns, 0).cummax(dim=1).values
    if mask is None and isinstance(past, int):
        return range(past, past + length)
    if mask is None:
        return torch.as_tensor(past)[:, None] + torch.arange(length, device=torch.as_tensor(past).device)
    counted = (mask.cumsum(dim=1) - 1).clamp_min(0)
    return counted + (past if isinstance(past, int) else past[:, None])


def take(table: Tensor, positions: Positions) -> Tensor:
    """Rows of `table` [P, ...] at `positions` -> [T, ...] (a view) or [B, T, ...]."""
    return table[positions.start : positions.stop] if isinstance(positions, range) else table[positions]


class PositionTable:
    """A table of a formula's values by position, made when needed and grown by doubling; never saved."""

    def __init__(self, formula: Callable[[Tensor], Tensor]) -> None:
        """`formula` maps positions [P] float32 to values [P, ...] float32."""
        self._formula = formula
        self._table: Tensor | None = None

    def at(self, positions: Positions, *, bound: int, like: Tensor) -> Tensor:
        """Values at `positions`, all below `bound`, in the type and on the device of `like`."""
        table = self._table
        if table is None or len(table) < bound or table.dtype != like.dtype or table.device != like.device:
            with torch.inference_mode(False), torch.no_grad():  # kept for training too
                rows = torch.arange(1 << max(6, (bound - 1).bit_length()), dtype=torch.float32, device=like.device)
                self._table = table = self._formula(rows).to(like.dtype)
        return take(table, positions)


def sinusoidal(size: int) -> PositionTable:
    """Sines at even and cosines at odd features ("Attention is all you need", section 3.5), [P, D]."""

    def values(positions: Tensor) -> Tensor:
        angles = positions[:, None] * frequencies(size, theta=10_000.0).to(positions.device)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :size]

    return PositionTable(values)


def alibi_slopes(num_heads: int) -> Tensor:
    """The slope of each head [H] (Press, Smith and Lewis 2022): 2 ** (-8 i / H), and where H is no power of two, those
    of the power below and every second one of the power above."""
    power = 1 << (num_heads.bit_length() - 1)
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    slopes += [2 ** (-4 * i / power) for i in range(1, 2 * (num_heads - power), 2)]
    return torch.tensor(slopes)


def alibi_bias(num_heads: int, *, length: int, past: int, like: Tensor) -> Tensor:
    """What ALiBi adds to scores: slope * (key's column - query's), [1, H, T, past + T]. Distances between real tokens
    of one text are those of their columns."""
    keys = torch.arange(past + length, device=like.device)
    distance = keys - keys[past:, None]
    return (alibi_slopes(num_heads).to(like)[:, None, None] * distance.to(like.dtype))[None]


def frequencies(size: int, *, theta: float) -> Tensor:
    """Angles per position [size / 2]: theta ** (-2 i / size)."""
    return 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
