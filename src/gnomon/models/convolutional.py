"""Convolutional models: several widths side by side, in one or more layers; with `causal`, language models too.

Layer: y = relu(concat over widths of conv_k(x)); from the second layer on x + y. Every convolution sees zeros beyond
the text: (k - 1) // 2 on its left, k // 2 on its right (`causal`: k - 1 and none), so T positions stay T.
Tensor names: `tokens.weight` [V, E], `layers.N.convolutions.J.weight` [C, in, k] and `.bias` [C] for width number J.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.models.base import Backbone, Output, Taps, refuse_state
from gnomon.nn.convolution import MultiWidthConvolution
from gnomon.nn.init import init_convolution, init_table
from gnomon.nn.packing import take_apart
from gnomon.nn.state import Memory, State, Vectors


@dataclass(frozen=True)
class ConvolutionalConfig:
    """`channels` is per width; the backbone gives `channels * len(kernel_sizes)` features. `dropout` falls on the
    embeddings and between layers."""

    vocab_size: int
    embedding_size: int
    channels: int
    kernel_sizes: tuple[int, ...] = (2, 3, 4, 5)
    num_hidden_layers: int = 1
    dropout: float = 0.1
    pad_token_id: int = 0
    causal: bool = False


class ConvolutionalBackbone(Backbone):
    """A token table and layers of convolutions of several widths."""

    family = "convolutional"

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = config
        self.causal = self.can_step = config.causal
        self.hidden_size = config.channels * len(config.kernel_sizes)
        self.tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            MultiWidthConvolution(
                self.hidden_size if index else config.embedding_size,
                config.channels,
                config.kernel_sizes,
                causal=config.causal,
            )
            for index in range(config.num_hidden_layers)
        )
        init_table(self.tokens)
        for part in self.modules():
            if isinstance(part, nn.Conv1d) and part.bias is not None:
                init_convolution(part.weight, part.bias)

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, E]."""
        return self.tokens

    def init_state(self) -> State:
        """An empty state: the last inputs of every layer. Raises GnomonError for a model that sees later tokens."""
        return State([Vectors() for _ in self.layers]) if self.can_step else super().init_state()

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        taps: Taps | None = None,
    ) -> Output:
        """`ids`, `mask`, `documents` [B, T] -> hidden [B, T, D]. Taps: embeddings, layers.N."""
        if documents is not None:
            rows, alone, place = take_apart(ids, mask, documents)
            return Output(self.forward(rows, mask=alone, taps=taps).hidden[place])
        if state is not None and not self.can_step:
            refuse_state(self, state)
        x: Tensor = self.tokens(ids)
        if taps is not None:
            taps("embeddings", x)
        for index, layer in enumerate(self.layers):
            seen = self.dropout(x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0))
            reach = max(self.config.kernel_sizes) - 1
            y = layer(seen, before=None if state is None else _exchanged(state.memories[index], seen, reach))
            x = x + y if index else y
            if taps is not None:
                taps(f"layers.{index}", x)
        if state is not None:
            state.advance(ids.shape[1], state.seen(mask, rows=ids.shape[0], length=ids.shape[1]))
        return Output(x, state)


def _exchanged(memory: Memory, x: Tensor, reach: int) -> Tensor:
    """The last `reach` inputs [B, reach, E] that `memory` holds (zeros at first), exchanged for those after `x`."""
    if not isinstance(memory, Vectors):
        raise TypeError("a convolution remembers vectors")
    before = memory.tensors[0] if memory.tensors else x.new_zeros(x.shape[0], reach, x.shape[2])
    memory.tensors = (torch.cat([before, x], dim=1)[:, x.shape[1] :],)
    return before
