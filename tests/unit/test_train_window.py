"""Accumulation is exact: any cut of the rows into micro-batches gives the gradient of the one large batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gnomon.objectives.base import Batch, Objective, Term
from gnomon.train.optimizers import Optimizers
from gnomon.train.plan import Plan
from gnomon.train.window import backward, rehearsal, total_weights


class Regressor(nn.Module):
    """A table of inputs, dropout, normalisation by batch, and one output: whatever a model may hold."""

    def __init__(self, *, dropout: float = 0.0, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8, sparse=sparse)
        self.hidden = nn.Linear(8, 8)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(8, 1)

    @property
    def device(self) -> torch.device:
        return self.out.weight.device

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.dropout(torch.tanh(self.hidden(self.table(ids))))).squeeze(-1)


class TwoTerms(Objective):
    """A squared error of every row, and a second one, of parameters of its own, of the rows that are marked."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.5))

    def collate(self, examples: Sequence[tuple[int, float, bool]]) -> Batch:
        ids, targets, marked = zip(*examples, strict=True)
        arrays = {"ids": np.array(ids), "targets": np.array(targets, np.float32), "marked": np.array(marked)}
        return Batch(arrays, {"all": float(len(examples)), "marked": float(sum(marked))})

    def loss(self, model: Regressor, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:  # type: ignore[override]
        answers = model(batch["ids"])
        errors = (answers - batch["targets"]).square()
        scaled = (self.scale * answers - batch["targets"]).square()
        return {
            "all": Term(errors.sum(), weights["all"], 0.3),
            "marked": Term(scaled[batch["marked"]].sum(), weights["marked"], 0.7),
        }


def _rows(count: int, share_marked: float, seed: int) -> list[tuple[int, float, bool]]:
    generator = np.random.default_rng(seed)
    return [
        (int(generator.integers(20)), float(generator.normal()), bool(generator.random() < share_marked))
        for _ in range(count)
    ]


def _gradient(
    model: nn.Module, objective: Objective, groups: Sequence[Sequence[object]]
) -> tuple[dict[str, Tensor], float]:
    for module in (model, objective):
        module.zero_grad(set_to_none=True)
    batches = [objective.collate(group) for group in groups]
    shares = backward(model, objective, batches, total_weights(batches), "float32")  # type: ignore[arg-type]
    named = {**dict(model.named_parameters()), **dict(objective.named_parameters())}
    dense = {name: p.grad.to_dense().clone() for name, p in named.items() if p.grad is not None}
    return dense, sum(share.item() for share in shares.values())


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.1, 0.6]),
    st.booleans(),
    st.integers(0, 99),
)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_uneven_micro_batches_equal_the_one_large_batch(
    sizes: list[int], share_marked: float, sparse: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    model, objective = Regressor(sparse=sparse), TwoTerms()
    rows = _rows(sum(sizes), share_marked, seed)
    ends = np.cumsum(sizes)
    whole, loss = _gradient(model, objective, [rows])
    cut, cut_loss = _gradient(model, objective, [rows[end - size : end] for size, end in zip(sizes, ends, strict=True)])
    assert cut_loss == pytest.approx(loss, abs=1e-6)
    assert whole.keys() == cut.keys()
    for name in whole:
        torch.testing.assert_close(cut[name], whole[name], atol=1e-6, rtol=1e-6)


def test_doubling_the_batch_changes_nothing() -> None:
    torch.manual_seed(0)
    model, objective = Regressor(), TwoTerms()
    rows = _rows(7, 0.5, 0)
    once, loss = _gradient(model, objective, [rows])
    twice, loss_twice = _gradient(model, objective, [rows + rows])
    assert loss_twice == pytest.approx(loss, abs=1e-6)
    for name in once:
        torch.testing.assert_close(twice[name], once[name], atol=1e-6, rtol=1e-6)


def test_a_term_without_weight_is_left_out() -> None:
    model, objective = Regressor(), TwoTerms()
    gradient, loss = _gradient(model, objective, [_rows(5, 0.0, 1)])
    assert math.isfinite(loss)
    assert "scale" not in gradient  # its only term had no weight
    assert all(bool(torch.isfinite(g).all()) for g in gradient.values())


def test_a_term_that_contradicts_its_batch_is_a_fault() -> None:
    class Contradicting(TwoTerms):
        def loss(self, model: Regressor, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:  # type: ignore[override]
            return {"all": Term(model(batch["ids"]).sum(), 1.0)}

    with pytest.raises(ValueError, match="the term all weighs"):
        _gradient(Regressor(), Contradicting(), [_rows(5, 0.0, 1)])


def test_rehearsal_leaves_no_trace() -> None:
    class WithBatchNorm(Regressor):
        def __init__(self) -> None:
            super().__init__(dropout=0.5)
            self.norm = nn.BatchNorm1d(8)

        def forward(self, ids: Tensor) -> Tensor:
            return self.out(self.dropout(self.norm(self.table(ids)))).squeeze(-1)

    model, objective = WithBatchNorm().eval(), TwoTerms()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random_before = torch.get_rng_state()
    shares = rehearsal(model, objective, _rows(6, 0.5, 0))  # type: ignore[arg-type]
    assert set(shares) == {"all", "marked"}
    assert torch.equal(torch.get_rng_state(), random_before)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in [*model.parameters(), *objective.parameters()])
    assert not model.training


@pytest.mark.parametrize("sparse", [False, True])
def test_clipping_bounds_the_norm_of_everything_together(sparse: bool) -> None:
    model, objective = Regressor(sparse=sparse), TwoTerms()
    gradient, _ = _gradient(model, objective, [_rows(9, 0.5, 3)])
    expected = math.sqrt(sum(float(g.double().square().sum()) for g in gradient.values()))
    optimizers = Optimizers(model, objective, Plan())
    norm = optimizers.gradient_norm()
    assert norm.item() == pytest.approx(expected, rel=1e-5)
    optimizers.scale_gradients(norm, expected / 4)
    assert optimizers.gradient_norm().item() == pytest.approx(expected / 4, rel=1e-4)
