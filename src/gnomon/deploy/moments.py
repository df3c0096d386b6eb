"""What a matrix is multiplied with: the second moments of its inputs over some text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gnomon.models.base import Model

_AT_ONCE = 1 << 27  # numbers in memory together: 512 MB


class Moments:
    """E[x x^T], float32 [I, I], of the inputs x of each matrix [O, I] when a model reads `rows` of ids.

    What is asked for first is computed for as many matrices as fit into half a gigabyte; asked for in the order of
    `names`, each comes once.
    """

    def __init__(self, model: Model, rows: Sequence[Sequence[int]], names: Sequence[str]) -> None:
        self._model = model
        self._rows = rows
        self._groups = list(_groups(model, names))
        self._known: dict[str, Tensor] = {}

    def of(self, name: str) -> Tensor | None:
        """Those of one matrix; None for one that is not among the names."""
        group = next((one for one in self._groups if name in one), None)
        if group is not None and name not in self._known:
            self._known = {}
            self._known = _observe(self._model, self._rows, group)
        return self._known.get(name)


def _groups(model: Model, names: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    size = 0
    for name in names:
        numbers = model.get_parameter(name).shape[1] ** 2
        if group and size + numbers > _AT_ONCE:
            yield group
            group, size = [], 0
        group.append(name)
        size += numbers
    if group:
        yield group


def _observe(model: Model, rows: Sequence[Sequence[int]], names: Sequence[str]) -> dict[str, Tensor]:
    sums: dict[str, Tensor] = {}
    with _watched(model, names, sums), torch.inference_mode():
        for row in rows:
            model.backbone(torch.tensor([list(row)], device=model.device))
    count = sum(map(len, rows))
    return {name: (total / count).cpu() for name, total in sums.items()}


@contextmanager
def _watched(model: Model, names: Sequence[str], sums: dict[str, Tensor]) -> Iterator[None]:
    def watcher(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def watch(module: nn.Module, given: tuple[Tensor, ...]) -> None:
            inputs = given[0].flatten(0, -2).float()
            if name in sums:
                sums[name].addmm_(inputs.T, inputs)
            else:
                sums[name] = inputs.T @ inputs

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
