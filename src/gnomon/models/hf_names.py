"""What Hugging Face can express, and how: types, fields and tensor names. Plain dicts and arrays only.

Everything else is saved as `gnomon_<family>` with our own tensor names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gnomon.models.hf_decoders import (
    DECODER_LAYOUTS,
    decoder_config,
    decoder_expressible,
    decoder_fields,
    decoder_head,
    joined_rows,
)
from gnomon.models.hf_encoders import (
    ENCODER_TYPES,
    encoder_config,
    encoder_expressible,
    encoder_fields,
    encoder_head,
)
from gnomon.models.hf_layout import Layout, Stored

LAYOUTS: dict[str, Layout] = {name: known.layout for name, known in ENCODER_TYPES.items()} | DECODER_LAYOUTS
"""Every Hugging Face type that gnomon reads and writes."""


def family_of(model_type: str) -> str:
    """The family that computes a Hugging Face type."""
    return "encoder" if model_type in ENCODER_TYPES else "decoder"


def hf_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of our configuration from a Hugging Face config.json; GnomonError for what we do not compute."""
    return encoder_fields(config) if config["model_type"] in ENCODER_TYPES else decoder_fields(config)


def hf_kind(config: Mapping[str, Any]) -> str:
    """The kind of head in a Hugging Face folder: its architecture says, else a decoder's is the language head."""
    if config["model_type"] not in ENCODER_TYPES:
        return "language"
    named = {name: kind for kind, name in ENCODER_TYPES[config["model_type"]].architectures.items()}
    return next((named[name] for name in config.get("architectures") or () if name in named), "label")


def hf_head(config: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """The fields of a head of `kind` on a Hugging Face folder; None where the type has no such head."""
    if config["model_type"] in ENCODER_TYPES:
        return encoder_head(config, kind) if kind in ("label", "masked_language") else None
    return decoder_head(config) if kind == "language" else None


def hf_type(family: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> str | None:
    """The Hugging Face type that expresses this model exactly, or None."""
    model_type = str(fields.get("model_type"))
    if family == "encoder" and model_type in ENCODER_TYPES:
        return model_type if encoder_expressible(model_type, fields, head) else None
    if family == "decoder" and model_type in DECODER_LAYOUTS:
        return model_type if decoder_expressible(model_type, fields, head) else None
    return None


def hf_config(model_type: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a Hugging Face model, without label names and special tokens."""
    if model_type in ENCODER_TYPES:
        return encoder_config(model_type, fields, head)
    return decoder_config(model_type, fields, head)


def to_hf_arrays(
    arrays: Mapping[str, np.ndarray], model_type: str, *, fields: Mapping[str, Any], head: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """`arrays`, by our names, as Hugging Face names and shapes them."""
    rows = joined_rows(fields) if model_type in DECODER_LAYOUTS else {}
    return LAYOUTS[model_type].to_theirs(arrays, num_layers=fields["num_hidden_layers"], kind=head["kind"], rows=rows)


def from_hf_names(
    stored: Iterable[str], *, model_type: str, num_layers: int, kind: str
) -> tuple[dict[str, Stored], tuple[str, ...], tuple[str, ...]]:
    """Our name -> where it is stored; then stored names without a place here: of heads, and of the body."""
    return LAYOUTS[model_type].from_theirs(stored, num_layers=num_layers, kind=kind)
