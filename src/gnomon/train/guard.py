"""What to say when a loss or a gradient is no longer finite: where it first went wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.objectives.base import Batch, Objective
from gnomon.train.optimizers import OBJECTIVE
from gnomon.train.plan import Plan
from gnomon.train.randomness import preserved
from gnomon.train.window import backward, total_weights


def not_finite(
    model: Model,
    objective: Objective,
    batches: Sequence[Batch],
    plan: Plan,
    *,
    step: int,
    shares: Mapping[str, float],
    kept: str,
) -> GnomonError:
    """The error for a window whose loss or gradient is not finite; the weights are those before its update.

    `kept` says which checkpoint is whole. The window is computed once more under watch to find the first culprit.
    """
    bad = [name for name, value in shares.items() if not math.isfinite(value)]
    what = f"the loss term {bad[0]} is {shares[bad[0]]}" if bad else "the loss is finite but its gradient is not"
    culprit = _first_culprit(model, objective, batches, plan)
    return GnomonError(
        f"training stopped before update {step}: {what}; first not finite: {culprit}",
        f"lower learning_rate (now {plan.learning_rate:g}) or set clip_norm (now {plan.clip_norm}); {kept}",
    )


def _first_culprit(model: Model, objective: Objective, batches: Sequence[Batch], plan: Plan) -> str:
    named = [*model.named_parameters(), *((f"{OBJECTIVE}{n}", p) for n, p in objective.named_parameters())]
    for name, parameter in named:
        if not bool(torch.isfinite(parameter).all()):
            return f"the weights {name}"
    for _, parameter in named:
        parameter.grad = None
    watch = _Watch({"": model, OBJECTIVE: objective})
    try:
        with preserved():
            backward(model, objective, batches, total_weights(batches), plan.precision)
    finally:
        watch.remove()
    if watch.found:
        return watch.found[0]
    gradients = [name for name, parameter in named if parameter.grad is not None and not _finite(parameter.grad)]
    return f"the gradient of {gradients[-1]}" if gradients else "the loss itself, outside of any module"


class _Watch:
    """Notes every module output, and every gradient of one, that is not finite, in the order of computation."""

    def __init__(self, named_roots: Mapping[str, nn.Module]) -> None:
        self.found: list[str] = []
        self._handles = [
            module.register_forward_hook(partial(self._note_output, f"{prefix}{name}"))
            for prefix, root in named_roots.items()
            for name, module in root.named_modules()
            if name
        ]

    def remove(self) -> None:
        """Let the modules go."""
        for handle in self._handles:
            handle.remove()

    def _note_output(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        for tensor in output if isinstance(output, tuple) else (output,):
            if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
                continue
            if not _finite(tensor.detach()):
                self.found.append(f"the output of {name}")
            if tensor.requires_grad:
                tensor.register_hook(partial(self._note_gradient, name))  # type: ignore[no-untyped-call]

    def _note_gradient(self, name: str, gradient: Tensor) -> None:
        if not _finite(gradient):
            self.found.append(f"the gradient at the output of {name}")


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor.coalesce().values() if tensor.is_sparse else tensor).all())
