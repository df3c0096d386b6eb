"""The deployed model: text in, labels and probabilities out, the same answers as the torch model.

Only this file turns text into a Prediction; torch, onnx and numpy each supply `logits(ids, mask)`.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats.arrays import read_arrays
from gnomon.formats.files import new_directory
from gnomon.formats.modeldir import gnomon_section, label_names, read_config
from gnomon.runs import resolve_model
from gnomon.text.batches import pad
from gnomon.text.tokenizer import Encoded, Tokenizer


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest label, the probability of every label, and whether the text was cut to fit."""

    label: str
    probabilities: dict[str, float]
    truncated: bool


class Scorer(Protocol):
    """A model's function on token ids; safe to call from several threads at once."""

    def logits(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Class scores float32 [B, C] of ids int64 [B, T].

        `mask` bool [B, T] is true on real tokens: they come first, and every row has at least one. None: all are real.
        """
        ...


class Predictor:
    """A tokenizer, a scorer and label names: texts to predictions.

    Texts are scored in order of length, padded to the longest of their batch, and answered in the order given.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        scorer: Scorer,
        *,
        labels: Sequence[str],
        max_length: int,
        folder: Path | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.scorer = scorer
        self.labels = tuple(labels)
        self.max_length = max_length
        self.folder = folder

    def save(self, path: Path | str) -> None:
        """Copy the deployed model folder to `path`, whole or not at all. A model that was never saved has none."""
        if self.folder is None:
            raise GnomonError("this model is in no folder", "save the torch model it was made from")
        with new_directory(Path(path)) as copy:
            shutil.copytree(self.folder, copy, dirs_exist_ok=True)

    def predict(self, texts: str | Sequence[str], *, batch_size: int = 32) -> list[Prediction]:
        """One prediction for each text; a single string counts as a list of one."""
        encoded = self._encode(texts)
        logits = self._score(encoded, batch_size)
        if logits.shape[1] != len(self.labels):
            raise GnomonError(
                f"the model has {logits.shape[1]} outputs and {len(self.labels)} label names",
                "give config.json an id2label with a name for every output",
            )
        return [self._prediction(item, row) for item, row in zip(encoded, logits.tolist(), strict=True)]

    def _prediction(self, item: Encoded, scores: list[float]) -> Prediction:
        """The softmax of one row, in Python: numpy's calls cost more than the few numbers they are for."""
        highest = max(scores)
        weights = [math.exp(score - highest) for score in scores]
        total = sum(weights)
        probabilities = {label: weight / total for label, weight in zip(self.labels, weights, strict=True)}
        return Prediction(self.labels[scores.index(highest)], probabilities, item.truncated)

    def logits(self, texts: str | Sequence[str], *, batch_size: int = 32) -> np.ndarray:
        """The scores before the softmax, float32 [N, C]."""
        return self._score(self._encode(texts), batch_size)

    def _encode(self, texts: str | Sequence[str]) -> list[Encoded]:
        listed = [texts] if isinstance(texts, str) else list(texts)
        if len(listed) == 1:  # a batch uses the tokenizer's own threads, which can stall when many threads call at once
            return [self.tokenizer.encode(listed[0], max_length=self.max_length)]
        return self.tokenizer.encode_batch(listed, max_length=self.max_length)

    def _score(self, encoded: Sequence[Encoded], batch_size: int) -> np.ndarray:
        if not encoded:
            return np.zeros((0, len(self.labels)), dtype=np.float32)
        if len(encoded) == 1:
            return self.scorer.logits(np.array([self._ids(encoded[0])], dtype=np.int64), None)
        rows = [self._ids(item) for item in encoded]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        parts = [
            self.scorer.logits(
                *pad([rows[index] for index in order[start : start + batch_size]], pad_id=self.tokenizer.pad_id)
            )
            for start in range(0, len(order), batch_size)
        ]
        result = np.empty((len(rows), parts[0].shape[1]), dtype=np.float32)
        result[order] = np.concatenate(parts)
        return result

    def _ids(self, encoded: Encoded) -> list[int]:
        """The ids of a text; one that has none (an empty text, no special tokens) counts as one unknown token."""
        if encoded.ids:
            return encoded.ids
        unknown = self.tokenizer.unk_id
        return [self.tokenizer.pad_id if unknown is None else unknown]


def load_predictor(path: Path | str, *, threads: int | None = None) -> Predictor:
    """Open a deployed model folder, or the pick of a run folder, without torch.

    `threads` is the number of threads one prediction may use; None takes the count that was measured best
    when the model was deployed, or 1. Raises GnomonError when the folder is not deployed or is damaged.
    """
    folder = resolve_model(path)
    config = read_config(folder)
    if not is_deployed(config):
        raise GnomonError(
            f"{folder} holds weights for training only: its config.json names no runtime",
            "`gnomon tune` and `gnomon distill` deploy what they make; elsewhere gnomon[train] must be installed",
        )
    section = gnomon_section(config)
    if section.get("head", {}).get("kind") == "language":
        raise GnomonError(f"{folder} is a language model and labels nothing", "gnomon generate continues texts with it")
    runtime = _runtime_file(folder, section)
    return Predictor(
        Tokenizer.from_dir(folder),
        _open(runtime, config, threads or int(section.get("threads", 1))),
        labels=label_names(config),
        max_length=int(section.get("max_length", 512)),
        folder=folder,
    )


def is_deployed(config: dict[str, Any]) -> bool:
    """Whether a config.json names a file that the runtime opens."""
    return isinstance(gnomon_section(config).get("runtime"), str)


def runtime_files(folder: Path) -> list[Path]:
    """The files that `load_predictor` reads from a deployed folder; their bytes are the model's size."""
    config = read_config(folder)
    names = [folder / "config.json", folder / "tokenizer.json", folder / "tokenizer_config.json"]
    return [_runtime_file(folder, gnomon_section(config)), *(name for name in names if name.exists())]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities float64 [N, C] of scores [N, C]."""
    scores = logits.astype(np.float64)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _runtime_file(folder: Path, section: dict[str, Any]) -> Path:
    name = PurePosixPath(str(section["runtime"]))
    if name.is_absolute() or ".." in name.parts:
        raise GnomonError(f"{folder / 'config.json'}: the runtime {name} lies outside the folder", "deploy it again")
    if not (folder / name).exists():
        raise GnomonError(f"{folder / name} is missing, though config.json names it as the runtime", "deploy it again")
    return folder / name


def _open(runtime: Path, config: dict[str, Any], threads: int) -> Scorer:
    if runtime.suffix == ".onnx":
        from gnomon.runtime.onnx import OnnxScorer

        return OnnxScorer(runtime, threads=threads)
    from gnomon.runtime.static import StaticScorer

    # Mapped: of large tables, only the rows that texts use come into memory.
    return StaticScorer(read_arrays(runtime, mapped=True), gnomon_section(config))
