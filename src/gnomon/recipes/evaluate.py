"""`gnomon evaluate MODEL... DATA`: measure models side by side, on labelled text, or language models on plain text."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from gnomon.errors import GnomonError
from gnomon.measure.classification import ClassScores, never_predicted, per_class
from gnomon.measure.latency import Latency, interleaved
from gnomon.measure.uncertainty import Interval, Paired, paired
from gnomon.recipes.demo import DEMO, demo_questions
from gnomon.recipes.evaluate_language import LanguageResult, evaluate_language, is_language_model
from gnomon.recipes.inputs import read
from gnomon.recipes.measuring import TIMED_TEXTS, Answers, answers, quality
from gnomon.recipes.models import load
from gnomon.recipes.settings import ReadSettings
from gnomon.reporting.console import Console


@dataclass(frozen=True)
class Config(ReadSettings):
    """Accuracy, macro-F1, calibration and latency of models on labelled text, each class, and a test against the first.

    A label that a model does not know, or a model that knows others, is an error. Of language models: perplexity and
    bits per byte of plain text.
    """

    models: tuple[str, ...]
    """Model folders or runs"""
    data: Path
    """Labelled text, or "demo"; for language models a text file, a .jsonl file or a folder of them."""
    _: KW_ONLY
    context: int | None = None
    """Of language models: tokens read at once. Default: as many as the model can, or 1,024 where nothing limits it."""
    stride: int | None = None
    """Of language models: new tokens in each reading; the rest is read again. Default: half of the context."""
    threads: int | None = None
    """Threads of one prediction. Default: as measured when each model was deployed."""
    seed: int = 0
    """Seed of the bootstrap."""


@dataclass(frozen=True)
class Evaluated:
    """One model: intervals by figure, every class's scores, latency of one text, and the test against the first."""

    name: str
    figures: dict[str, Interval]
    classes: dict[str, ClassScores]
    never_predicted: tuple[str, ...]
    truncated: float
    latency: Latency
    against_first: Paired | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        against = self.against_first
        return {
            "model": self.name,
            **{name: interval.to_dict() for name, interval in self.figures.items()},
            "classes": {
                name: {"precision": c.precision, "recall": c.recall, "f1": c.f1, "support": c.support}
                for name, c in self.classes.items()
            },
            "never_predicted": list(self.never_predicted),
            "truncated_share": self.truncated,
            "latency_ms": {"p50": self.latency.p50_ms, "p99": self.latency.p99_ms},
            "against_first": None
            if against is None
            else {"difference": against.difference.to_dict(), "p_value": against.p_value},
        }


@dataclass(frozen=True)
class EvaluateResult:
    """Every model's figures on the same rows."""

    rows: int
    models: tuple[Evaluated, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"rows": self.rows, "models": [model.to_dict() for model in self.models]}

    def shown(self) -> RenderableType:
        """A row a model; for a single model, a row a class as well."""
        table = Table(title=f"{self.rows:,} texts", title_justify="left")
        for heading in ("model", "accuracy", "macro-F1", "calibration error", "p50", "p99", "against the first"):
            table.add_column(heading, overflow="fold")
        for model in self.models:
            against = model.against_first
            table.add_row(
                model.name,
                *(_interval(model.figures[name]) for name in ("accuracy", "macro_f1", "calibration_error")),
                f"{model.latency.p50_ms:.2f} ms",
                f"{model.latency.p99_ms:.2f} ms",
                "" if against is None else f"{against.difference.value:+.4f} (p = {against.p_value:.3g})",
            )
        return table if len(self.models) > 1 else Group(table, _class_table(self.models[0]))


def run(config: Config, console: Console | None = None) -> EvaluateResult | LanguageResult:
    """Measure. Raises GnomonError for labels that a model does not know, naming them."""
    console = console or Console(quiet=True)
    if not config.models:
        raise GnomonError("no model to evaluate is given", "gnomon evaluate MODEL... DATA")
    if is_language_model(config.models[0]):
        return evaluate_language(
            config.models, config.data, context=config.context, stride=config.stride, encoding=config.encoding,
            threads=config.threads, seed=config.seed, console=console,
        )  # fmt: skip
    data = demo_questions() if str(config.data) == DEMO else read(config.data, config, console)
    labels = data.label_names
    loaded = [load(name, threads=config.threads) for name in config.models]
    with console.stage("time one text at a time"):
        times = interleaved(
            {place: model.predict for place, model in enumerate(loaded)}, data.texts[:TIMED_TEXTS], seconds=4.0
        )
    measured: list[Evaluated] = []
    first: Answers | None = None
    for place, (name, model) in enumerate(zip(config.models, loaded, strict=True)):
        with console.stage(f"measure {name}"):
            known = _known(model.labels, labels, name)
            gold = np.array([known.index(label) for label in data.labels])
            given = answers(model, data.texts, known)
            cut = sum(one.truncated for one in model.tokenizer.encode_batch(data.texts, max_length=model.max_length))
            unpredicted = tuple(known[index] for index in never_predicted(gold, given.classes))
            measured.append(
                Evaluated(
                    name=name,
                    figures=quality(gold, given, first, seed=config.seed),
                    classes=dict(zip(known, per_class(gold, given.classes, num_labels=len(known)), strict=True)),
                    never_predicted=unpredicted,
                    truncated=cut / len(data),
                    latency=times[place],
                    against_first=None
                    if first is None
                    else paired(gold, given.classes, first.classes, seed=config.seed),
                )
            )
        first = first or given
        if cut:
            console.warn(f"{name} reads fewer tokens than {cut:,} of the texts have: their end is cut")
        if unpredicted:
            console.warn(f"{name} never predicts {', '.join(unpredicted)}")
    return EvaluateResult(len(data), tuple(measured))


def _known(model: tuple[str, ...], data: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The model's labels, sorted; GnomonError when the data has one that the model does not know."""
    unknown = sorted(set(data) - set(model))
    if unknown:
        raise GnomonError(
            f"the data has labels that {name} does not know: {', '.join(unknown[:8])}",
            f"it answers with {', '.join(model[:20])}",
        )
    return tuple(sorted(model))


def _interval(interval: Interval) -> str:
    return f"{interval.value:.4f} [{interval.low:.4f}, {interval.high:.4f}]"


def _class_table(model: Evaluated) -> Table:
    table = Table()
    for heading in ("class", "precision", "recall", "F1", "texts"):
        table.add_column(heading, justify="left" if heading == "class" else "right", overflow="fold")
    for name, scores in model.classes.items():
        figures = (scores.precision, scores.recall, scores.f1)
        table.add_row(name, *(f"{figure:.3f}" for figure in figures), f"{scores.support:,}")
    return table
