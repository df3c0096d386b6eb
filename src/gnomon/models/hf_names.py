"""Names and fields of Hugging Face's BERT, DistilBERT and RoBERTa folders, and of ours, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def to_folder_names(arrays: Mapping[str, np.ndarray], config: Any, head: Any) -> dict[str, np.ndarray]:
    raise NotImplementedError


def folder_config(config: Any, head: Any, *, family: str, labels: Sequence[str], max_length: int) -> dict[str, Any]:
    raise NotImplementedError
