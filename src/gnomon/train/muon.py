"""Muon: momentum whose step for each matrix is made orthogonal (Jordan et al. 2024, "Muon: an optimizer for hidden
layers in neural networks").

Torch's own casts to bfloat16, which without hardware for it is dozens of times slower; this one stays in float32, and
takes all matrices of one shape through the iteration together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.nn.linear import FusedLinear

_ITERATIONS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan's: the steepest start that ends near 1 after five


class Muon(torch.optim.Optimizer):
    """For matrices only. Each of `groups` holds `params` and beside them `blocks`: for each the rows of the parts that
    are matrices of their own (the queries, keys and values of a joint projection).

    A step is `lr * sqrt(max(1, rows / columns))` times the orthogonal factor of the Nesterov momentum.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], *, momentum: float) -> None:
        super().__init__(groups, {"lr": 0.0, "momentum": momentum, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        for group in self.param_groups:
            pieces: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
            for matrix, blocks in zip(group["params"], group["blocks"], strict=True):
                if matrix.grad is None:
                    continue
                if group["weight_decay"]:
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                wanted = torch.split(self._momentum(matrix, group["momentum"]).flatten(1), blocks)
                for part, update in zip(torch.split(matrix.flatten(1), blocks), wanted, strict=True):
                    pieces[part.shape[0], part.shape[1]].append((part, update))
            for (rows, columns), members in pieces.items():
                orthogonal = orthogonalised(torch.stack([update for _, update in members]))
                rate = group["lr"] * max(1.0, rows / columns) ** 0.5
                for (part, _), direction in zip(members, orthogonal.unbind(), strict=True):
                    part.add_(direction, alpha=-rate)

    def _momentum(self, matrix: Tensor, decay: float) -> Tensor:
        state, gradient = self.state[matrix], matrix.grad
        if gradient is None:
            raise RuntimeError("a matrix without a gradient has no step")
        if not state:
            state["momentum"] = torch.zeros_like(matrix)
        state["momentum"].lerp_(gradient, 1 - decay)
        return gradient.lerp(state["momentum"], decay)


def orthogonalised(matrices: Tensor) -> Tensor:
    """[N, R, C] -> the nearest matrices whose singular values are all about 1 (0.7 to 1.2), by Newton-Schulz."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) * 1.01 + 1e-7)  # no singular value above 1
    one, three, five = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        square = torch.bmm(x, x.mT)
        inner = torch.baddbmm(square, square, square, beta=three, alpha=five)
        x = torch.baddbmm(x, inner, x, beta=one)
    return x.mT if tall else x


def blocks_of(module: nn.Module, matrix: Tensor) -> list[int] | None:
    """The rows of each block of a module's `matrix`; None for what is no matrix of a layer (tables, biases, norms)."""
    if matrix.ndim < 2:
        return None
    if isinstance(module, FusedLinear):
        return list(module.sizes)
    if isinstance(module, nn.RNNBase):
        return [module.hidden_size] * (matrix.shape[0] // module.hidden_size)
    return [matrix.shape[0]] if isinstance(module, nn.Linear | nn.Conv1d) else None
