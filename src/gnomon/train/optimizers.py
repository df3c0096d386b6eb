"""Parameter groups by kind of module, torch's fused optimisers, Muon, and Adam for the rows of sparse tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from gnomon.errors import GnomonError, did_you_mean
from gnomon.train.distributed import World
from gnomon.train.muon import Muon, blocks_of
from gnomon.train.plan import Plan

_NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm1d)
OBJECTIVE = "objective."
BACKBONE = "backbone."


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are treated alike: by name, their weight decay, their factor of the rate, and whether sparse.

    `blocks`, for a group of Muon's, are the rows of each parameter's matrices, in the order of `parameters`.
    """

    parameters: Mapping[str, nn.Parameter]
    weight_decay: float
    rate_factor: float
    sparse: bool
    blocks: tuple[list[int], ...] = ()

    def describe(self) -> dict[str, Any]:
        """What a log says of the group."""
        return {
            "tensors": len(self.parameters),
            "numbers": sum(parameter.numel() for parameter in self.parameters.values()),
            "weight_decay": self.weight_decay,
            "rate_factor": self.rate_factor,
            "sparse": self.sparse,
            **({"muon": True} if self.blocks else {}),
        }


class RowAdam(torch.optim.Optimizer):
    """Adam on the rows of an embedding table that a batch used; the others cost nothing and keep their moments.

    Each row counts its own steps, so its first update is corrected as any parameter's. (torch.optim.SparseAdam corrects
    by the table's count, which makes the first update of a late row about three times too large.)
    """

    def __init__(self, groups: Iterable[dict[str, Any]], *, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, {"lr": 0.0, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every table that has a (sparse) gradient."""
        for group in self.param_groups:
            for table in group["params"]:
                if table.grad is not None:
                    self._update(table, group["lr"], group["betas"], group["eps"])

    def _update(self, table: Tensor, rate: float, betas: tuple[float, float], eps: float) -> None:
        state = self.state[table]
        if not state:
            state["first"] = torch.zeros_like(table)
            state["second"] = torch.zeros_like(table)
            state["row_steps"] = table.new_zeros(table.shape[0], 1)
        gradient = table.grad.coalesce()  # type: ignore[union-attr]
        rows, values = gradient.indices()[0], gradient.values()
        steps = state["row_steps"][rows] + 1
        first = state["first"][rows].lerp_(values, 1 - betas[0])
        second = state["second"][rows].lerp_(values.square(), 1 - betas[1])
        for name, value in (("row_steps", steps), ("first", first), ("second", second)):
            state[name].index_copy_(0, rows, value)
        scale = (second / (1 - betas[1] ** steps)).sqrt_().add_(eps)
        table.index_add_(0, rows, (first / (1 - betas[0] ** steps)).div_(scale), alpha=-rate)


class Optimizers:
    """The dense and the row-wise optimiser of one training as one; state by parameter name."""

    def __init__(self, model: nn.Module, objective: nn.Module, plan: Plan) -> None:
        self.groups = parameter_groups(model, objective, plan)
        if not self.groups:
            raise GnomonError("the model has no parameter to train", "all of them are frozen")
        self._rate = plan.learning_rate
        self.parameters = {name: value for group in self.groups for name, value in group.parameters.items()}
        dense = [_settings(group) for group in self.groups if not group.sparse and not group.blocks]
        matrices = [_settings(group) | {"blocks": group.blocks} for group in self.groups if group.blocks]
        sparse = [_settings(group) for group in self.groups if group.sparse]
        self._optimizers: list[torch.optim.Optimizer] = []
        if dense:
            self._optimizers.append(_DENSE[plan.optimizer](dense, plan))
        if matrices:
            self._optimizers.append(Muon(matrices, momentum=plan.muon_momentum))
        if sparse:
            self._optimizers.append(RowAdam(sparse, betas=plan.betas, eps=plan.epsilon))

    def step(self, factor: float) -> None:
        """Update every parameter at `factor` of the peak rate."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self._rate * factor * group["rate_factor"]
            optimizer.step()

    def zero_grad(self) -> None:
        """Drop all gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def exchange(self, world: World, shares: dict[str, Tensor], totals: Mapping[str, float]) -> None:
        """Sum gradients, and each term's share of the loss, over the processes of `world`; `totals` names the terms."""
        if world.size == 1 or not any(totals.values()):
            return
        for name, weight in totals.items():
            if weight and name not in shares:
                shares[name] = torch.zeros(())
        chosen = {
            sparse: [p for group in self.groups if group.sparse is sparse for p in group.parameters.values()]
            for sparse in (False, True)
        }
        ordered = {name: shares[name] for name in sorted(shares)}
        world.sum_gradients(chosen[False], chosen[True], ordered)
        shares.update(ordered)

    def gradient_norm(self) -> Tensor:
        """The norm of all gradients together, a scalar; sparse ones are coalesced on the way."""
        return get_total_norm(list(self._gradients()))

    def scale_gradients(self, norm: Tensor, limit: float) -> None:
        """Scale all gradients, whose norm together is `norm`, so that it is `limit` at most."""
        clip_grads_with_norm_(
            [p for p in self.parameters.values() if p.grad is not None and not p.grad.is_sparse], limit, norm
        )
        for parameter in self.parameters.values():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad.values().mul_(torch.clamp(limit / (norm + 1e-6), max=1.0))

    def state(self) -> dict[str, Tensor]:
        """Every state tensor as `parameter/kind`."""
        return {
            f"{name}/{kind}": value.detach().cpu()
            for name, parameter in self.parameters.items()
            for optimizer in self._optimizers
            for kind, value in optimizer.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        owner = {id(p): o for o in self._optimizers for group in o.param_groups for p in group["params"]}
        for key, value in state.items():
            name, _, kind = key.rpartition("/")
            parameter = self.parameters[name]
            owner[id(parameter)].state[parameter][kind] = value.to(parameter.device)

    def _gradients(self) -> Iterator[Tensor]:
        for parameter in self.parameters.values():
            if parameter.grad is None:
                continue
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                yield parameter.grad.values()
            else:
                yield parameter.grad


def parameter_groups(model: nn.Module, objective: nn.Module, plan: Plan) -> list[Group]:
    """The trained parameters of both, in groups of equal decay, rate and kind.

    Decay holds for matrices. Modules that normalise, vectors and scalars (biases, gains) and sparse tables,
    whose unused rows must cost nothing, have none; which is which is told by the module, never by a name. Muon's are
    the matrices of the backbone's linear, recurrent and convolutional layers.
    """
    members: dict[tuple[float, float, bool, bool], dict[str, nn.Parameter]] = defaultdict(dict)
    blocks: dict[str, list[int]] = {}
    unused = set(plan.rate_factors)
    seen: set[int] = set()
    for name, module, parameter in _owned(model, objective):
        if id(parameter) in seen or not parameter.requires_grad:
            continue
        seen.add(id(parameter))
        sparse = isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse
        decayed = parameter.ndim >= 2 and not sparse and not isinstance(module, _NORMS)
        prefix = max((p for p in plan.rate_factors if name.startswith(f"{p}.")), key=len, default="")
        unused.discard(prefix)
        rate = plan.rate_factors.get(prefix, 1.0)
        parts = blocks_of(module, parameter) if plan.optimizer == "muon" and name.startswith(BACKBONE) else None
        if parts is not None:
            blocks[name] = parts
        elif plan.optimizer == "muon":
            rate *= plan.rest_rate_factor
        members[plan.decay if decayed else 0.0, rate, sparse, parts is not None][name] = parameter
    if unused:
        word = sorted(unused)[0]
        modules = {name.rpartition(".")[0] for name, _, _ in _owned(model, objective)}
        raise GnomonError(
            f"rate_factors names {word!r}, which is no module with parameters", did_you_mean(word, modules)
        )
    return [
        Group(parameters, decay, rate, sparse, tuple(blocks[name] for name in parameters if name in blocks))
        for (decay, rate, sparse, _), parameters in members.items()
    ]


def _owned(model: nn.Module, objective: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Parameter]]:
    for prefix, root in (("", model), (OBJECTIVE, objective)):
        for path, module in root.named_modules():
            for name, parameter in module.named_parameters(recurse=False):
                yield f"{prefix}{path}{'.' if path else ''}{name}", module, parameter


def _settings(group: Group) -> dict[str, Any]:
    return {
        "params": list(group.parameters.values()),
        "weight_decay": group.weight_decay,
        "rate_factor": group.rate_factor,
    }


def _sgd(groups: list[dict[str, Any]], plan: Plan, *, momentum: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=plan.learning_rate, momentum=momentum, fused=True)


def _adam(
    groups: list[dict[str, Any]], plan: Plan, *, kind: type[torch.optim.Adam] | type[torch.optim.AdamW]
) -> torch.optim.Optimizer:
    return kind(groups, lr=plan.learning_rate, betas=plan.betas, eps=plan.epsilon, fused=True)


_DENSE: Mapping[str, Callable[[list[dict[str, Any]], Plan], torch.optim.Optimizer]] = {
    "sgd": lambda groups, plan: _sgd(groups, plan, momentum=0.0),
    "momentum": lambda groups, plan: _sgd(groups, plan, momentum=plan.betas[0]),
    "adam": lambda groups, plan: _adam(groups, plan, kind=torch.optim.Adam),
    "adam_l2": lambda groups, plan: _adam(groups, plan, kind=torch.optim.Adam),
    "adamw": lambda groups, plan: _adam(groups, plan, kind=torch.optim.AdamW),
    "muon": lambda groups, plan: _adam(groups, plan, kind=torch.optim.AdamW),  # what Muon leaves
}
