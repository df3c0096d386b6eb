"""gnomon: small, fast language models, and proof of what they cost.

Each command is also a Python call of the same name and arguments: `gnomon.frontier("data.csv", teacher="demo")`.
Nothing heavy is imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gnomon.errors import GnomonError

if TYPE_CHECKING:
    from gnomon import vectors
    from gnomon.models.folders import load_model
    from gnomon.public import (
        advise,
        chat,
        compare_tokenizers,
        distill,
        doctor,
        evaluate,
        export,
        frontier,
        generate,
        info,
        predict,
        prepare,
        pretrain,
        quickstart,
        train_tokenizer,
        tune,
    )
    from gnomon.recipes.models import load

__version__ = "0.1.0"

__all__ = [
    "GnomonError",
    "advise",
    "chat",
    "compare_tokenizers",
    "distill",
    "doctor",
    "evaluate",
    "export",
    "frontier",
    "generate",
    "info",
    "load",
    "load_model",
    "predict",
    "prepare",
    "pretrain",
    "quickstart",
    "train_tokenizer",
    "tune",
    "vectors",
]

_PLACES = {"load": "gnomon.recipes.models", "load_model": "gnomon.models.folders"}


_MODULES = ("vectors",)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"gnomon.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'gnomon' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES.get(name, "gnomon.public")), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
