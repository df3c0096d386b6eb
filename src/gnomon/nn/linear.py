"""Several projections of the same input as one matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FusedLinear(nn.Linear):
    """One `nn.Linear` whose output is several projections side by side; `sizes` are their widths, in order.

    One large product is faster than several small ones; an optimiser that looks at matrices can still tell them apart.
    """

    def __init__(self, size: int, sizes: Sequence[int], *, bias: bool) -> None:
        super().__init__(size, sum(sizes), bias=bias)
        self.sizes = tuple(sizes)

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        """[..., D] -> one [..., size] for each of `sizes`, views of one result."""
        return torch.split(self.forward(x), list(self.sizes), dim=-1)
