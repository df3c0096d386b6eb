"""The position-wise feed-forward part, and the activations it and the heads use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError, did_you_mean

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,  # exact: x * Phi(x) through erf
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
}
"""By Hugging Face's names (`hidden_act`)."""


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The activation called `name`; raises GnomonError for an unknown one."""
    if name not in ACTIVATIONS:
        raise GnomonError(f"unknown activation {name!r}", did_you_mean(name, ACTIVATIONS))
    return ACTIVATIONS[name]


class FeedForward(nn.Module):
    """`down(act(up(x)))`, the same at every position ("Attention is all you need", section 3.3)."""

    def __init__(self, size: int, inner_size: int, *, act: str = "gelu") -> None:
        super().__init__()
        self.up = nn.Linear(size, inner_size)
        self.down = nn.Linear(inner_size, size)
        self._act = activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        result: Tensor = self.down(self._act(self.up(x)))
        return result
