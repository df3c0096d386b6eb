"""The random states a training depends on: Python's, numpy's global one, torch's on every device."""

from __future__ import annotations

import base64
import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor


def seed_all(seed: int) -> None:
    """Seed every generator."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def seed_update(seed: int, step: int, rank: int) -> None:
    """Seed torch for one update of one process among several."""
    torch.manual_seed(int(np.random.SeedSequence((seed, step, rank)).generate_state(1, np.uint64)[0]))


def capture() -> dict[str, Any]:
    """All states, as JSON holds them."""
    version, words, gauss = random.getstate()
    kind, key, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(words), gauss],
        "numpy": [kind, np.asarray(key).tolist(), position, has_gauss, cached],
        "torch": _to_text(torch.get_rng_state()),
        "cuda": [_to_text(state) for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
    }


def restore(states: dict[str, Any]) -> None:
    """Put back what `capture` gave."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    kind, key, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, np.array(key, np.uint32), position, has_gauss, cached))
    torch.set_rng_state(_from_text(states["torch"]))
    if torch.cuda.is_available() and states["cuda"]:
        torch.cuda.set_rng_state_all([_from_text(text) for text in states["cuda"]])


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Whatever is drawn inside, the states are as before afterwards."""
    states = capture()
    try:
        yield
    finally:
        restore(states)


def _to_text(state: Tensor) -> str:
    return base64.b64encode(state.cpu().numpy().tobytes()).decode("ascii")


def _from_text(text: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
