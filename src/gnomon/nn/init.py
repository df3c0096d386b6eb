"""How weights start. All draws come from torch's global generator, so `torch.manual_seed` decides them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from gnomon.nn.decoder_block import DecoderBlock


def init_transformer(module: nn.Module, *, std: float = 0.02) -> None:
    """BERT's: linear and embedding weights normal with deviation `std`, biases zero, norms the identity."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)


def init_residual_transformer(layers: nn.ModuleList, *, std: float) -> None:
    """GPT-2's: as BERT's, but what adds to the residual stream starts smaller, by the root of the number of parts."""
    init_transformer(layers, std=std)
    for layer in layers:
        if isinstance(layer, DecoderBlock):
            for output in (layer.attention.output, layer.feedforward.down):
                nn.init.normal_(output.get_parameter("weight"), std=std * (2 * len(layers)) ** -0.5)


def init_silent_parts(layers: nn.ModuleList) -> None:
    """What is added to the residual stream starts at zero, and what reads it at deviation (3 D) ** -0.5: a start from
    which small models learn faster, the stream at first the input alone."""
    for layer in layers:
        if isinstance(layer, DecoderBlock):
            for output in (layer.attention.output, layer.feedforward.down):
                nn.init.zeros_(output.get_parameter("weight"))
            for module in layer.modules():
                if isinstance(module, nn.Linear) and module not in (layer.attention.output, layer.feedforward.down):
                    nn.init.normal_(module.weight, std=(3 * module.in_features) ** -0.5)


def init_table(table: nn.Embedding) -> None:
    """Vectors of expected length 1: every element from a normal of deviation size ** -0.5."""
    nn.init.normal_(table.weight, std=table.embedding_dim**-0.5)


def init_recurrent(module: nn.RNNBase) -> None:
    """Inputs uniform by Glorot, recurrences orthogonal, biases zero but an LSTM's forget gate, 1
    (Jozefowicz, Zaremba and Sutskever 2015)."""
    size = module.hidden_size
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if "weight_ih" in name:
                for gate in torch.split(weight, size):
                    nn.init.xavier_uniform_(gate)
            elif "weight_hh" in name:
                for gate in torch.split(weight, size):
                    nn.init.orthogonal_(gate)
            else:
                nn.init.zeros_(weight)
                if isinstance(module, nn.LSTM) and "bias_ih" in name:
                    weight[size : 2 * size] = 1.0


def init_convolution(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """He's for ReLU: `weight` [C, in, k] normal with variance 2 / (in * k), `bias` zero."""
    nn.init.kaiming_normal_(weight, nonlinearity="relu")
    nn.init.zeros_(bias)


class Uninitialised(TorchFunctionMode):
    """Inside, modules are made without drawing their weights, for weights that are about to be read.

    (torch's "meta" device does the same, at the price of seconds of imports.)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Leave out what draws the large weights; call everything else."""
        named = dict(kwargs or {})
        if func in (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_):
            return named["tensor"] if "tensor" in named else args[0]
        return func(*args, **named)
