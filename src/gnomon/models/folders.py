"""Model folders as models: any Hugging Face BERT, DistilBERT or RoBERTa folder, or one of ours.

`read_folder` gives configuration and arrays by our tensor names (what `deploy/` builds from);
`load_model` makes the torch model of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnomon.errors import GnomonError, did_you_mean
from gnomon.formats.arrays import LazyArrays
from gnomon.formats.modeldir import ModelDir, label_names, read_model_dir, resolve
from gnomon.models.base import HeadConfig, LoadReport, Model
from gnomon.models.families import FAMILIES, family_named, parse_fields
from gnomon.models.hf_names import LAYOUTS, encoder_fields, from_hf_names, head_fields
from gnomon.nn.init import Uninitialised
from gnomon.text.tokenizer import Tokenizer

_DEFAULT_MAX_LENGTH = 512
_PLACEHOLDER = re.compile(r"LABEL_\d+")


class NamedArrays(Mapping[str, np.ndarray]):
    """Arrays by our names, read from the folder when asked for."""

    def __init__(self, source: LazyArrays, stored_names: Mapping[str, str]) -> None:
        self._source = source
        self.stored_names = dict(stored_names)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._source[self.stored_names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored_names)

    def __len__(self) -> int:
        return len(self.stored_names)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one array, without reading it."""
        return self._source.shape(self.stored_names[name])


@dataclass(frozen=True)
class Folder:
    """A model folder understood: `config` is the family's dataclass, `arrays` go by our names.

    `labels` is empty when it names none ("LABEL_0" is no name); `max_length` None when it sets none. `foreign_heads`
    and `strangers` are stored tensors without a place in this model: of another head, and of the body.
    """

    path: Path
    family: str
    config: Any
    head: HeadConfig
    labels: tuple[str, ...]
    max_length: int | None
    arrays: NamedArrays
    foreign_heads: tuple[str, ...]
    strangers: tuple[str, ...]


def read_folder(path: Path | str) -> Folder:
    """Read a model folder (or a hub name) into configuration and arrays by our names; no torch module is made.

    Raises GnomonError for a missing or damaged folder and for a type of model that gnomon does not know.
    """
    stored = read_model_dir(resolve(path))
    where = str(stored.path / "config.json")
    section = stored.gnomon
    if stored.model_type in LAYOUTS:
        family = "encoder"
        fields, head = encoder_fields(stored.config), section.get("head") or head_fields(stored.config)
    elif stored.model_type.startswith("gnomon_"):
        family, fields, head = str(section.get("family")), section.get("config") or {}, section.get("head") or {}
    else:
        known = [*LAYOUTS, *(f"gnomon_{family}" for family in FAMILIES)]
        raise GnomonError(f"{where}: unknown model_type {stored.model_type!r}", did_you_mean(stored.model_type, known))
    max_length = section.get("max_length")
    if not (max_length is None or (isinstance(max_length, int) and max_length > 0)):
        raise GnomonError(f"{where}: max_length is {max_length!r}", "expected a whole number above 0")
    config = parse_fields(family_named(family).config, fields, where=where)
    arrays, heads, body = _named_arrays(stored, config)
    labels = label_names(stored.config)
    return Folder(
        path=stored.path,
        family=family,
        config=config,
        head=parse_fields(HeadConfig, head, where=where),
        labels=() if all(_PLACEHOLDER.fullmatch(name) for name in labels) else labels,
        max_length=max_length,
        arrays=arrays,
        foreign_heads=heads,
        strangers=body,
    )


def _named_arrays(stored: ModelDir, config: Any) -> tuple[NamedArrays, tuple[str, ...], tuple[str, ...]]:
    if stored.model_type in LAYOUTS:
        names, heads, body = from_hf_names(
            stored.arrays, model_type=stored.model_type, num_layers=config.num_hidden_layers
        )
        return NamedArrays(stored.arrays, names), heads, body
    return NamedArrays(stored.arrays, {name: name for name in stored.arrays}), (), ()


def load_model(
    path: Path | str,
    *,
    labels: Sequence[str] | None = None,
    head: HeadConfig | None = None,
    max_length: int | None = None,
) -> Model:
    """The model of a folder, in evaluation mode, float32.

    `labels` None: as stored. The same names as stored: the stored head, its rows put into the given order. Other
    names: a new classifier (a stored dense layer before it is kept). `head` of another shape: a wholly new head.
    `model.load_report` lists unused and missing tensors; anything amiss beside the head raises a GnomonError, as
    does a tensor whose shape config.json contradicts.
    """
    folder = read_folder(path)
    tokenizer = Tokenizer.from_dir(folder.path)
    names, order = _label_order(folder, labels)
    with Uninitialised():
        backbone = family_named(folder.family).backbone(folder.config)
    if max_length is None:
        max_length = folder.max_length or _default_max_length(tokenizer, backbone.max_positions)
    model = Model(backbone, head or folder.head, tokenizer=tokenizer, labels=names, max_length=max_length)
    if tokenizer.vocab_size > backbone.token_embedding.num_embeddings:
        raise GnomonError(
            f"{folder.path}: the tokenizer has {tokenizer.vocab_size} tokens, "
            f"the model only {backbone.token_embedding.num_embeddings} rows for them",
            "tokenizer.json and model.safetensors are not of one model: restore them from where they came",
        )
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    new = "head." if _is_other(head, folder.head) else "head.out." if order is None else None
    used = [name for name in expected if name in folder.arrays and not (new and name.startswith(new))]
    model.load_report = _checked(folder, expected, used, new_head=new is not None)
    tensors = {name: torch.from_numpy(folder.arrays[name]).float() for name in used}
    if order is not None:
        tensors |= {name: tensors[name][order] for name in ("head.out.weight", "head.out.bias") if name in tensors}
    model.load_state_dict(tensors, strict=False, assign=True)
    return model.eval()


def _label_order(folder: Folder, labels: Sequence[str] | None) -> tuple[tuple[str, ...], list[int] | None]:
    """Label names, and which stored row of the classifier each takes; None where it starts anew."""
    rows = folder.arrays.shape("head.out.weight")[0] if "head.out.weight" in folder.arrays else 0
    stored = folder.labels or tuple(f"LABEL_{index}" for index in range(rows))
    if labels is None:
        if not rows:
            raise GnomonError(
                f"{folder.path} is no classifier: it holds no weights of a label head",
                "tune it on labelled text first (gnomon tune)",
            )
        if len(stored) != rows:
            raise GnomonError(
                f"{folder.path / 'config.json'} names {len(stored)} labels, and the classifier has {rows} rows",
                "give id2label one name for each row",
            )
        return stored, list(range(rows))
    if len(stored) != rows or sorted(labels) != sorted(folder.labels):
        return tuple(labels), None
    return tuple(labels), [stored.index(name) for name in labels]


def _is_other(asked: HeadConfig | None, stored: HeadConfig) -> bool:
    """Whether `asked` has other tensors than `stored`, or puts them to another use."""
    return asked is not None and (asked.pooling, asked.dense_size, asked.activation) != (
        stored.pooling,
        stored.dense_size,
        stored.activation,
    )


def _checked(
    folder: Folder, expected: Mapping[str, tuple[int, ...]], used: Sequence[str], *, new_head: bool
) -> LoadReport:
    """What is unused and missing; refuses wrong shapes, and gaps and leftovers beside the head."""
    stored = folder.arrays.stored_names
    for name in used:
        if folder.arrays.shape(name) != expected[name]:
            raise GnomonError(
                f"{folder.path}: the tensor {stored[name]} has the shape {list(folder.arrays.shape(name))}, "
                f"config.json asks for {list(expected[name])}",
                "config.json and model.safetensors are not of one model: restore them from where they came",
            )
    missing = tuple(name for name in expected if name not in used)
    lacking = [name for name in missing if not (new_head and name.startswith("head."))]
    unused = [name for name in folder.arrays if name not in used]
    leftover = [*(stored[name] for name in unused if not name.startswith("head.")), *folder.strangers]
    if lacking or leftover:
        raise GnomonError(
            f"{folder.path}: model.safetensors does not fit config.json: "
            + "; ".join(
                f"{what} {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
                for what, names in (("it lacks", lacking), ("the model does not use", leftover))
                if names
            ),
            "restore the folder from where it came",
        )
    return LoadReport((*(stored[name] for name in unused), *folder.foreign_heads), missing)


def _default_max_length(tokenizer: Tokenizer, max_positions: int | None) -> int:
    declared = tokenizer.config.get("model_max_length")
    limits = [max_positions, declared if isinstance(declared, int) and declared > 0 else None]
    return min([_DEFAULT_MAX_LENGTH, *(limit for limit in limits if limit is not None)])
