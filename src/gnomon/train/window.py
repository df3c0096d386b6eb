"""One accumulation window: the weights of its batches first, then the gradient of the one large batch they make."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.models.base import Model
from gnomon.objectives.base import Batch, Objective
from gnomon.train.plan import Precision
from gnomon.train.precision import forward_precision
from gnomon.train.randomness import preserved


def total_weights(batches: Sequence[Batch]) -> dict[str, float]:
    """The weight of each term over the window; where several processes train, the place to add up theirs."""
    totals: dict[str, float] = defaultdict(float)
    for batch in batches:
        for name, weight in batch.weights.items():
            totals[name] += weight
    return dict(totals)


def backward(
    model: Model, objective: Objective, batches: Sequence[Batch], totals: Mapping[str, float], precision: Precision
) -> dict[str, Tensor]:
    """Add the window's gradient to the parameters; give each term's share of the loss, a scalar that sums over batches.

    A batch without weight for a term is left out of that term, so 0/0 never arises.
    """
    shares: dict[str, Tensor] = {}
    for batch in batches:
        with forward_precision(precision, model.device):
            terms = objective.loss(model, batch.to(model.device), batch.weights)
        parts: dict[str, Tensor] = {}
        for name, term in terms.items():
            if term.weight != batch.weights[name]:
                raise ValueError(f"the term {name} weighs {term.weight}, its batch said {batch.weights[name]}")
            if term.weight:
                parts[name] = term.sum * (term.coefficient / totals[name])
        if not parts:
            continue
        torch.stack(list(parts.values())).sum().backward()  # type: ignore[no-untyped-call]
        for name, part in parts.items():
            shares[name] = part.detach() + shares[name] if name in shares else part.detach()
    return shares


def rehearsal(
    model: Model, objective: Objective, examples: Sequence[Any], precision: Precision = "float32"
) -> dict[str, float]:
    """One forward and backward pass that leaves no trace: no gradient, no update, no random number drawn.

    Gives each term's share of the loss. What an optimiser's step costs beside it, a measurement of threads may neglect.
    """
    batch = objective.collate(examples)
    modules: tuple[nn.Module, ...] = (model, objective)
    buffers = [(buffer, buffer.clone()) for module in modules for buffer in module.buffers()]
    modes = [module.training for module in modules]
    try:
        with preserved():
            for module in modules:
                module.train()
            shares = backward(model, objective, [batch], total_weights([batch]), precision)
            return {name: share.item() for name, share in shares.items()}
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.train(mode)
            module.zero_grad(set_to_none=True)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def all_finite(values: Iterable[float]) -> bool:
    """Whether none is infinite or not a number."""
    return all(map(math.isfinite, values))
