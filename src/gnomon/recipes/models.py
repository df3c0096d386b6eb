"""Opening whatever a MODEL argument names, deployed or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gnomon.errors import require
from gnomon.formats.modeldir import read_config
from gnomon.runs import resolve_model
from gnomon.runtime.predictor import Prediction, is_deployed, load_predictor
from gnomon.text.tokenizer import Tokenizer


class Classifier(Protocol):
    """What every opened model can do."""

    tokenizer: Tokenizer
    """What turns texts into ids."""
    max_length: int
    """The longest text it reads, in tokens."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The label names, in the order of the logits."""
        ...

    def predict(self, texts: str | Sequence[str], *, batch_size: int = 32) -> list[Prediction]:
        """One prediction a text."""
        ...

    def save(self, path: Path | str) -> None:
        """Write the model folder to `path`."""
        ...


def load(path: Path | str, *, threads: int | None = None) -> Classifier:
    """Open a model for prediction: a deployed folder or a run's pick without torch, any other folder with it.

    `threads` is how many one prediction of a deployed model may use; None takes the count measured when it was
    deployed. `gnomon.load_model` gives the torch model instead, which can be trained and saved.
    Raises GnomonError when the folder is missing, damaged or no classifier.
    """
    folder = resolve_model(path)
    if is_deployed(read_config(folder)):
        return load_predictor(folder, threads=threads)
    require("torch", extra="train", purpose=f"{folder}, which is not deployed,")
    from gnomon.models.folders import load_model

    return load_model(folder)
