"""A training that was stopped and continued equals one that never was, bit for bit: weights, records and result."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tiny_training as tiny
from gnomon.distillation.objective import DistilledRow, DistillLabels, HiddenMatch
from gnomon.errors import Interrupted
from gnomon.formats.arrays import read_arrays
from gnomon.models.base import Model
from gnomon.models.folders import load_model
from gnomon.objectives.base import Objective
from gnomon.runs import Run
from gnomon.text.batches import Batches
from gnomon.train.engine import fit
from gnomon.train.hooks import Hook, Step
from gnomon.train.plan import FitResult, Plan

VALID = tiny.batches(30, seed=9, shuffle=False)


class _StopAt(Hook):
    """Ctrl-C during the update `number`."""

    def __init__(self, number: int) -> None:
        self._number = number

    def on_step(self, step: Step) -> None:
        if step.number == self._number:
            signal.raise_signal(signal.SIGINT)


def _train(path: Path, family: str, plan: Plan, *, stops: tuple[int, ...] = ()) -> tuple[Model, FitResult]:
    """Train with an interruption at each of `stops`; every start makes everything anew, as a new process would."""
    for stop in stops:
        with pytest.raises(Interrupted):
            fit(
                tiny.tiny_model(family),
                tiny.objective(),
                tiny.batches(70),
                plan,
                run=Run(path),
                valid=VALID,
                hooks=[_StopAt(stop)],
            )
        torch.rand(stop)  # whatever else the process draws
    model = tiny.tiny_model(family)
    return model, fit(model, tiny.objective(), tiny.batches(70), plan, run=Run(path), valid=VALID)


def _same_result(one: FitResult, other: FitResult) -> bool:
    def facts(result: FitResult) -> tuple[Any, ...]:
        return (result.steps, result.best_step, result.best, result.history, result.stopped, result.warnings)

    return facts(one) == facts(other)


@pytest.mark.parametrize("family", ["static", "recurrent", "convolutional", "encoder"])
def test_stopped_and_continued_equals_never_stopped(tmp_path: Path, family: str) -> None:
    plan = tiny.plan(evaluate_every=4)  # 9 batches an epoch in windows of two: 15 updates
    model, result = _train(tmp_path / "whole", family, plan)
    # In the middle, right after an evaluation, at the end of an epoch, twice in a row, and at the last update.
    stopped, again = _train(tmp_path / "stopped", family, plan, stops=(3, 4, 5, 6, 10, 15))
    assert tiny.same(tiny.weights(model), tiny.weights(stopped))
    assert _same_result(result, again)
    assert tiny.without_clock(Run(tmp_path / "whole").records()) == tiny.without_clock(
        Run(tmp_path / "stopped").records()
    )


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adam_l2"])
def test_with_every_optimizer(tmp_path: Path, optimizer: str) -> None:
    plan = tiny.plan(optimizer=optimizer, epochs=2)
    model, _ = _train(tmp_path / "whole", "static", plan)
    stopped, _ = _train(tmp_path / "stopped", "static", plan, stops=(3, 7))
    assert tiny.same(tiny.weights(model), tiny.weights(stopped))


def test_patience_counts_over_the_stop(tmp_path: Path) -> None:
    plan = tiny.plan(epochs=30, evaluate_every=2, patience=4, learning_rate=0.3)
    model, result = _train(tmp_path / "whole", "static", plan)
    assert result.stopped == "patience"
    stop = result.steps - 3  # between the best evaluation and the end of patience
    stopped, again = _train(tmp_path / "stopped", "static", plan, stops=(stop, result.steps))
    assert tiny.same(tiny.weights(model), tiny.weights(stopped))
    assert _same_result(result, again)


def test_parameters_of_the_objective_go_on_as_well(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = [
        DistilledRow(
            row.ids, row.label, generator.normal(size=3).astype(np.float32), generator.normal(size=5).astype(np.float32)
        )
        for row in tiny.rows(40)
    ]
    batches = Batches(rows, [len(row.ids) for row in rows], batch_size=8)

    def train(name: str, *, stop: int | None) -> tuple[Model, Objective]:
        torch.manual_seed(5)
        model = tiny.tiny_model()
        objective = DistillLabels(num_labels=3, pad_id=0, hidden=HiddenMatch(model.pooled_size, 5))
        hooks = [] if stop is None else [_StopAt(stop)]
        fit(model, objective, batches, tiny.plan(), run=Run(tmp_path / name), hooks=hooks)
        return model, objective

    model, objective = train("whole", stop=None)
    with pytest.raises(Interrupted):
        train("stopped", stop=4)
    stopped, continued = train("stopped", stop=None)
    assert tiny.same(tiny.weights(model), tiny.weights(stopped))
    assert tiny.same(dict(objective.state_dict()), dict(continued.state_dict()))


def test_the_thread_count_of_the_start_is_taken_again(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(Interrupted):
            fit(
                tiny.tiny_model(),
                tiny.objective(),
                tiny.batches(40),
                tiny.plan(),
                run=Run(tmp_path),
                hooks=[_StopAt(2)],
            )
        torch.set_num_threads(1)
        fit(tiny.tiny_model(), tiny.objective(), tiny.batches(40), tiny.plan(), run=Run(tmp_path))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_checkpoint_answers_as_the_model_did(tmp_path: Path) -> None:
    model, run = tiny.tiny_model("encoder"), Run(tmp_path)
    with pytest.raises(Interrupted):
        fit(model, tiny.objective(), tiny.batches(40), tiny.plan(), run=run, hooks=[_StopAt(4)])
    last = run.pointed("last")
    assert last is not None
    loaded = load_model(last)
    assert tiny.same(tiny.weights(model), tiny.weights(loaded))
    assert loaded.predict(["w3 w4 w5"]) == model.predict(["w3 w4 w5"])


_CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import test_resume
print("training", flush=True)
test_resume.train_long(Path(sys.argv[1]))
"""


def train_long(folder: Path) -> None:
    """300 updates on one thread, a checkpoint every 50 ms, the model in `folder/model` at the end."""
    torch.set_num_threads(1)
    model = tiny.tiny_model()
    plan = tiny.plan(epochs=12, checkpoint_seconds=0.05, evaluate_every=10)
    fit(model, tiny.objective(), tiny.batches(400), plan, run=Run(folder), valid=VALID)
    model.save(folder / "model")


def test_killed_twice_and_continued_equals_never_killed(tmp_path: Path) -> None:
    def start(name: str) -> subprocess.Popen[str]:
        here = Path(__file__).resolve().parent
        command = [sys.executable, "-c", _CHILD, str(tmp_path / name), str(here), str(here.parent)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n"
        return process

    def reached(name: str) -> int:
        return max((record.get("step", 0) for record in Run(tmp_path / name).records()), default=0)

    for step in (70, 180):
        killed = start("killed")
        while reached("killed") < step:
            assert killed.poll() is None, "it ended before it was killed"
            time.sleep(0.002)
        killed.kill()
        killed.wait()
        assert reached("killed") < 300
    last = start("killed")
    before = torch.get_num_threads()
    try:
        train_long(tmp_path / "whole")
    finally:
        torch.set_num_threads(before)
    assert last.wait() == 0
    first, second = (read_arrays(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed"))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    records = [tiny.without_clock(Run(tmp_path / name).records()) for name in ("whole", "killed")]
    assert records[0] == records[1]
