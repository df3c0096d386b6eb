"""Several processes that train one model (torchrun): each takes a share of every batch, and all take the same step.

Losses and gradients are sums over totals of all processes, so any number of them makes the same updates. Torch's
DistributedDataParallel averages, which is another thing when shares weigh differently; this is its exchange alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnomon.runs import Run

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class World:
    """The processes of one training: this one is `rank` of `size`. The first one leads: it alone writes and speaks."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the run and measures it."""
        return self.rank == 0

    def share(self, examples: Sequence[T]) -> Sequence[T]:
        """This process's part of a batch; may be empty."""
        return examples if self.size == 1 else examples[self.rank :: self.size]

    def totals(self, weights: Mapping[str, float]) -> dict[str, float]:
        """Each name's sum over all processes, in one order everywhere."""
        if self.size == 1:
            return dict(weights)
        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, dict(weights))
        names = sorted({name for each in everyone for name in each})
        return {name: sum(each.get(name, 0.0) for each in everyone) for name in names}

    def first(self, text: str) -> str:
        """The first text that is not empty, of all processes'; empty where none is."""
        if self.size == 1:
            return text
        everyone: list[Any] = [None] * self.size
        dist.all_gather_object(everyone, text)
        return next((str(each) for each in everyone if each), "")

    def told(self, value: T) -> T:
        """What the first process has for `value`."""
        if self.size == 1:
            return value
        box: list[Any] = [value]
        dist.broadcast_object_list(box, src=0)
        told: T = box[0]
        return told

    def sum_gradients(
        self, dense: Sequence[nn.Parameter], tables: Sequence[nn.Parameter], shares: dict[str, Tensor]
    ) -> None:
        """Sum the gradients and the terms' `shares` of the loss over all processes, in place; a gradient that a process
        lacks counts as zero. `tables` are those whose gradients are sparse."""
        if self.size == 1:
            return
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in dense]
        parts = [*gradients, *(share.reshape(1) for share in shares.values())]
        flat = torch.cat([part.reshape(-1) for part in parts])
        dist.all_reduce(flat)
        pieces = torch.split(flat, [part.numel() for part in parts])
        for parameter, piece in zip(dense, pieces, strict=False):
            parameter.grad = piece.view_as(parameter)
        for name, piece in zip(list(shares), pieces[len(dense) :], strict=True):
            shares[name] = piece[0]
        for table in tables:
            own = table.grad if table.grad is not None else torch.zeros_like(table).to_sparse(1)
            table.grad = own.coalesce()
            dist.all_reduce(table.grad)

    def leave(self) -> None:
        """End the exchange when all processes have come so far.

        A process that ends while the exchange's own threads still drop what Python made may be aborted by them.
        """
        if self.size > 1:
            dist.barrier()
            dist.destroy_process_group()


def join() -> World:
    """The world that torchrun made, or that of this process alone."""
    if "TORCHELASTIC_RUN_ID" not in os.environ and "LOCAL_RANK" not in os.environ:
        return World()
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    return World(dist.get_rank(), dist.get_world_size())


class Followed(Run):
    """The run as all processes but the first see it: to read, not to write."""

    def log(self, record: Mapping[str, Any]) -> None:
        """Nothing: the first process logs."""

    def update(self, **fields: Any) -> None:
        """Nothing: the first process keeps the record."""

    def settle(self, **choices: Any) -> None:
        """Nothing: the first process keeps the record."""

    def rewind(self, step: int) -> None:
        """Nothing: the first process keeps the record."""
