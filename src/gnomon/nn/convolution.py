"""Convolutions of several widths over a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError


class MultiWidthConvolution(nn.Module):
    """relu(concat over widths k of conv_k(x)), each with zeros beyond the text: (k - 1) // 2 left, k // 2 right.

    The weights are those of `nn.Conv1d`, [C, in, k].
    """

    def __init__(self, size: int, channels: int, kernel_sizes: Sequence[int]) -> None:
        super().__init__()
        if not kernel_sizes or min(kernel_sizes) < 1:
            raise GnomonError(f"kernel_sizes are {tuple(kernel_sizes)}", "give one or more widths of 1 or more")
        self.widths = tuple(kernel_sizes)
        self.convolutions = nn.ModuleList(nn.Conv1d(size, channels, width) for width in kernel_sizes)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, E], zero beyond each text -> [B, T, C * number of widths]."""
        # As an image one row high in torch's channels-last layout, which [B, T, E] already is: no copy turns it round.
        image = x.transpose(1, 2).unsqueeze(2)
        parts = []
        for layer, width in zip(self.convolutions, self.widths, strict=True):
            kernel = layer.get_parameter("weight").unsqueeze(2).contiguous(memory_format=torch.channels_last)
            columns = F.conv2d(image, kernel, layer.get_parameter("bias"), padding=(0, width // 2)).squeeze(2)
            parts.append(columns.transpose(1, 2)[:, 1 - width % 2 :])  # an even width needs one zero less on its left
        return torch.cat(parts, dim=-1).relu()
