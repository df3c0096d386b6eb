"""The position-wise feed-forward part, and the activations it and the heads use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError, did_you_mean
from gnomon.nn.linear import FusedLinear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),  # squared ReLU (So et al. 2021)
    "silu": F.silu,
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

    def __init__(self, size: int, inner_size: int, *, act: str = "gelu", bias: bool = True) -> None:
        super().__init__()
        self.up = nn.Linear(size, inner_size, bias=bias)
        self.down = nn.Linear(inner_size, size, bias=bias)
        self._act = activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        result: Tensor = self.down(self._act(self.up(x)))
        return result


class GatedFeedForward(nn.Module):
    """`down(act(gate(x)) * up(x))` (Shazeer 2020): SwiGLU with "silu", GeGLU with "gelu"."""

    def __init__(self, size: int, inner_size: int, *, act: str = "silu", bias: bool = False) -> None:
        super().__init__()
        self.gate_up = FusedLinear(size, (inner_size, inner_size), bias=bias)
        self.down = nn.Linear(inner_size, size, bias=bias)
        self._act = activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        gate, up = self.gate_up.parts(x)
        result: Tensor = self.down(self._act(gate) * up)
        return result
