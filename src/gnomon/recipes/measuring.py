"""Measuring deployed models side by side: quality on the same texts, speed in turns, memory in fresh processes."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats.files import write_json
from gnomon.measure.calibration import calibration_error_interval
from gnomon.measure.latency import Latency, interleaved, quickest, throughput
from gnomon.measure.memory import footprint
from gnomon.measure.uncertainty import Interval, accuracy_interval, kept_interval, macro_f1_interval
from gnomon.reporting.console import Tick
from gnomon.runtime.predictor import load_predictor, softmax

TIMED_TEXTS = 200
_BATCHED_TEXTS = 1000


@dataclass(frozen=True)
class Answers:
    """One model's answers to N texts: `probabilities` float64 [N, C] in the order of the labels, classes int64 [N]."""

    probabilities: np.ndarray
    classes: np.ndarray


@dataclass(frozen=True)
class Speed:
    """One model's speed at the thread count it was quickest with, and what it needs to run.

    Memory and cold start are of a fresh process; None for what runs in no process of its own.
    """

    threads: int
    latency: Latency
    texts_per_second: float
    peak_memory_mb: float | None
    cold_start_seconds: float | None


def answers(predictor: Any, texts: Sequence[str], labels: Sequence[str]) -> Answers:
    """Ask a model; its label order is turned into that of `labels`, matched by name."""
    if set(predictor.labels) != set(labels):
        missing = sorted(set(labels) - set(predictor.labels))
        raise GnomonError(
            f"the model answers with other labels than the data has; unknown to it: {', '.join(missing[:8]) or 'none'}",
            "measure it on text labelled with its own labels",
        )
    columns = [predictor.labels.index(name) for name in labels]
    probabilities = softmax(predictor.logits(list(texts), batch_size=64))[:, columns]
    return Answers(probabilities, probabilities.argmax(axis=1))


def quality(gold: np.ndarray, given: Answers, teacher: Answers | None, *, seed: int = 0) -> dict[str, Interval]:
    """Accuracy, macro-F1, calibration error and, beside a teacher, the share kept and the agreement; with intervals."""
    figures = {
        "accuracy": accuracy_interval(gold, given.classes, seed=seed),
        "macro_f1": macro_f1_interval(gold, given.classes, seed=seed),
        "calibration_error": calibration_error_interval(gold, given.probabilities, seed=seed),
    }
    if teacher is not None:
        figures["kept"] = kept_interval(gold, given.classes, teacher.classes, seed=seed)
        figures["agreement"] = accuracy_interval(teacher.classes, given.classes, seed=seed)
    return figures


def speeds(
    folders: Mapping[str, Path],
    texts: Sequence[str],
    *,
    threads: Sequence[int],
    tick: Tick,
    beside: Mapping[str, Callable[[list[str]], object]] | None = None,
) -> dict[str, Speed]:
    """The speed of every deployed folder, in the same runtime and on the same texts.

    One text at a time (tokenizing included) with each thread count, all models taking turns; then many texts at
    once with the quickest count; then cold start and peak memory of a fresh process that answers one text.
    `beside` are other functions of a list of texts, timed among them on one thread.
    """
    opened: dict[tuple[str, int], Callable[[list[str]], object]] = {
        (name, count): load_predictor(folder, threads=count).predict
        for name, folder in folders.items()
        for count in threads
    }
    opened |= {(name, 1): function for name, function in (beside or {}).items()}
    single = {key: _one_text(predict) for key, predict in opened.items()}
    measured = interleaved(single, list(texts[:TIMED_TEXTS]), seconds=4.0)
    found: dict[str, Speed] = {}
    for number, name in enumerate(dict.fromkeys(name for name, _ in opened), start=1):
        tick(number, len(folders), name)
        tried = {count: measured[key, count] for key, count in opened if key == name}
        best = quickest(tried)
        many = throughput(lambda batch: opened[name, best](list(batch)), list(texts[:_BATCHED_TEXTS]))  # noqa: B023
        cold, peak = _fresh_process(folders[name], texts[0], best) if name in folders else (None, None)
        found[name] = Speed(best, tried[best], many, peak, cold)
    return found


def _one_text(predict: Callable[[list[str]], object]) -> Callable[[str], object]:
    return lambda text: predict([text])


def _fresh_process(folder: Path, text: str, threads: int) -> tuple[float, float]:
    """Seconds from nothing to the first answer, and the peak memory in MB, of a process that serves one text."""
    with tempfile.TemporaryDirectory() as place:
        texts = Path(place) / "texts.json"
        write_json(texts, [text])
        words = ["-m", "gnomon.runtime.probe", str(folder), "--texts", str(texts), "--threads", str(threads)]
        used = footprint([sys.executable, *words])
    return float(json.loads(used.output)["cold_start_seconds"]), used.peak_memory_mb
