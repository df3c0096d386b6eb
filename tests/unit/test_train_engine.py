"""The one loop: it learns, keeps the best, stops early, counts the last window, and tells what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tiny_training as tiny
from gnomon.errors import GnomonError, Interrupted
from gnomon.objectives.base import Term
from gnomon.objectives.classification import Classification, LabelledRow
from gnomon.runs import Run
from gnomon.text.batches import Batches
from gnomon.train.engine import fit
from gnomon.train.hooks import Hook, Progress, Step
from gnomon.train.plan import FitResult


def _evaluate(model: Any) -> dict[str, float]:
    model.eval()
    with torch.no_grad():
        return tiny.objective().evaluate(model, tiny.batches(30, seed=9, shuffle=False).epoch(0))


def test_it_learns_and_says_so(tmp_path: Path) -> None:
    model, run = tiny.tiny_model(), Run(tmp_path)
    before = _evaluate(model)
    result = fit(
        model,
        tiny.objective(),
        tiny.batches(100),
        tiny.plan(epochs=6),
        run=run,
        valid=tiny.batches(30, seed=9, shuffle=False),
    )
    assert result.steps == 6 * 7  # 13 batches, two a window
    assert result.stopped == "finished"
    assert result.best["accuracy"] > before["accuracy"] + 0.2
    assert [entry["step"] for entry in result.history] == [7, 14, 21, 28, 35, 42]
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4, 5, 6]
    assert result.best_step == next(e["step"] for e in result.history if e["accuracy"] == result.best["accuracy"])
    assert _evaluate(model) == result.best  # it ends with its best weights
    records = run.records()
    assert [record["event"] for record in records].count("eval") == 6
    assert {group["sparse"] for group in records[0]["groups"]} == {True, False}
    train = [record for record in records if record["event"] == "train"]
    assert [record["step"] for record in train] == list(range(3, 43, 3))
    assert train[-1]["loss"] < train[0]["loss"]
    assert train[0]["learning_rate"] == pytest.approx(0.02 * 3 / 4)
    assert not run.checkpoints.exists()  # a short training writes none


def test_without_validation_the_last_weights_stay(tmp_path: Path) -> None:
    result = fit(tiny.tiny_model(), tiny.objective(), tiny.batches(20), tiny.plan(steps=5), run=Run(tmp_path))
    assert (result.steps, result.best_step, result.best, result.history) == (5, 5, {}, ())


def test_evaluation_every_so_many_updates_and_at_the_last(tmp_path: Path) -> None:
    plan = tiny.plan(steps=11, evaluate_every=4, metric="loss")
    result = fit(tiny.tiny_model(), tiny.objective(), tiny.batches(40), plan, run=Run(tmp_path), valid=tiny.batches(20))
    assert [entry["step"] for entry in result.history] == [4, 8, 11]
    assert result.best["loss"] == min(entry["loss"] for entry in result.history)


def test_patience_stops_and_the_best_comes_back(tmp_path: Path) -> None:
    plan = tiny.plan(epochs=50, evaluate_every=1, patience=3, learning_rate=0.3, warmup_share=0.0)
    model = tiny.tiny_model()
    result = fit(
        model,
        tiny.objective(),
        tiny.batches(60),
        plan,
        run=Run(tmp_path),
        valid=tiny.batches(30, seed=9, shuffle=False),
    )
    assert result.stopped == "patience"
    assert result.steps == result.best_step + 3
    assert _evaluate(model) == result.best


@pytest.mark.parametrize("count", [22, 19])  # windows of 2 + 2 + 2 batches, and of 2 + 2 + 1
def test_the_last_partial_window_counts_and_nothing_leaks_into_the_next_epoch(tmp_path: Path, count: int) -> None:
    made = tiny.rows(count)

    def train(batch_size: int, accumulation: int) -> dict[str, Tensor]:
        model = tiny.without_dropout(tiny.tiny_model())
        source = Batches(made, [len(row.ids) for row in made], batch_size=batch_size, shuffle=False)
        plan = tiny.plan(epochs=2, accumulation=accumulation, optimizer="sgd", schedule="constant", learning_rate=0.1)
        fit(model, tiny.objective(), source, plan, run=Run(tmp_path / f"{batch_size}"))
        return tiny.weights(model)

    large = train(8, 1)
    for name, value in train(4, 2).items():
        torch.testing.assert_close(value, large[name], atol=1e-6, rtol=1e-6)


def test_a_seed_gives_the_same_again_whatever_is_saved_or_watched(tmp_path: Path) -> None:
    def train(name: str, *, hooks: Sequence[Hook] = (), **changes: Any) -> dict[str, Tensor]:
        model = tiny.tiny_model()
        torch.rand(len(name))  # what was drawn before does not matter
        fit(
            model,
            tiny.objective(),
            tiny.batches(50),
            tiny.plan(**changes),
            run=Run(tmp_path / name),
            hooks=hooks,
            valid=tiny.batches(20),
        )
        return tiny.weights(model)

    first = train("a")
    assert tiny.same(first, train("again"))
    assert tiny.same(first, train("saved at every update", checkpoint_seconds=0.0))
    assert tiny.same(first, train("watched", hooks=[Progress(lambda *shown: None, interval=0.0)]))
    assert not tiny.same(first, train("another seed", seed=1))


class _Diary(Hook):
    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def on_step(self, step: Step) -> None:
        self.events.append(("step", step.number))

    def on_eval(self, number: int, metrics: Mapping[str, float]) -> None:
        self.events.append(("eval", number))

    def on_save(self, number: int, path: Path) -> None:
        assert path.name == f"step-{number}"
        self.events.append(("save", number))

    def on_end(self, result: FitResult) -> None:
        self.events.append(("end", result.steps))


def test_hooks_see_four_events(tmp_path: Path) -> None:
    diary = _Diary()
    plan = tiny.plan(steps=2, evaluate_every=2, checkpoint_seconds=0.0)
    fit(
        tiny.tiny_model(),
        tiny.objective(),
        tiny.batches(40),
        plan,
        run=Run(tmp_path),
        hooks=[diary],
        valid=tiny.batches(20),
    )
    assert diary.events == [("step", 1), ("save", 1), ("step", 2), ("eval", 2), ("save", 2), ("end", 2)]


def test_tensorboard_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    fit(tiny.tiny_model(), tiny.objective(), tiny.batches(40), tiny.plan(), run=Run(tmp_path), valid=tiny.batches(20))
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {"train/loss", "train/learning_rate", "valid/accuracy"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("valid/accuracy")] == [3, 6, 9]


def test_a_checkpoint_is_a_model_folder_and_only_last_and_best_are_kept(tmp_path: Path) -> None:
    model, run = tiny.tiny_model(), Run(tmp_path)
    plan = tiny.plan(epochs=6, evaluate_every=1, checkpoint_seconds=0.0)
    result = fit(
        model, tiny.objective(), tiny.batches(60), plan, run=run, valid=tiny.batches(30, seed=9, shuffle=False)
    )
    last, best = run.pointed("last"), run.pointed("best")
    assert last is not None
    assert best is not None
    assert last.name == f"step-{result.steps}"
    assert best.name == f"step-{result.best_step}"
    assert tiny.folder(run.checkpoints) == {last.name, best.name}
    names = {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "objective.safetensors",
        "optimizer.safetensors",
        "trainer.json",
    }
    assert names <= tiny.folder(last)


def test_bfloat16_learns_too(tmp_path: Path) -> None:
    model = tiny.tiny_model()
    plan = tiny.plan(epochs=6, precision="bfloat16")
    result = fit(model, tiny.objective(), tiny.batches(100), plan, run=Run(tmp_path), valid=tiny.batches(30, seed=9))
    assert result.best["accuracy"] > 0.6
    assert {value.dtype for value in tiny.weights(model).values()} == {torch.float32}


def test_refused_before_the_first_update(tmp_path: Path) -> None:
    def refused(says: str, *, source: Any = None, objective: Any = None, valid: Any = None, **changes: Any) -> None:
        model = tiny.tiny_model()
        before = tiny.weights(model)
        with pytest.raises(GnomonError, match=says):
            fit(
                model,
                objective or tiny.objective(),
                source or tiny.batches(20),
                tiny.plan(**changes),
                run=Run(tmp_path),
                valid=valid,
            )
        assert tiny.same(before, tiny.weights(model))

    refused("nothing to train on", source=Batches([], [], batch_size=2))
    refused("nothing to validate on", valid=Batches([], [], batch_size=2))
    refused("head knows the labels", objective=Classification(("a", "b"), pad_id=0))
    refused("label number 3", source=Batches([LabelledRow([2], 3)], [1], batch_size=2))
    refused("metric = 'f1'", valid=tiny.batches(20), metric="f1")
    refused("rate_factors", rate_factors={"heads": 2.0})
    assert not (tmp_path / "metrics.jsonl").exists()


class _Poisoned(Classification):
    """From some call of `loss` on, something is not finite."""

    def __init__(self, call: int, how: str) -> None:
        super().__init__(tiny.LABELS, pad_id=0)
        self._calls, self._from, self._how = 0, call, how

    def loss(self, model: Any, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:
        self._calls += 1
        term = super().loss(model, batch, weights)["gold"]
        if self._calls < self._from:
            return {"gold": term}
        if self._how == "output":
            with torch.no_grad():
                model.head.out.bias.fill_(3e38)
                model.head.out.weight.fill_(3e38)
            return super().loss(model, batch, weights)
        if self._how == "gradient":  # sqrt(0) is finite, its gradient is not
            return {"gold": Term(term.sum + (model.head.dense.weight * 0).sqrt().sum(), term.weight)}
        return {"gold": Term(term.sum / 0.0, term.weight)}


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("output", "the loss term gold is .*; first not finite: the output of head.out"),
        ("gradient", "the loss is finite but its gradient is not; first not finite: the gradient of head.dense.weight"),
        ("loss", "the loss term gold is inf; first not finite: the gradient at the output of head"),
    ],
)
def test_what_is_not_finite_stops_before_the_update(tmp_path: Path, how: str, says: str) -> None:
    model, run = tiny.tiny_model(), Run(tmp_path)
    plan = tiny.plan(accumulation=1, checkpoint_seconds=0.0)
    with pytest.raises(GnomonError, match=f"before update 4: {says}") as caught:
        fit(model, _Poisoned(5, how), tiny.batches(60), plan, run=run)  # the rehearsal is the first call
    last = run.pointed("last")
    assert last is not None
    assert last.name == "step-3"
    assert f"the last good checkpoint is {last}" in caught.value.hint
    assert "learning_rate (now 0.02)" in caught.value.hint


def test_a_loss_that_is_infinite_at_once_is_found_in_the_rehearsal(tmp_path: Path) -> None:
    with pytest.raises(GnomonError, match="before update 1: the loss term gold is inf") as caught:
        fit(tiny.tiny_model(), _Poisoned(1, "loss"), tiny.batches(20), tiny.plan(), run=Run(tmp_path))
    assert "no checkpoint" in caught.value.hint


def test_a_checkpoint_of_another_plan_is_not_continued(tmp_path: Path) -> None:
    fit(tiny.tiny_model(), tiny.objective(), tiny.batches(20), tiny.plan(checkpoint_seconds=0.0), run=Run(tmp_path))
    with pytest.raises(GnomonError, match=r"learning_rate: 0.02 there, 0.5 now"):
        fit(tiny.tiny_model(), tiny.objective(), tiny.batches(20), tiny.plan(learning_rate=0.5), run=Run(tmp_path))


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    import signal

    class Stopper(Hook):
        def on_step(self, step: Step) -> None:
            if step.number == 5:
                signal.raise_signal(signal.SIGTERM)

    run = Run(tmp_path, resume_command="gnomon tune --resume here")
    with pytest.raises(Interrupted, match="SIGTERM: stopped after update 5 of 9 and saved") as caught:
        fit(tiny.tiny_model(), tiny.objective(), tiny.batches(40), tiny.plan(), run=run, hooks=[Stopper()])
    assert caught.value.exit_code == 130
    assert caught.value.hint == "gnomon tune --resume here"
    last = run.pointed("last")
    assert last is not None
    assert last.name == "step-5"
