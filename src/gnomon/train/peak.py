"""What this machine can do at best: floating-point operations a second in a large matrix product, measured."""

from __future__ import annotations

import time

import torch

_SIZE = 1024
_SECONDS = 0.2


def measured_peak() -> float:
    """The best of many products of two float32 matrices of 1,024 x 1,024 with torch's present threads."""
    left = torch.ones(_SIZE, _SIZE)
    product = torch.empty(_SIZE, _SIZE)
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < _SECONDS:
        begun = time.perf_counter()
        torch.mm(left, left, out=product)
        best = min(best, time.perf_counter() - begun)
    return 2 * _SIZE**3 / best
