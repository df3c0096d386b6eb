"""The number format of the forward pass."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager

import torch

from gnomon.train.plan import Precision


def forward_precision(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """A context for the forward pass: bfloat16 matrix products through torch's autocast, or plain float32."""
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
