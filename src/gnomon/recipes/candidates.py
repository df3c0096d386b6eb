"""From trained folders to the measured candidates of a frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gnomon.formats.modeldir import gnomon_section, read_model_dir
from gnomon.measure.controls import Control
from gnomon.measure.frontier import Candidate, Quality, Role
from gnomon.measure.uncertainty import Interval
from gnomon.recipes.inputs import Inputs
from gnomon.recipes.measuring import Answers, Speed, answers, quality, speeds
from gnomon.reporting.console import Tick
from gnomon.runs import Run
from gnomon.runtime.predictor import load_predictor, runtime_files
from gnomon.text.examples import ExampleSet

TEACHER = "teacher"
CONTROL = "tfidf"
_NO_LOSS = Interval(1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Entry:
    """A trained, deployed folder that takes part in a frontier."""

    name: str
    role: Role
    folder: Path
    run: Run
    twin_of: str | None = None


@dataclass(frozen=True)
class Measured:
    """Every candidate, and what each answered to the test texts (for the confusion matrices and disagreements)."""

    candidates: tuple[Candidate, ...]
    test_answers: Mapping[str, Answers]
    cold_start_seconds: Mapping[str, float]


def measure(
    entries: Sequence[Entry], control: Control, inputs: Inputs, *, root: Path, threads: Sequence[int], tick: Tick
) -> Measured:
    """Measure every entry and the control on the same texts; `root` is what their paths are relative to."""
    parts = {"valid": inputs.valid, "test": inputs.test}
    answered = {
        entry.name: {
            name: answers(load_predictor(entry.folder), part.texts, inputs.labels) for name, part in parts.items()
        }
        for entry in entries
    }
    answered[CONTROL] = {name: _control_answers(control, part) for name, part in parts.items()}
    found = speeds(
        {entry.name: entry.folder for entry in entries},
        inputs.test.texts,
        threads=threads,
        tick=tick,
        beside={CONTROL: control.probabilities},
    )
    qualities = {name: _qualities(answered[name], answered[TEACHER], inputs) for name in answered}
    candidates = [_candidate(entry, qualities[entry.name], found[entry.name], root) for entry in entries]
    candidates.append(_control_candidate(control, qualities[CONTROL], found[CONTROL]))
    return Measured(
        tuple(candidates),
        {name: by_part["test"] for name, by_part in answered.items()},
        {name: speed.cold_start_seconds for name, speed in found.items() if speed.cold_start_seconds is not None},
    )


def _qualities(given: Mapping[str, Answers], teacher: Mapping[str, Answers], inputs: Inputs) -> dict[str, Quality]:
    measured: dict[str, Quality] = {}
    for name, part in (("valid", inputs.valid), ("test", inputs.test)):
        gold = np.array(inputs.label_ids(part))
        figures = quality(gold, given[name], teacher[name])
        measured[name] = Quality(**figures)
        if given is teacher:
            measured[name] = replace(measured[name], kept=_NO_LOSS, agreement=_NO_LOSS)
    return measured


def _candidate(entry: Entry, measured: Mapping[str, Quality], speed: Speed, root: Path) -> Candidate:
    opened = read_model_dir(entry.folder)
    section = gnomon_section(opened.config)
    return Candidate(
        name=entry.name,
        family=str(section["family"]),
        role=entry.role,
        path=entry.folder.relative_to(root).as_posix(),
        parameters=sum(tensor.count for tensor in opened.arrays.entries.values()),
        size_mb=sum(file.stat().st_size for file in runtime_files(entry.folder)) / 1e6,
        train_seconds=float(entry.run.figures.get("train_seconds", 0.0)),
        test=measured["test"],
        valid=measured["valid"],
        p50_ms=speed.latency.p50_ms,
        p99_ms=speed.latency.p99_ms,
        texts_per_second=speed.texts_per_second,
        peak_memory_mb=speed.peak_memory_mb,
        threads=speed.threads,
        runtime="onnxruntime" if str(section["runtime"]).endswith(".onnx") else "numpy",
        precision="float32",
        twin_of=entry.twin_of,
    )


def _control_candidate(control: Control, measured: Mapping[str, Quality], speed: Speed) -> Candidate:
    return Candidate(
        name=CONTROL,
        family="tf-idf",
        role="control",
        path=None,
        parameters=control.parameters,
        size_mb=control.size_mb,
        train_seconds=control.fit_seconds,
        test=measured["test"],
        valid=measured["valid"],
        p50_ms=speed.latency.p50_ms,
        p99_ms=speed.latency.p99_ms,
        texts_per_second=speed.texts_per_second,
        peak_memory_mb=None,
        threads=1,
        runtime="scikit-learn",
        precision="float64",
    )


def _control_answers(control: Control, part: ExampleSet) -> Answers:
    probabilities = control.probabilities(part.texts)
    return Answers(probabilities, probabilities.argmax(axis=1))
