"""Model folders as models: any Hugging Face BERT, DistilBERT or RoBERTa folder, or one of ours.

`read_folder` gives configuration and arrays by our tensor names (what `deploy/` builds from);
`load_model` makes the torch model of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.models.base import HeadConfig, Model


@dataclass(frozen=True)
class LoadReport:
    """What did not fit: tensors of the folder left `unused`, head tensors `missing` and so started anew."""

    unused: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Folder:
    """A model folder understood: `arrays` are by our names (`backbone.*`, `head.*`), `labels` empty when it has none."""

    path: Path
    family: str
    config: Any
    head: HeadConfig
    labels: tuple[str, ...]
    max_length: int | None
    arrays: Mapping[str, np.ndarray]


def read_folder(path: Path | str) -> Folder:
    """Read a model folder into configuration and arrays by our names; no torch module is made."""
    raise NotImplementedError


def load_model(
    path: Path | str,
    *,
    labels: Sequence[str] | None = None,
    head: HeadConfig | None = None,
    max_length: int | None = None,
) -> Model:
    """The model of a folder. `labels` None: as stored. Given and the same names as stored: the stored head, its rows
    put into the given order. Otherwise a new head (a stored dense layer of the same shape is kept) for `labels`.

    `model.load_report` lists unused and missing tensors; anything beside the head is refused with a GnomonError.
    """
    raise NotImplementedError
