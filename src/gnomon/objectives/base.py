"""The seam between what is learnt and the engine that learns it.

An objective gives sums and weights, never means. The weight of each term is known from the batch
before any forward pass, so the engine can total it over an accumulation window and over all
processes, and accumulation, uneven batches and many processes stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from gnomon.models.base import Model


@dataclass(frozen=True, slots=True)
class Batch:
    """Numpy arrays by name, first dimension B, and the weight of each loss term in this batch."""

    arrays: Mapping[str, np.ndarray]
    weights: Mapping[str, float]

    def to(self, device: torch.device) -> dict[str, Tensor]:
        """The arrays as tensors on `device`; on the CPU they share memory."""
        return {name: torch.from_numpy(array).to(device) for name, array in self.arrays.items()}


@dataclass(frozen=True, slots=True)
class Term:
    """One part of the loss: a scalar sum over the batch, its weight, and its share of the total.

    The total loss of a window is the sum over terms of `coefficient * sum(sums) / sum(weights)`.
    """

    sum: Tensor
    weight: float
    coefficient: float = 1.0


class Objective(nn.Module):
    """Batches, refusals and loss terms. It may own parameters (a learned projection): those are
    trained and checkpointed with it and are never part of a model folder."""

    def collate(self, examples: Sequence[Any]) -> Batch:
        """Pad `examples` into arrays and count each term's weight."""
        raise NotImplementedError

    def check(self, model: Model) -> None:
        """Refuse, with a GnomonError, what cannot be trained; called before step 1."""

    def loss(self, model: Model, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:
        """The terms of one micro-batch; `batch` holds the collated arrays as tensors on the model's device."""
        raise NotImplementedError

    def evaluate(self, model: Model, batches: Sequence[Sequence[Any]]) -> dict[str, float]:
        """Metrics over `batches` of examples, streamed; the model is in evaluation mode, gradients off."""
        raise NotImplementedError

    def warnings(self) -> tuple[str, ...]:
        """What the last evaluation found that a person should know; nothing by default."""
        return ()
