"""Which of Hugging Face's tensors is which of ours, as tables read both ways. Plain names and arrays only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Theirs = str | tuple[str, ...]
"""A module of theirs; or several, whose rows stand one after the other in ours."""

_OLD_NAMES = {"gamma": "weight", "beta": "bias"}  # LayerNorm's, of folders converted from TensorFlow


@dataclass(frozen=True)
class Stored:
    """Where one of our tensors lies in a folder: the tensors whose rows it joins, each [in, out] if `transposed`."""

    names: tuple[str, ...]
    transposed: bool = False

    def __str__(self) -> str:
        return " + ".join(self.names)


@dataclass(frozen=True)
class Layout:
    """The tensor names of one Hugging Face type; tables map modules, ours to theirs.

    `prefix` stands before the names of the bare model, `body` and `layer` are below it; `heads` holds full names by
    kind of head, and may name a single tensor ("out.weight"). `transposed`: the layers' matrices are stored [in, out].
    Tensors with an ending of `unread` are counters, no weights.
    """

    prefix: str
    body: Mapping[str, str]
    layer_prefix: str
    layer: Mapping[str, Theirs]
    heads: Mapping[str, Mapping[str, str]]
    transposed: bool = False
    unread: tuple[str, ...] = ()

    def modules(self, num_layers: int, kind: str) -> dict[str, tuple[str, ...]]:
        """Modules (and single tensors) of a model with a head of `kind`, ours to theirs."""
        table: dict[str, tuple[str, ...]] = {}
        for ours, theirs in self.body.items():
            table[f"backbone.{ours}"] = (f"{self.prefix}.{theirs}",)
        for index in range(num_layers):
            place = f"{self.prefix}.{self.layer_prefix}.{index}"
            for ours, joined in self.layer.items():
                several = (joined,) if isinstance(joined, str) else joined
                table[f"backbone.layers.{index}.{ours}"] = tuple(f"{place}.{name}" for name in several)
        for ours, theirs in self.heads.get(kind, {}).items():
            table[f"head.{ours}"] = (theirs,)
        return table

    def to_theirs(
        self,
        arrays: Mapping[str, np.ndarray],
        *,
        num_layers: int,
        kind: str,
        rows: Mapping[str, Sequence[int]],
    ) -> dict[str, np.ndarray]:
        """`arrays` by our names under theirs; `rows` says how many rows each part of a joined module has."""
        modules = self.modules(num_layers, kind)
        result: dict[str, np.ndarray] = {}
        for name, array in arrays.items():
            if name in modules:
                result[modules[name][0]] = array
                continue
            module, _, part = name.rpartition(".")
            names = modules[module]
            pieces = [array] if len(names) == 1 else np.split(array, np.cumsum(rows[_in_layer(module)])[:-1])
            for theirs, piece in zip(names, pieces, strict=True):
                result[f"{theirs}.{part}"] = piece.T if self._turned(module, piece.ndim) else piece
        return result

    def from_theirs(
        self, stored: Iterable[str], *, num_layers: int, kind: str
    ) -> tuple[dict[str, Stored], tuple[str, ...], tuple[str, ...]]:
        """Our name -> where it is stored; then stored names without a place here: of heads, and of the body.

        Folders of the bare model (`BertModel`) lack the type's prefix; that is understood.
        """
        names = [name for name in stored if not name.endswith(self.unread)]
        bare = not any(name.startswith(f"{self.prefix}.") for name in names)
        modules = self.modules(num_layers, kind)
        owner = {theirs: (ours, n) for ours, several in modules.items() for n, theirs in enumerate(several)}
        parts: dict[tuple[str, str], dict[int, str]] = {}
        strangers: list[str] = []
        for name in names:
            full = f"{self.prefix}.{name}" if bare and not self._is_head(name) else name
            module, _, part = full.rpartition(".")
            if full in owner:
                parts[owner[full][0], ""] = {0: name}
            elif module in owner:
                ours, number = owner[module]
                parts.setdefault((ours, f".{_OLD_NAMES.get(part, part)}"), {})[number] = name
            else:
                strangers.append(name)
        found: dict[str, Stored] = {}
        for (ours, part), given in parts.items():
            if len(given) == len(modules[ours]):
                joined = tuple(given[number] for number in sorted(given))
                found[f"{ours}{part}"] = Stored(joined, part == ".weight" and self._turned(ours, 2))
            else:
                strangers.extend(given.values())
        heads = [x for x in strangers if "pooler." in x or not (bare or x.startswith(f"{self.prefix}."))]
        return found, tuple(heads), tuple(x for x in strangers if x not in heads)

    def _is_head(self, name: str) -> bool:
        return any(
            name.startswith(f"{theirs}.") or name == theirs for head in self.heads.values() for theirs in head.values()
        )

    def _turned(self, module: str, ndim: int) -> bool:
        return self.transposed and ndim == 2 and ".layers." in module and not module.endswith("norm")


def _in_layer(module: str) -> str:
    """`backbone.layers.3.attention.qkv` -> `attention.qkv`."""
    return module.split(".", 3)[-1]
