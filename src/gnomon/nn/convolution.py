"""Convolutions of several widths over a text."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError


class MultiWidthConvolution(nn.Module):
    """relu(concat over widths k of conv_k(x)), each with zeros beyond the text: (k - 1) // 2 left, k // 2 right.

    `causal`: k - 1 left and none right, so that a position sees itself and those before. The weights are those of
    `nn.Conv1d`, [C, in, k].
    """

    def __init__(self, size: int, channels: int, kernel_sizes: Sequence[int], *, causal: bool = False) -> None:
        super().__init__()
        if not kernel_sizes or min(kernel_sizes) < 1:
            raise GnomonError(f"kernel_sizes are {tuple(kernel_sizes)}", "give one or more widths of 1 or more")
        self.widths = tuple(kernel_sizes)
        self.causal = causal
        self.convolutions = nn.ModuleList(nn.Conv1d(size, channels, width) for width in kernel_sizes)

    @property
    def reach(self) -> int:
        """How many positions before its own a causal one sees."""
        return max(self.widths) - 1

    def forward(self, x: Tensor, *, before: Tensor | None = None) -> Tensor:
        """`x` [B, T, E], zero beyond each text -> [B, T, C * number of widths].

        `before` [B, reach, E] are the inputs before these, for a causal one; None: zeros.
        """
        if self.causal:
            x = F.pad(x, (0, 0, self.reach, 0)) if before is None else torch.cat([before, x], dim=1)
        # As an image one row high in torch's channels-last layout, which [B, T, E] already is: no copy turns it round.
        image = x.transpose(1, 2).unsqueeze(2)
        parts = []
        for layer, width in zip(self.convolutions, self.widths, strict=True):
            kernel = layer.get_parameter("weight").unsqueeze(2).contiguous(memory_format=torch.channels_last)
            bias = layer.get_parameter("bias")
            if self.causal:
                parts.append(F.conv2d(image[..., self.reach + 1 - width :], kernel, bias).squeeze(2).transpose(1, 2))
            else:
                columns = F.conv2d(image, kernel, bias, padding=(0, width // 2)).squeeze(2).transpose(1, 2)
                parts.append(columns[:, 1 - width % 2 :])  # an even width needs one zero less on its left
        return torch.cat(parts, dim=-1).relu()
