"""The one dict of families: adding an architecture is one file beside this and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from gnomon.errors import GnomonError, did_you_mean
from gnomon.models.base import Backbone, HeadConfig
from gnomon.models.convolutional import ConvolutionalBackbone, ConvolutionalConfig
from gnomon.models.decoder import DecoderBackbone, DecoderConfig
from gnomon.models.encoder import EncoderBackbone, EncoderConfig
from gnomon.models.heads import LanguageHeadConfig, MaskedLanguageHeadConfig
from gnomon.models.modern_encoder import ModernEncoderBackbone, ModernEncoderConfig
from gnomon.models.recurrent import RecurrentBackbone, RecurrentConfig
from gnomon.models.static import StaticBackbone, StaticConfig


@dataclass(frozen=True)
class Family:
    """A config class, the backbone made from it, and the heads that suit it: for labels, and for language (or none)."""

    config: type[Any]
    backbone: Callable[[Any], Backbone]
    head: Callable[[Any], HeadConfig]
    language_head: Callable[[Any], LanguageHeadConfig | MaskedLanguageHeadConfig] | None = None


FAMILIES: dict[str, Family] = {
    "encoder": Family(
        EncoderConfig,
        EncoderBackbone,
        lambda c: HeadConfig("first", c.hidden_size, "tanh"),
        lambda c: MaskedLanguageHeadConfig(activation=c.hidden_act, norm_eps=c.layer_norm_eps),
    ),
    "modern_encoder": Family(
        ModernEncoderConfig,
        ModernEncoderBackbone,
        lambda c: HeadConfig("mean", c.hidden_size, "gelu"),
        lambda c: MaskedLanguageHeadConfig(True, c.hidden_activation, False, c.norm_eps, c.norm_bias),
    ),
    "decoder": Family(
        DecoderConfig,
        DecoderBackbone,
        lambda c: HeadConfig("last", dropout=c.resid_pdrop),
        lambda c: LanguageHeadConfig(),
    ),
    "recurrent": Family(
        RecurrentConfig,
        RecurrentBackbone,
        lambda c: HeadConfig("max", dropout=0.3),
        lambda c: LanguageHeadConfig(tied=c.embedding_size == c.hidden_size),
    ),
    "convolutional": Family(
        ConvolutionalConfig,
        ConvolutionalBackbone,
        lambda c: HeadConfig("max", dropout=0.3),
        lambda c: LanguageHeadConfig(tied=c.embedding_size == c.channels * len(c.kernel_sizes)),
    ),
    "static": Family(StaticConfig, StaticBackbone, lambda c: HeadConfig("mean", c.embedding_size, "relu", 0.3)),
}


def family_named(name: str) -> Family:
    """The family called `name`; raises GnomonError for an unknown one."""
    if name not in FAMILIES:
        raise GnomonError(f"unknown family {name!r}", did_you_mean(name, FAMILIES))
    return FAMILIES[name]


def parse_fields(kind: type[Any], values: Any, *, where: str) -> Any:
    """A config dataclass from JSON values (lists become tuples), each field's name and type checked.

    Raises GnomonError that names `where`, the field and its value.
    """
    if not isinstance(values, Mapping):
        raise GnomonError(f"{where}: the fields of {kind.__name__} are {values!r}", "expected an object")
    known = {item.name: item for item in fields(kind)}
    arguments = {}
    for name, value in values.items():
        if name not in known:
            raise GnomonError(f"{where}: unknown field {name!r}", did_you_mean(name, known))
        accepted, expected = _ACCEPTED[str(known[name].type)]
        arguments[name] = tuple(value) if isinstance(value, list) else value
        if not accepted(arguments[name]):
            raise GnomonError(f"{where}: {name} is {value!r}", f"expected {expected}")
    needed = [item.name for item in known.values() if item.default is item.default_factory is MISSING]
    lacking = [name for name in needed if name not in arguments]
    if lacking:
        raise GnomonError(f"{where} lacks {', '.join(lacking)}", "restore the file from where it came")
    return kind(**arguments)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_ACCEPTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (_is_count, "a whole number, 0 or more"),
    "int | None": (lambda value: value is None or _is_count(value), "a whole number, 0 or more, or null"),
    "float": (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "str": (lambda value: isinstance(value, str), "a text"),
    "Mapping[str, Any]": (lambda value: isinstance(value, Mapping), "an object"),
    "tuple[str, ...]": (
        lambda value: isinstance(value, tuple) and all(isinstance(item, str) for item in value),
        "a list of texts",
    ),
    "tuple[int, ...]": (lambda value: isinstance(value, tuple) and all(map(_is_count, value)), "whole numbers"),
}
