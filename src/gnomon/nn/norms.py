"""Normalisations of the residual stream and of queries and keys, by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from gnomon.errors import GnomonError, did_you_mean

NORMS = ("rms", "layer", "batch", "none")


def make_norm(kind: str, size: int, *, eps: float, bias: bool = True) -> nn.Module:
    """The module for `kind`: RMSNorm, LayerNorm (with or without bias), BatchNorm over positions, or nothing.

    BatchNorm and nothing are there to be compared with; in training the first makes a text's answer depend on its
    batch mates, padding and later tokens, by its nature.
    """
    if kind not in NORMS:
        raise GnomonError(f"unknown norm {kind!r}", did_you_mean(kind, NORMS))
    if kind == "rms":
        return RMSNorm(size, eps=eps)
    if kind == "layer":
        return nn.LayerNorm(size, eps=eps, bias=bias)
    return PositionBatchNorm(size, eps=eps) if kind == "batch" else nn.Identity()


class RMSNorm(nn.RMSNorm):
    """weight * x / sqrt(mean(x ** 2) + eps) over the last dimension (Zhang and Sennrich 2019).

    Torch's module with a gradient of its own: torch 2's is pieced together from small kernels and takes twice as long.
    """

    def __init__(self, size: int, *, eps: float) -> None:
        super().__init__(size, eps=eps)
        self.epsilon = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return rms_norm(x, self.weight, self.epsilon)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """weight * x / sqrt(mean(x ** 2) + eps); `x` [..., D], `weight` [D] or more dimensions that broadcast."""
    if torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad):
        result: Tensor = _RMSNorm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
        return result
    plain = weight.ndim == 1
    normed: Tensor = F.rms_norm(x, x.shape[-1:], weight if plain else None, eps)
    return normed if plain else normed * weight


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = length.square_().mul_(1 / x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        result: Tensor = (x * scale).mul_(weight)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, scale = ctx.saved_tensors
        normed = x * scale
        of_weight = (gradient * normed).sum_to_size(weight.shape)
        of_normed = gradient * weight
        along = torch.linalg.vecdot(of_normed, normed).unsqueeze(-1).mul_(-1 / x.shape[-1])
        return torch.addcmul(of_normed, normed, along).mul_(scale), of_weight, None


class PositionBatchNorm(nn.BatchNorm1d):
    """BatchNorm of each feature over all positions of the batch, padding included."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        return super().forward(x.flatten(0, -2)).view_as(x)
