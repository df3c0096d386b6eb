"""What Hugging Face can express, and how: types, fields and tensor names. Plain dicts and arrays only.

Everything else is saved as `gnomon_<family>` with our own tensor names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gnomon.models import hf_decoders as decoders
from gnomon.models import hf_encoders as encoders
from gnomon.models import hf_modernbert as modernbert
from gnomon.models.hf_layout import Layout, Stored

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class HfType:
    """One Hugging Face type: the family that computes it, its tensor names, and functions between its config.json
    and our fields. `heads` are the kinds it knows, by the class that holds one; the first is what a folder has that
    names no class."""

    family: str
    layout: Layout
    heads: Mapping[str, str]
    fields: Callable[[Fields], dict[str, Any]]
    head: Callable[[Fields, str], dict[str, Any]]
    config: Callable[[Fields, Fields], dict[str, Any]]
    expressible: Callable[[Fields, Fields], bool]
    joined_rows: Callable[[Fields], Mapping[str, Sequence[int]]] = lambda fields: {}


def _decoder(model_type: str) -> HfType:
    return HfType(
        family="decoder",
        layout=decoders.DECODER_LAYOUTS[model_type],
        heads={decoders.ARCHITECTURES[model_type]: "language"},
        fields=decoders.decoder_fields,
        head=lambda config, kind: decoders.decoder_head(config),
        config=partial(decoders.decoder_config, model_type),
        expressible=partial(decoders.decoder_expressible, model_type),
        joined_rows=decoders.joined_rows,
    )


def _encoder(model_type: str) -> HfType:
    known = encoders.ENCODER_TYPES[model_type]
    return HfType(
        family="encoder",
        layout=known.layout,
        heads={name: kind for kind, name in known.architectures.items()},
        fields=encoders.encoder_fields,
        head=encoders.encoder_head,
        config=partial(encoders.encoder_config, model_type),
        expressible=partial(encoders.encoder_expressible, model_type),
    )


TYPES: dict[str, HfType] = {
    **{name: _encoder(name) for name in encoders.ENCODER_TYPES},
    **{name: _decoder(name) for name in decoders.DECODER_LAYOUTS},
    "modernbert": HfType(
        family="modern_encoder",
        layout=modernbert.MODERNBERT,
        heads={"ModernBertForMaskedLM": "masked_language"},
        fields=modernbert.modernbert_fields,
        head=lambda config, kind: modernbert.modernbert_head(config),
        config=modernbert.modernbert_config,
        expressible=modernbert.modernbert_expressible,
    ),
}
"""Every Hugging Face type that gnomon reads and writes."""


def hf_kind(config: Fields) -> str:
    """The kind of head in a Hugging Face folder: its class says, else what is usual for the type."""
    heads = TYPES[config["model_type"]].heads
    named = [heads[name] for name in config.get("architectures") or () if name in heads]
    return [*named, *heads.values()][0]


def hf_head(config: Fields, kind: str) -> dict[str, Any] | None:
    """The fields of a head of `kind` on a Hugging Face folder; None where the type has no such head."""
    known = TYPES[config["model_type"]]
    return known.head(config, kind) if kind in known.heads.values() else None


def hf_type(family: str, fields: Fields, head: Fields) -> str | None:
    """The Hugging Face type that expresses this model exactly, or None."""
    model_type = str(fields.get("model_type"))
    known = TYPES.get(model_type)
    if known is None or known.family != family or head["kind"] not in known.heads.values():
        return None
    return model_type if known.expressible(fields, head) else None


def to_hf_arrays(
    arrays: Mapping[str, np.ndarray], model_type: str, *, fields: Fields, kind: str
) -> dict[str, np.ndarray]:
    """`arrays` of a model with a head of `kind`, by our names, as Hugging Face names and shapes them."""
    known = TYPES[model_type]
    return known.layout.to_theirs(
        arrays, num_layers=fields["num_hidden_layers"], kind=kind, rows=known.joined_rows(fields)
    )


def from_hf_names(
    stored: Iterable[str], *, model_type: str, num_layers: int, kind: str
) -> tuple[dict[str, Stored], tuple[str, ...], tuple[str, ...]]:
    """Our name -> where it is stored; then stored names without a place here: of heads, and of the body."""
    return TYPES[model_type].layout.from_theirs(stored, num_layers=num_layers, kind=kind)
