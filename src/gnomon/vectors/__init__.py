"""Word vectors from raw text: counted (PPMI, LSA), predicted (skip-gram, CBOW) or both (GloVe); and their worth.

`train` learns them, `WordVectors` holds them, `evaluate` measures them. numpy alone reads and uses vectors; training
needs numba and scipy. Source: D7 and D3, SPEC rows A2 and A3.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnomon.vectors.benchmarks import Score, evaluate
    from gnomon.vectors.interchange import read_vectors, write_vectors
    from gnomon.vectors.keyed import UnknownWord, WordVectors
    from gnomon.vectors.source import Lines
    from gnomon.vectors.training import TrainingInterrupted, train

__all__ = [
    "Lines",
    "Score",
    "TrainingInterrupted",
    "UnknownWord",
    "WordVectors",
    "evaluate",
    "read_vectors",
    "train",
    "write_vectors",
]

_PLACES = {
    "Lines": "source",
    "Score": "benchmarks",
    "TrainingInterrupted": "training",
    "UnknownWord": "keyed",
    "WordVectors": "keyed",
    "evaluate": "benchmarks",
    "read_vectors": "interchange",
    "train": "training",
    "write_vectors": "interchange",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'gnomon.vectors' has no attribute {name!r}")
    return getattr(importlib.import_module(f"gnomon.vectors.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
