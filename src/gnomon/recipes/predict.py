"""`gnomon predict MODEL [TEXT|-]`: label text with a deployed model, a run's pick, or a torch model folder."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from gnomon.errors import GnomonError
from gnomon.recipes.models import Classifier, load
from gnomon.reporting.console import Console
from gnomon.runtime.predictor import Prediction
from gnomon.text.corpus import read_texts
from gnomon.text.encodings import mend_surrogates


@dataclass(frozen=True)
class Config:
    """Label texts: given as arguments, or one a line on standard input."""

    model: str
    """A model folder, or a run folder (its pick)."""
    text: tuple[str, ...] = ()
    """Texts; "-", or none where something is piped in, reads one text a line from standard input."""
    _: KW_ONLY
    batch_size: int = 32
    """Texts scored at once."""
    threads: int | None = None
    """Threads of one prediction. Default: as measured when the model was deployed."""


@dataclass(frozen=True)
class PredictResult:
    """One prediction for each text, in order."""

    texts: tuple[str, ...]
    predictions: tuple[Prediction, ...]

    def to_dict(self) -> dict[str, Any]:
        """Texts with their label, the probability of every label, and whether they were cut."""
        rows = zip(self.texts, self.predictions, strict=True)
        return {
            "predictions": [
                {"text": text, "label": one.label, "probabilities": one.probabilities, "truncated": one.truncated}
                for text, one in rows
            ]
        }

    def shown(self) -> RenderableType:
        """A line a text: label, probability, text, divided by tabs."""
        rows = zip(self.texts, self.predictions, strict=True)
        return Text("\n".join(f"{one.label}\t{one.probabilities[one.label]:.4f}\t{text}" for text, one in rows))


def run(config: Config, console: Console | None = None) -> PredictResult:
    """Predict; texts that were cut to fit are counted in a warning."""
    console = console or Console(quiet=True)
    model: Classifier = load(config.model, threads=config.threads)
    texts = _texts(config, console)
    predictions = tuple(model.predict(list(texts), batch_size=config.batch_size))
    cut = sum(one.truncated for one in predictions)
    if cut:
        console.warn(f"{cut} of {len(texts)} texts were longer than the model reads and were cut")
    return PredictResult(texts, predictions)


def _texts(config: Config, console: Console) -> tuple[str, ...]:
    """The texts of the arguments or of standard input; half surrogate pairs in them are replaced and counted."""
    if config.text == ("-",) or (not config.text and not sys.stdin.isatty()):
        return read_texts("-").texts
    if not config.text:
        raise GnomonError(
            "there is no text to label", "gnomon predict MODEL 'a text', or: gnomon predict MODEL - < FILE"
        )
    mended = [mend_surrogates(text) for text in config.text]
    if any(count for _, count in mended):
        console.warn(f"{sum(count for _, count in mended)} halves of surrogate pairs were replaced")
    return tuple(text for text, _ in mended)
