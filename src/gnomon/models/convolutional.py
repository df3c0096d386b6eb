"""Convolutional encoders: several widths side by side, in one or more layers.

Layer: y = relu(concat over widths of conv_k(x)); from the second layer on x + y. Every convolution sees zeros beyond
the text: (k - 1) // 2 on its left, k // 2 on its right, so T positions stay T.
Tensor names: `tokens.weight` [V, E], `layers.N.convolutions.J.weight` [C, in, k] and `.bias` [C] for width number J.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConvolutionalConfig:
    """`channels` is per width; the backbone gives `channels * len(kernel_sizes)` features."""

    vocab_size: int
    embedding_size: int
    channels: int
    kernel_sizes: tuple[int, ...] = (2, 3, 4, 5)
    num_hidden_layers: int = 1
    dropout: float = 0.1
    pad_token_id: int = 0
