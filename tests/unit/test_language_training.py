"""Muon and the choice of masked tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from families import WORDS, small_model
from gnomon.errors import GnomonError
from gnomon.nn.linear import FusedLinear
from gnomon.objectives.causal_lm import CausalLM
from gnomon.objectives.masked_lm import TERM, MaskedLM
from gnomon.text.windows import NO_TARGET, Window
from gnomon.train.muon import Muon, blocks_of, orthogonalised
from gnomon.train.optimizers import Optimizers, parameter_groups
from gnomon.train.plan import Plan
from language_models import language_model, masked_language_model, some_ids

quick = settings(deadline=None, derandomize=True, max_examples=15)


@quick
@given(rows=st.integers(1, 12), columns=st.integers(1, 12), scale=st.sampled_from([1e-4, 1.0, 1e4]))
def test_the_step_is_nearly_orthogonal_whatever_the_scale(rows: int, columns: int, scale: float) -> None:
    torch.manual_seed(rows * 20 + columns)
    left, _, right = torch.linalg.svd(torch.randn(3, rows, columns), full_matrices=False)
    values = torch.linspace(1.0, 2.0, min(rows, columns))
    found = orthogonalised(scale * left * values @ right)
    singular = torch.linalg.svdvals(found)
    assert 0.6 < singular.min() <= singular.max() < 1.3
    assert torch.linalg.matrix_norm(found - left @ right).max() < 0.35 * min(rows, columns) ** 0.5


def test_a_matrix_without_a_slope_stays() -> None:
    assert not orthogonalised(torch.zeros(2, 3, 4)).any()


def test_stacked_matrices_and_blocks_move_as_each_alone() -> None:
    torch.manual_seed(0)
    whole, parts = nn.Parameter(torch.randn(10, 4)), [nn.Parameter(torch.zeros(n, 4)) for n in (6, 2, 2)]
    with torch.no_grad():
        for part, value in zip(parts, whole.split((6, 2, 2)), strict=True):
            part.copy_(value)
    together = Muon([{"params": [whole], "blocks": [[6, 2, 2]]}], momentum=0.9)
    apart = [Muon([{"params": [part], "blocks": [[len(part)]]}], momentum=0.9) for part in parts]
    for _ in range(3):
        whole.grad = torch.randn_like(whole)
        for part, gradient in zip(parts, whole.grad.split((6, 2, 2)), strict=True):
            part.grad = gradient.clone()
        for optimizer in (together, *apart):
            optimizer.param_groups[0] |= {"lr": 0.1, "weight_decay": 0.01}
            optimizer.step()
    torch.testing.assert_close(whole.data, torch.cat([part.data for part in parts]), atol=1e-5, rtol=1e-5)


def test_it_goes_downhill() -> None:
    torch.manual_seed(0)
    weight, goal = nn.Parameter(torch.randn(6, 6)), torch.randn(6, 6)
    optimizer = Muon([{"params": [weight], "blocks": [[6]]}], momentum=0.9)
    for step in range(200):
        optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 200)
        weight.grad = weight.detach() - goal
        optimizer.step()
    assert (weight - goal).abs().max() < 0.1


def test_which_matrices_are_blocks() -> None:
    lstm = nn.LSTM(3, 5)
    assert blocks_of(lstm, lstm.weight_ih_l0) == [5, 5, 5, 5]
    assert blocks_of(lstm, lstm.bias_ih_l0) is None
    joint = FusedLinear(4, (6, 2), bias=True)
    assert blocks_of(joint, joint.weight) == [6, 2]
    convolution, table = nn.Conv1d(3, 7, 2), nn.Embedding(9, 4)
    assert blocks_of(convolution, convolution.weight) == [7]
    assert blocks_of(table, table.weight) is None


@pytest.mark.parametrize("name", ["rope-grouped-normed", "ngrams", "lstm", "convolutional"])
def test_muon_takes_the_matrices_and_leaves_the_rest(name: str) -> None:
    model = language_model(name)
    plan = Plan(optimizer="muon", learning_rate=0.02, rest_rate_factor=0.25, rate_factors={"backbone.tokens": 2.0})
    groups = parameter_groups(model, nn.Identity(), plan)
    taken = {name: group for group in groups for name in group.parameters if group.blocks}
    rest = {name: group for group in groups for name in group.parameters if not group.blocks}
    assert {*taken, *rest} == {name for name, _ in model.named_parameters()}
    matrices = {n for n, p in model.named_parameters() if p.ndim > 1 and n.startswith("backbone.")}
    assert set(taken) == {n for n in matrices if n.split(".")[1] not in ("tokens", "ngrams")}
    assert all(group.rate_factor == 1.0 for group in taken.values())
    assert all(group.rate_factor == (0.5 if n.startswith("backbone.tokens.") else 0.25) for n, group in rest.items())
    assert all(group.describe().get("muon", False) == bool(group.blocks) for group in groups)
    optimizers = Optimizers(model, nn.Identity(), plan)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
        if "ngrams" in name and parameter.shape[0] == 200:
            parameter.grad = parameter.grad.to_sparse(1)
    optimizers.step(1.0)
    state = optimizers.state()
    assert {key.rpartition("/")[0] for key in state if key.endswith("/momentum")} == set(taken)


def test_muon_tunes_encoders_too() -> None:
    groups = parameter_groups(small_model("bert"), nn.Identity(), Plan(optimizer="muon"))
    taken = {name for group in groups for name in group.parameters if group.blocks}
    assert len(taken) == 2 * 6
    assert not any(name.startswith("head.") or "embeddings" in name for name in taken)


def window(ids: list[int]) -> Window:
    return Window(np.array(ids, np.int64), np.zeros(1, np.int64))


MASKED = MaskedLM.for_tokenizer(masked_language_model().tokenizer)


def test_masks_fall_on_ordinary_tokens_in_the_right_shares() -> None:
    torch.manual_seed(0)
    ids = [2, *some_ids(300), 3]
    batch = MASKED.train().collate([window(ids)] * 20)
    shown, targets = batch.arrays["ids"], batch.arrays["targets"]
    chosen = targets != NO_TARGET
    assert batch.weights[TERM] == chosen.sum() == 20 * np.ceil(300 * 0.15)
    assert not chosen[:, 0].any(), "[CLS] is never hidden"
    original = np.tile(ids, (20, 1))
    assert (targets[chosen] == original[chosen]).all()
    assert (shown[~chosen] == original[~chosen]).all()
    masked = (shown[chosen] == 4).mean()
    kept = (shown[chosen] == targets[chosen]).mean()
    assert 0.76 < masked < 0.84
    assert 0.07 < kept < 0.15
    assert not np.isin(shown[chosen & (shown != 4)], [0, 1, 2, 3]).any()
    assert (chosen[0] != chosen[1]).any()


def test_an_evaluation_hides_the_same_tokens_whatever_stands_beside() -> None:
    MASKED.eval()
    short, long = window(some_ids(9)), window(some_ids(30, seed=1))
    alone, beside = MASKED.collate([short]), MASKED.collate([long, short])
    assert np.array_equal(alone.arrays["ids"][0], beside.arrays["ids"][1, :9])
    assert (beside.arrays["targets"][1, 9:] == NO_TARGET).all()
    model = masked_language_model()
    together = MASKED.evaluate(model, [[long, short]])["loss"]
    assert together == pytest.approx(MASKED.evaluate(model, [[long], [short]])["loss"], abs=1e-6)


def test_a_text_of_special_tokens_alone_weighs_nothing() -> None:
    assert MASKED.collate([window([2, 3, 3])]).weights == {TERM: 0.0}
    with pytest.raises(GnomonError, match="share"):
        MaskedLM(mask_id=4, pad_id=0, special_ids=frozenset({0}), vocab_size=9, share=1.0)
    with pytest.raises(GnomonError, match="nothing to hide"):
        MaskedLM(mask_id=0, pad_id=0, special_ids=frozenset({0, 1}), vocab_size=2)


def test_a_masked_language_model_learns(tmp_path: object) -> None:
    torch.manual_seed(0)
    model, objective = masked_language_model(), MaskedLM.for_tokenizer(masked_language_model().tokenizer).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    rows = [window([2, *([5 + n] * 8), 3]) for n in range(6)]
    losses = []
    for _ in range(60):
        batch = objective.collate(rows)
        term = objective.loss(model, batch.to(model.device), batch.weights)[TERM]
        losses.append(term.sum.item() / term.weight)
        optimizer.zero_grad()
        (term.sum / term.weight).backward()
        optimizer.step()
    assert np.mean(losses[-10:]) < 0.3 * losses[0]


def test_the_vocabulary_of_the_small_tokenizer() -> None:
    assert CausalLM(pad_id=0).collate([window(some_ids(4))]).arrays["ids"].max() < len(WORDS)
