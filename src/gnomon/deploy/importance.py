"""How much each column of a matrix matters: the mean square of what it is multiplied with, over some text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from gnomon.models.base import Model

Importance = dict[str, npt.NDArray[np.float32]]
"""Mean squares [I] of the inputs of a matrix [O, I], by its name."""


def observe(model: Model, rows: Sequence[Sequence[int]], names: Sequence[str]) -> Importance:
    """The importance of the columns of the matrices `names` when the model reads `rows` of ids."""
    sums: dict[str, Tensor] = {}
    with _watched(model, names, sums), torch.inference_mode():
        for row in rows:
            model.backbone(torch.tensor([list(row)], device=model.device))
    count = sum(map(len, rows))
    return {name: (total / count).cpu().numpy() for name, total in sums.items()}


@contextmanager
def _watched(model: Model, names: Sequence[str], sums: dict[str, Tensor]) -> Iterator[None]:
    def watcher(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def watch(module: nn.Module, given: tuple[Tensor, ...]) -> None:
            squares = given[0].flatten(0, -2).float().square().sum(dim=0)
            sums[name] = sums[name] + squares if name in sums else squares

        return watch

    hooks = []
    for name in names:
        reader = name.removesuffix(".weight").removesuffix(".gate_up")  # a joined matrix is not called, but its owner
        hooks.append(model.get_submodule(reader).register_forward_pre_hook(watcher(name)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
