"""Convolutions of several widths over a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError


class MultiWidthConvolution(nn.Module):
    """relu(concat over widths k of conv_k(x)), each with zeros beyond the text: (k - 1) // 2 left, k // 2 right."""

    def __init__(self, size: int, channels: int, kernel_sizes: Sequence[int]) -> None:
        super().__init__()
        if not kernel_sizes or min(kernel_sizes) < 1:
            raise GnomonError(f"kernel_sizes are {tuple(kernel_sizes)}", "give one or more widths of 1 or more")
        self.kernel_sizes = tuple(kernel_sizes)
        self.convolutions = nn.ModuleList(nn.Conv1d(size, channels, width) for width in kernel_sizes)

    def forward(self, x: Tensor) -> Tensor:
        """`x` [B, T, E], zero beyond each text -> [B, T, C * number of widths]."""
        columns = x.transpose(1, 2)
        parts = [
            layer(F.pad(columns, ((width - 1) // 2, width // 2)))
            for layer, width in zip(self.convolutions, self.kernel_sizes, strict=True)
        ]
        return torch.cat(parts, dim=1).relu().transpose(1, 2)
