"""Model folders as models: any Hugging Face folder of a type in `hf_names.TYPES`, or one of ours.

`read_folder` gives configuration and arrays by our tensor names (what `deploy/` builds from); `load_model` makes the
torch model of them with a label head, `load_language_model` with a language head.
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
from gnomon.formats.modeldir import ModelDir, end_ids, label_names, read_model_dir, resolve
from gnomon.models.base import Backbone, HeadConfig, LoadReport, Model
from gnomon.models.families import FAMILIES, family_named, parse_fields
from gnomon.models.heads import HEADS, AnyHeadConfig
from gnomon.models.hf_layout import Stored
from gnomon.models.hf_names import TYPES, from_hf_names, hf_head, hf_kind
from gnomon.nn.init import Uninitialised
from gnomon.text.tokenizer import Tokenizer

_DEFAULT_MAX_LENGTH = 512
_UNLIMITED = 1 << 20  # tokens; for a recurrent or convolutional language model that sets no limit itself
_PLACEHOLDER = re.compile(r"LABEL_\d+")


class NamedArrays(Mapping[str, np.ndarray]):
    """Arrays by our names, read from the folder when asked for."""

    def __init__(self, source: LazyArrays, stored: Mapping[str, Stored]) -> None:
        self._source = source
        self.stored = dict(stored)

    def __getitem__(self, name: str) -> np.ndarray:
        place = self.stored[name]
        parts = [self._source[theirs].T if place.transposed else self._source[theirs] for theirs in place.names]
        return np.ascontiguousarray(parts[0]) if len(parts) == 1 else np.concatenate(parts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one array, without reading it."""
        place = self.stored[name]
        shapes = [self._source.shape(theirs)[:: -1 if place.transposed else 1] for theirs in place.names]
        return sum(shape[0] for shape in shapes), *shapes[0][1:]


@dataclass(frozen=True)
class Folder:
    """A model folder understood: `config` is the family's dataclass, `arrays` go by our names.

    `labels` is empty when it names none ("LABEL_0" is no name); `max_length` None when it sets none; `end_ids` are the
    tokens by which a language model ends a text, empty where only the tokenizer says. `foreign_heads` and `strangers`
    are stored tensors without a place in this model: of another head, and of the body.
    """

    path: Path
    family: str
    config: Any
    head: AnyHeadConfig
    labels: tuple[str, ...]
    max_length: int | None
    end_ids: tuple[int, ...]
    arrays: NamedArrays
    foreign_heads: tuple[str, ...]
    strangers: tuple[str, ...]


def read_folder(path: Path | str, *, kind: str | None = None) -> Folder:
    """Read a model folder (or a hub name) into configuration and arrays by our names; no torch module is made.

    `kind` asks for a head of that kind ("label", "language", "masked_language"); None: the stored one. Raises
    GnomonError for a missing or damaged folder and for a type of model that gnomon does not know.
    """
    stored = read_model_dir(resolve(path))
    where = str(stored.path / "config.json")
    section = stored.gnomon
    theirs = stored.model_type in TYPES
    if theirs:
        family, fields = TYPES[stored.model_type].family, TYPES[stored.model_type].fields(stored.config)
    elif stored.model_type.startswith("gnomon_"):
        family, fields = str(section.get("family")), section.get("config") or {}
    else:
        known = [*TYPES, *(f"gnomon_{family}" for family in FAMILIES)]
        raise GnomonError(f"{where}: unknown model_type {stored.model_type!r}", did_you_mean(stored.model_type, known))
    config = parse_fields(family_named(family).config, fields, where=where)
    own = section.get("head") or {}
    stored_kind = hf_kind(stored.config) if theirs and not own else "label"
    if isinstance(own, Mapping):
        stored_kind = str(own.get("kind", stored_kind))
        own = {name: value for name, value in own.items() if name != "kind"}
    kind = kind or stored_kind
    if kind not in HEADS:
        raise GnomonError(f"{where}: unknown kind of head {kind!r}", did_you_mean(kind, HEADS))
    head: AnyHeadConfig
    if own and kind == stored_kind:
        head = parse_fields(HEADS[kind], own, where=where)
    else:
        given = hf_head(stored.config, kind) if theirs else None
        suits = family_named(family)
        default = suits.head(config) if kind == "label" or suits.language_head is None else suits.language_head(config)
        head = default if given is None else parse_fields(HEADS[kind], given, where=where)
    arrays, heads, body = _named_arrays(stored, config, kind=kind, stored_kind=stored_kind)
    labels = label_names(stored.config)
    return Folder(
        path=stored.path,
        family=family,
        config=config,
        head=head,
        labels=() if all(_PLACEHOLDER.fullmatch(name) for name in labels) else labels,
        max_length=_max_length(section, where=where),
        end_ids=end_ids(stored.path, stored.config),
        arrays=arrays,
        foreign_heads=heads,
        strangers=body,
    )


def _named_arrays(
    stored: ModelDir, config: Any, *, kind: str, stored_kind: str
) -> tuple[NamedArrays, tuple[str, ...], tuple[str, ...]]:
    if stored.model_type in TYPES:
        names, heads, body = from_hf_names(
            stored.arrays, model_type=stored.model_type, num_layers=config.num_hidden_layers, kind=kind
        )
        return NamedArrays(stored.arrays, names), heads, body
    foreign = tuple(name for name in stored.arrays if kind != stored_kind and name.startswith("head."))
    return NamedArrays(stored.arrays, {n: Stored((n,)) for n in stored.arrays if n not in foreign}), foreign, ()


def _max_length(section: Mapping[str, Any], *, where: str) -> int | None:
    value = section.get("max_length")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise GnomonError(f"{where}: max_length is {value!r}", "expected a whole number above 0")
    return value


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
    folder = read_folder(path, kind="label")
    names, order = _label_order(folder, labels)
    asked = folder.head if head is None else head
    new = "head." if _is_other(asked, folder.head) else "head.out." if order is None else None
    model, tensors = _built(folder, asked, labels=names, max_length=max_length, new=new)
    if order is not None:
        tensors |= {name: tensors[name][order] for name in ("head.out.weight", "head.out.bias") if name in tensors}
    model.load_state_dict(tensors, strict=False, assign=True)
    return model.eval()


def load_language_model(path: Path | str, *, max_length: int | None = None) -> Model:
    """The model of a folder with its language head, in evaluation mode, float32: `logits` are [B, T, V].

    A causal family gives the next token, an encoder the token under a mask. `max_length` None: as stored, else the
    model's context. Raises GnomonError as `load_model` does, and where the folder holds no language head.
    """
    folder = read_folder(path)
    if isinstance(folder.head, HeadConfig):
        suits = family_named(folder.family).language_head
        if suits is not None:
            folder = read_folder(path, kind=suits(folder.config).kind)
        if isinstance(folder.head, HeadConfig) or not any(name.startswith("head.") for name in folder.arrays):
            raise GnomonError(
                f"{folder.path} is no language model: it holds no weights of a language head",
                "name the folder of a language model, or make one (gnomon pretrain)",
            )
    model, tensors = _built(folder, folder.head, max_length=max_length)
    model.load_state_dict(tensors, strict=False, assign=True)
    return model.eval()


def _built(
    folder: Folder,
    head: AnyHeadConfig,
    *,
    labels: Sequence[str] = (),
    max_length: int | None,
    new: str | None = None,
) -> tuple[Model, dict[str, torch.Tensor]]:
    """The model of `folder` and the tensors to put in it; those whose names begin with `new` start anew."""
    tokenizer = Tokenizer.from_dir(folder.path)
    with Uninitialised():
        backbone: Backbone = family_named(folder.family).backbone(folder.config)
    if max_length is None:
        text_length = _DEFAULT_MAX_LENGTH if isinstance(head, HeadConfig) else None
        max_length = folder.max_length or _default_max_length(tokenizer, backbone.max_positions, text_length)
    model = Model(backbone, head, tokenizer=tokenizer, labels=labels, max_length=max_length)
    model.end_ids = folder.end_ids or model.end_ids
    if tokenizer.vocab_size > backbone.token_embedding.num_embeddings:
        raise GnomonError(
            f"{folder.path}: the tokenizer has {tokenizer.vocab_size} tokens, "
            f"the model only {backbone.token_embedding.num_embeddings} rows for them",
            "tokenizer.json and model.safetensors are not of one model: restore them from where they came",
        )
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    used = [name for name in expected if name in folder.arrays and not (new and name.startswith(new))]
    model.load_report = _checked(folder, expected, used, new_head=new is not None)
    return model, {name: torch.from_numpy(folder.arrays[name]).float() for name in used}


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


def _is_other(asked: AnyHeadConfig, stored: AnyHeadConfig) -> bool:
    """Whether `asked` has other tensors than `stored`, or puts them to another use."""
    if not isinstance(asked, HeadConfig) or not isinstance(stored, HeadConfig):
        return type(asked) is not type(stored)
    return (asked.pooling, asked.dense_size, asked.activation) != (
        stored.pooling,
        stored.dense_size,
        stored.activation,
    )


def _checked(
    folder: Folder, expected: Mapping[str, tuple[int, ...]], used: Sequence[str], *, new_head: bool
) -> LoadReport:
    """What is unused and missing; refuses wrong shapes, and gaps and leftovers beside the head."""
    stored = {name: str(place) for name, place in folder.arrays.stored.items()}
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


def _default_max_length(tokenizer: Tokenizer, *limits: int | None) -> int:
    """The smallest of what the model, the tokenizer and we set; a large number where nobody does."""
    declared = tokenizer.config.get("model_max_length")
    limits = (*limits, declared if isinstance(declared, int) and declared > 0 else None)
    return min((limit for limit in limits if limit is not None), default=_UNLIMITED)
