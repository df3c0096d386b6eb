"""Rounding a matrix column by column; those still to come make up for each error (GPTQ, Frantar et al. 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

_CHANCE = 0.5  # of what columns have in common, taken for chance; at 0 other text loses more than by plain rounding
_DAMPING = 0.01  # of the mean of the diagonal: columns that never move in the text can still be inverted
_COLUMNS = 128  # rounded before what they leave is taken from all columns after them


def round_columns(weight: Tensor, scales: Tensor, centres: Tensor, moments: Tensor, *, middle: int) -> Tensor:
    """`weight` [O, I] as whole numbers of 0 to 2 `middle` - 1, float32 [O, I], standing for (number - middle) * scale
    + centre.

    `scales` and `centres` [O, I] are each number's own, `moments` [I, I] those of what the columns are multiplied
    with. Columns that matter most come first. What is made small is the error of the product, not of the weights.
    """
    order = moments.diagonal().argsort(descending=True, stable=True)
    left, scales, centres = weight[:, order], scales[:, order], centres[:, order]
    moments = torch.lerp(moments, torch.diag(moments.diagonal()), _CHANCE)
    factor = _inverse_factor(moments[order][:, order])
    numbers = torch.empty_like(left)
    for start in range(0, left.shape[1], _COLUMNS):
        stop = min(start + _COLUMNS, left.shape[1])
        block, errors = left[:, start:stop].clone(), torch.empty_like(left[:, start:stop])
        for place in range(stop - start):
            column, row = start + place, factor[start + place, start:stop]
            scale, centre = scales[:, column], centres[:, column]
            number = ((block[:, place] - centre) / scale).round_().clamp_(-middle, middle - 1)
            numbers[:, column] = number + middle
            error = (block[:, place] - number * scale - centre) / row[place]
            block[:, place:].addr_(error, row[place:], alpha=-1)
            errors[:, place] = error
        left[:, stop:].addmm_(errors, factor[start:stop, stop:], alpha=-1)
    return numbers[:, order.argsort()]


def _inverse_factor(moments: Tensor) -> Tensor:
    """The upper Cholesky factor [I, I] of the inverse of the damped moments."""
    damped = moments.clone()
    damped.diagonal().add_(_DAMPING * moments.diagonal().mean() + torch.finfo(moments.dtype).tiny)
    factor: Tensor = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(damped)), upper=True)
    return factor
