"""Groups by kind of module, sparse tables, state by name, and what each optimiser's update is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.objectives.base import Objective
from gnomon.train.optimizers import Optimizers, RowAdam, parameter_groups
from gnomon.train.plan import Plan


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.grams = nn.Embedding(50, 4, sparse=True)
        self.gamma = nn.LayerNorm([2, 4])  # a norm whose weight is a matrix, under a name that says nothing
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.out = nn.Linear(4, 3)
        self.frozen = nn.Linear(4, 4)
        self.frozen.requires_grad_(False)
        self.tied = nn.Linear(4, 11, bias=False)
        self.tied.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        hidden, _ = self.lstm(self.gamma(self.table(ids) + self.grams(ids)))
        return self.out(hidden).sum(-1) + self.tied(hidden).mean()


class Projecting(Objective):
    def __init__(self) -> None:
        super().__init__()
        self.projection = nn.Linear(4, 2)


def test_groups_are_told_by_kind_of_module() -> None:
    groups = parameter_groups(Everything(), Projecting(), Plan(weight_decay=0.1))
    by_decay = {(group.weight_decay, group.sparse): set(group.parameters) for group in groups}
    assert by_decay == {
        (0.1, False): {
            "table.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "out.weight", "objective.projection.weight",
        },
        (0.0, False): {
            "gamma.weight", "gamma.bias", "lstm.bias_ih_l0", "lstm.bias_hh_l0", "out.bias", "objective.projection.bias",
        },
        (0.0, True): {"grams.weight"},
    }  # fmt: skip
    described = {group.sparse: group.describe() for group in groups}
    assert described[True] == {"tensors": 1, "numbers": 200, "weight_decay": 0.0, "rate_factor": 1.0, "sparse": True}


def test_rate_factors_by_module() -> None:
    plan = Plan(rate_factors={"out": 10.0, "objective.projection": 0.5, "lstm": 0.0})
    factors = {
        n: group.rate_factor for group in parameter_groups(Everything(), Projecting(), plan) for n in group.parameters
    }
    assert factors["out.weight"] == factors["out.bias"] == 10.0
    assert factors["objective.projection.weight"] == 0.5
    assert factors["table.weight"] == 1.0
    assert factors["lstm.weight_ih_l0"] == 0.0
    with pytest.raises(GnomonError, match="'outt'") as caught:
        parameter_groups(Everything(), Projecting(), Plan(rate_factors={"outt": 2.0}))
    assert "did you mean 'out'" in caught.value.hint


def test_nothing_to_train_is_refused() -> None:
    model = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(GnomonError, match="no parameter to train"):
        Optimizers(model, Objective(), Plan())


def _one_step(plan: Plan, weight: float, gradient: float, steps: int = 1) -> float:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, weight)
    optimizers = Optimizers(model, Objective(), plan)
    for _ in range(steps):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizers.step(1.0)
    return model.weight.item()


def test_updates_are_those_of_the_papers() -> None:
    assert _one_step(Plan(optimizer="sgd", learning_rate=0.1), 1.0, 2.0) == pytest.approx(1 - 0.1 * 2)
    momentum = Plan(optimizer="momentum", learning_rate=0.1, betas=(0.5, 0.9))
    assert _one_step(momentum, 1.0, 2.0, steps=2) == pytest.approx(1 - 0.1 * 2 - 0.1 * (2 + 0.5 * 2))
    # Adam's first step is rate x sign of the gradient, whatever its size.
    for gradient in (1e-3, 5.0):
        assert _one_step(Plan(optimizer="adam", learning_rate=0.1), 1.0, gradient) == pytest.approx(0.9, abs=1e-4)
    # AdamW decays the weight itself; L2 inside Adam is divided by the gradient's scale, so here it vanishes.
    decoupled = Plan(optimizer="adamw", learning_rate=0.1, weight_decay=0.5)
    assert _one_step(decoupled, 1.0, 1.0) == pytest.approx(1 - 0.1 * 0.5 - 0.1, abs=1e-4)
    inside = Plan(optimizer="adam_l2", learning_rate=0.1, weight_decay=0.5)
    assert _one_step(inside, 1.0, 1.0) == pytest.approx(0.9, abs=1e-4)


def test_rows_that_are_always_used_follow_adam_exactly() -> None:
    torch.manual_seed(0)
    sparse, dense = nn.Embedding(6, 3, sparse=True), nn.Embedding(6, 3)
    dense.load_state_dict(sparse.state_dict())
    rows = RowAdam([{"params": [sparse.weight]}], betas=(0.9, 0.99), eps=1e-8)
    adam = torch.optim.Adam(dense.parameters(), lr=0.01, betas=(0.9, 0.99), eps=1e-8)
    rows.param_groups[0]["lr"] = 0.01
    ids = torch.tensor([0, 1, 2, 3, 4, 5, 0, 0, 3])  # repeated ids add up
    for step in range(20):
        target = torch.sin(torch.arange(27.0).view(9, 3) + step)
        for table in (sparse, dense):
            table.weight.grad = None
            (table(ids) * target).sum().backward()
        rows.step()
        adam.step()
    torch.testing.assert_close(sparse.weight, dense.weight, atol=1e-6, rtol=1e-6)


def test_a_late_row_starts_as_any_other_and_unused_rows_stay() -> None:
    table = nn.Embedding(5, 2, sparse=True)
    nn.init.zeros_(table.weight)
    optimizer = RowAdam([{"params": [table.weight]}], betas=(0.9, 0.999), eps=1e-8)
    optimizer.param_groups[0]["lr"] = 0.01
    for step in range(50):
        table.weight.grad = None
        table(torch.tensor([0] if step < 49 else [0, 3])).sum().backward()
        optimizer.step()
    assert table.weight[3].tolist() == pytest.approx([-0.01, -0.01], abs=1e-6)  # one first step: rate x sign
    assert table.weight[[1, 2, 4]].abs().sum() == 0


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adam_l2", "adamw"])
def test_state_by_name_goes_on_bit_for_bit(optimizer: str) -> None:
    plan = Plan(optimizer=optimizer)  # type: ignore[arg-type]

    def make() -> tuple[Everything, Projecting, Optimizers]:
        torch.manual_seed(1)
        model, objective = Everything(), Projecting()
        return model, objective, Optimizers(model, objective, plan)

    def train(model: Everything, optimizers: Optimizers, steps: range) -> None:
        for step in steps:
            ids = torch.tensor([[1, 2], [step % 11, 4]])
            optimizers.zero_grad()
            model(ids).sum().backward()
            optimizers.step(1.0 / (step + 1))

    model, _, optimizers = make()
    train(model, optimizers, range(4))
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = {name: value.clone() for name, value in optimizers.state().items()}
    train(model, optimizers, range(4, 8))

    again, _, fresh = make()
    again.load_state_dict(weights)
    fresh.load(state)
    train(again, fresh, range(4, 8))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
