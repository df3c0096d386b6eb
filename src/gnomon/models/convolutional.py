"""Convolutional encoders: several widths side by side, in one or more layers.

Layer: y = relu(concat over widths of conv_k(x)); from the second layer on x + y. Every convolution sees zeros beyond
the text: (k - 1) // 2 on its left, k // 2 on its right, so T positions stay T.
Tensor names: `tokens.weight` [V, E], `layers.N.convolutions.J.weight` [C, in, k] and `.bias` [C] for width number J.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gnomon.models.base import Backbone, Output, Taps
from gnomon.nn.convolution import MultiWidthConvolution
from gnomon.nn.init import init_convolution, init_table


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


class ConvolutionalBackbone(Backbone):
    """A token table and layers of convolutions of several widths."""

    family = "convolutional"

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden_size = config.channels * len(config.kernel_sizes)
        self.tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            MultiWidthConvolution(
                self.hidden_size if index else config.embedding_size, config.channels, config.kernel_sizes
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

    def forward(self, ids: Tensor, *, mask: Tensor | None = None, taps: Taps | None = None) -> Output:
        """`ids`, `mask` [B, T] -> hidden [B, T, D]. Taps: embeddings, layers.N."""
        x: Tensor = self.tokens(ids)
        if taps is not None:
            taps("embeddings", x)
        for index, layer in enumerate(self.layers):
            seen = x if mask is None else x.masked_fill(~mask.unsqueeze(-1), 0.0)
            y = layer(self.dropout(seen))
            x = x + y if index else y
            if taps is not None:
                taps(f"layers.{index}", x)
        return Output(x)
