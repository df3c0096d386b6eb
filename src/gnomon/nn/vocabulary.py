"""From hidden vectors to a whole vocabulary: the projection, and its cross-entropy without the whole [N, V] of scores.

The loss goes through the positions in chunks and computes a chunk's gradients while its scores are there (as in
"Cut your losses in large-vocabulary language models", Wijmans et al. 2024, and Liger Kernel), so the memory beyond the
gradients themselves is one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_SCORES_AT_ONCE = 1 << 24
"""64 MB of float32: enough positions for fast products, too few to matter beside the model."""


class VocabularyProjection(nn.Module):
    """Hidden vectors to scores of every token; the matrix [V, D] its own, or the input table's (weight tying; Press and
    Wolf 2017), which then appears once, under the table's name. The bias [V] is always its own."""

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, size: int, vocab_size: int, *, tied_to: nn.Embedding | None = None, bias: bool = False) -> None:
        super().__init__()
        self._tables = [] if tied_to is None else [tied_to]  # in a list, so that it is no part of this module
        self.register_parameter("weight", nn.Parameter(torch.empty(vocab_size, size)) if tied_to is None else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(vocab_size)) if bias else None)
        if self.weight is not None:
            nn.init.normal_(self.weight, std=0.02)

    @property
    def matrix(self) -> Tensor:
        """[V, D]."""
        return self._tables[0].weight if self.weight is None else self.weight

    def forward(self, features: Tensor) -> Tensor:
        """[..., D] -> [..., V]."""
        return F.linear(features, self.matrix, self.bias)


def summed_cross_entropy(
    features: Tensor, matrix: Tensor, bias: Tensor | None, targets: Tensor, *, scores_at_once: int = _SCORES_AT_ONCE
) -> Tensor:
    """The sum over positions of -log softmax(features @ matrix.T + bias)[target], in nats, a scalar.

    `features` [N, D], `matrix` [V, D], `bias` [V], `targets` int64 [N]. No more than `scores_at_once` numbers of [N, V]
    are in memory together. Differentiable once.
    """
    result: Tensor = _SummedCrossEntropy.apply(features, matrix, bias, targets, scores_at_once)  # type: ignore[no-untyped-call]
    return result


@torch.no_grad()
def log_probabilities(features: Tensor, matrix: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    """log softmax(features @ matrix.T + bias)[target] of each position, float32 [N]; no gradient."""
    parts = [
        F.linear(features[chunk], matrix, bias).float().log_softmax(1).gather(1, targets[chunk, None]).squeeze(1)
        for chunk in _chunks(len(targets), len(matrix), _SCORES_AT_ONCE)
    ]
    return torch.cat(parts) if parts else features.new_zeros(0, dtype=torch.float32)


class _SummedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, matrix: Tensor, bias: Tensor | None, targets: Tensor, scores_at_once: int
    ) -> Tensor:
        of_features, of_matrix, of_bias = (
            None if given is None or not needed else torch.zeros_like(given)
            for given, needed in zip((features, matrix, bias), ctx.needs_input_grad[:3], strict=True)
        )
        total = torch.zeros((), dtype=torch.float32, device=features.device)
        for chunk in _chunks(len(targets), len(matrix), scores_at_once):
            part, target = features[chunk], targets[chunk, None]
            scores = F.linear(part, matrix, bias).float()
            scores -= scores.amax(dim=1, keepdim=True)
            total -= scores.gather(1, target).sum()
            sums = scores.exp_().sum(dim=1, keepdim=True)
            total += sums.log().sum()
            scores.div_(sums).scatter_add_(1, target, torch.full_like(sums, -1.0))  # softmax - one-hot
            slopes = scores.to(matrix.dtype)
            if of_features is not None:
                torch.mm(slopes, matrix, out=of_features[chunk])
            if of_matrix is not None:
                of_matrix.addmm_(slopes.t(), part)
            if of_bias is not None:
                of_bias += slopes.sum(dim=0)
        ctx.save_for_backward(of_features, of_matrix, of_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
        scaled = [None if part is None else part * gradient for part in ctx.saved_tensors]
        return scaled[0], scaled[1], scaled[2], None, None


def _chunks(length: int, vocab_size: int, scores_at_once: int) -> Iterator[slice]:
    size = max(1, scores_at_once // vocab_size)
    return (slice(start, start + size) for start in range(0, length, size))
