"""Language models learn, packed or apart, and go on where they stopped."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from families import small_model
from gnomon.errors import GnomonError, Interrupted
from gnomon.models.base import Model
from gnomon.models.folders import load_language_model
from gnomon.objectives.base import Objective
from gnomon.objectives.causal_lm import TERM, CausalLM
from gnomon.objectives.masked_lm import MaskedLM
from gnomon.runs import Run
from gnomon.text.batches import Batches
from gnomon.text.windows import Window
from gnomon.train.engine import fit
from gnomon.train.hooks import Hook, Step
from gnomon.train.plan import Plan
from language_models import each_language_model, language_model, masked_language_model, some_ids, spread_out


def window(*texts: Sequence[int]) -> Window:
    """Texts packed one after the other."""
    starts = np.cumsum([0, *(len(text) for text in texts[:-1])])
    return Window(np.concatenate([np.asarray(text, np.int64) for text in texts]), starts)


TEXTS = [some_ids(length, seed=length) for length in (7, 2, 12, 1, 5)]


@each_language_model
def test_packed_documents_lose_what_they_lose_apart(name: str) -> None:
    model, objective = language_model(name), CausalLM(pad_id=0)
    packed = objective.evaluate(model, [[window(*TEXTS), window(*TEXTS[:2])]])
    apart = objective.evaluate(model, [[window(text)] for text in (*TEXTS, *TEXTS[:2])])
    together = objective.evaluate(model, [[window(text) for text in (*TEXTS, *TEXTS[:2])]])
    assert packed["loss"] == pytest.approx(apart["loss"], abs=1e-5)
    assert together["loss"] == pytest.approx(apart["loss"], abs=1e-5)


@each_language_model
def test_packed_documents_have_the_gradients_they_have_apart(name: str) -> None:
    model, objective = language_model(name).double(), CausalLM(pad_id=0)
    found = []
    for examples in ([window(*TEXTS)], [window(text) for text in TEXTS]):
        model.zero_grad()
        batch = objective.collate(examples)
        term = objective.loss(model, batch.to(model.device), batch.weights)[TERM]
        assert term.weight == sum(len(text) - 1 for text in TEXTS)
        term.sum.backward()
        found.append([p.grad.to_dense() for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", ["bert", "lstm", "convolutional", "static-ngrams", "encoder-pre-mean"])
def test_packed_documents_of_other_families_do_not_see_each_other(name: str) -> None:
    backbone = small_model(name).backbone
    ids = torch.tensor([[*TEXTS[0], *TEXTS[1], *TEXTS[2], 0, 0]])
    documents = torch.tensor([[0] * 7 + [1] * 2 + [2] * 12 + [-1] * 2])
    packed = backbone(ids, mask=documents >= 0, documents=documents).hidden[0]
    for text, start in zip(TEXTS[:3], (0, 7, 9), strict=True):
        alone = backbone(torch.tensor([text])).hidden[0]
        torch.testing.assert_close(packed[start : start + len(text)], alone, atol=1e-5, rtol=0)


def test_a_window_without_a_target_weighs_nothing() -> None:
    objective = CausalLM(pad_id=0)
    batch = objective.collate([window([5])])
    assert batch.weights == {TERM: 0.0}
    assert np.isnan(objective.evaluate(language_model("rope"), [[window([5])]])["loss"])


def test_bits_per_byte_are_known_where_the_bytes_are() -> None:
    metrics = CausalLM(pad_id=0, bytes_per_token=4.0).evaluate(language_model("rope"), [[window(*TEXTS)]])
    assert metrics["bits_per_byte"] == pytest.approx(metrics["loss"] / np.log(2) / 4)
    assert metrics["perplexity"] == pytest.approx(np.exp(metrics["loss"]), rel=1e-6)
    assert "bits_per_byte" not in CausalLM(pad_id=0).evaluate(language_model("rope"), [[window(*TEXTS)]])


@each_language_model
def test_each_family_learns_a_text_by_heart(name: str, tmp_path: Path) -> None:
    model = language_model(name, spread=0.02)
    rows = [window([2, *some_ids(11, seed=seed), 3]) for seed in range(4)]
    batches = Batches(rows, [14] * 4, batch_size=4)
    steps = 240 if "lstm" in name or "gru" in name else 80  # what is remembered through gates takes longer to learn
    plan = Plan(steps=steps, learning_rate=0.02, optimizer="adamw", weight_decay=0.0, betas=(0.9, 0.99), metric="loss")
    result = fit(model, CausalLM(pad_id=0), batches, plan, run=Run(tmp_path), valid=batches)
    assert result.best["loss"] < 0.35, "a fourth of the first tokens must be guessed: ln(4) / 13 at best"


def objective_and_model(kind: str) -> tuple[Objective, Model]:
    if kind == "masked":
        model = masked_language_model()
        return MaskedLM.for_tokenizer(model.tokenizer), model
    return CausalLM(pad_id=0), language_model(kind, spread=0.02)


class StopAt(Hook):
    """Ctrl-C during the update `number`."""

    def __init__(self, number: int) -> None:
        self._number = number

    def on_step(self, step: Step) -> None:
        if step.number == self._number:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("kind", ["rope-grouped-normed", "ngrams", "gru-2", "convolutional", "masked"])
def test_with_muon_stopped_and_continued_equals_never_stopped(kind: str, tmp_path: Path) -> None:
    rows = [window(some_ids(13, seed=seed), some_ids(4, seed=seed + 50)) for seed in range(12)]
    plan = Plan(epochs=3, optimizer="muon", learning_rate=0.02, metric="loss", accumulation=2)

    def train(folder: Path, stops: tuple[int, ...] = ()) -> tuple[dict[str, torch.Tensor], Any]:
        for stop in (*stops, None):
            objective, model = objective_and_model(kind)
            batches = Batches(rows, [17] * 12, batch_size=3)
            given = {"run": Run(folder), "valid": batches, "hooks": [StopAt(stop)] if stop else []}
            if stop is None:
                result = fit(model, objective, batches, plan, **given)
                return {n: t.clone() for n, t in model.state_dict().items()}, result
            with pytest.raises(Interrupted):
                fit(model, objective, batches, plan, **given)
            torch.rand(stop)
        raise AssertionError

    weights, result = train(tmp_path / "whole")
    again, resumed = train(tmp_path / "stopped", stops=(2, 3, 5))
    assert all(torch.equal(weights[name], again[name]) for name in weights)
    assert (result.history, result.best) == (resumed.history, resumed.best)
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_a_checkpoint_is_a_model_that_transformers_names(tmp_path: Path) -> None:
    model = language_model("rope")
    model.save(tmp_path / "m")
    assert model.hf_type is None, "it was not asked for"
    assert load_language_model(tmp_path / "m").hf_type is None


def test_wrong_pairs_of_objective_and_model_are_refused() -> None:
    masked, causal = MaskedLM.for_tokenizer(masked_language_model().tokenizer), CausalLM(pad_id=0)
    for model in (masked_language_model(), small_model("bert"), small_model("llama")):
        with pytest.raises(GnomonError, match="cannot learn the next token"):
            causal.check(model)
    for model in (language_model("rope"), language_model("lstm"), small_model("bert")):
        with pytest.raises(GnomonError, match="cannot learn masked tokens"):
            masked.check(model)
    causal.check(language_model("lstm"))
    masked.check(masked_language_model())
    with pytest.raises(GnomonError, match="cannot be tied"):
        spread_out(language_model("convolutional")).backbone and _tied_convolutional()


def _tied_convolutional() -> Model:
    from gnomon.models.heads import LanguageHeadConfig

    other = language_model("convolutional")
    return Model(other.backbone, LanguageHeadConfig(), tokenizer=other.tokenizer, max_length=9)
