"""Students: what they are called, what they may be told, what their training takes, how a command line writes them."""

from __future__ import annotations

import dataclasses
import re
import typing
from dataclasses import dataclass
from typing import Any, ClassVar

from gnomon.errors import GnomonError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a student's training takes: how many augmented copies of each text, and the plan's main figures."""

    copies: int
    epochs: int
    batch_size: int
    learning_rate: float


@dataclass(frozen=True, kw_only=True)
class EncoderOptions:
    """Some of the teacher's own layers."""

    family: ClassVar[str] = "encoder"
    effort: ClassVar[Effort] = Effort(copies=8, epochs=1, batch_size=32, learning_rate=3e-4)

    num_layers: int = 2
    """How many, spread evenly from the first to the last."""
    layers: tuple[int, ...] | None = None
    """Which, counted from 0, instead of `num_layers`."""
    dropout: float = 0.1
    """Dropout everywhere."""


@dataclass(frozen=True, kw_only=True)
class RecurrentOptions:
    """A recurrent network over the teacher's projected word vectors."""

    family: ClassVar[str] = "recurrent"
    effort: ClassVar[Effort] = Effort(copies=12, epochs=3, batch_size=128, learning_rate=4e-3)

    cell: str = "lstm"
    """rnn, lstm or gru."""
    embedding_size: int = 128
    """Features of a token vector; at most as many as the teacher's have."""
    hidden_size: int = 128
    """Features in each direction."""
    num_hidden_layers: int = 1
    """Layers."""
    pooling: str = "max"
    """max, attention, mean or last."""
    dropout: float = 0.2
    """Dropout of the vectors, and between layers."""
    head_dropout: float = 0.3
    """Dropout before the last layer."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionalOptions:
    """Convolutions of several widths over the teacher's projected word vectors, pooled by their maximum."""

    family: ClassVar[str] = "convolutional"
    effort: ClassVar[Effort] = Effort(copies=12, epochs=3, batch_size=128, learning_rate=3e-3)

    embedding_size: int = 128
    """Features of a token vector; at most as many as the teacher's have."""
    channels: int = 128
    """Filters of each width."""
    kernel_sizes: tuple[int, ...] = (2, 3, 4)
    """Widths, in tokens."""
    num_hidden_layers: int = 1
    """Layers."""
    dropout: float = 0.1
    """Dropout of the vectors, and between layers."""
    head_dropout: float = 0.3
    """Dropout before the last layer."""


@dataclass(frozen=True, kw_only=True)
class StaticOptions:
    """One vector a token, taken from the teacher's output for that token alone, and their weighted mean."""

    family: ClassVar[str] = "static"
    effort: ClassVar[Effort] = Effort(copies=12, epochs=6, batch_size=256, learning_rate=4e-3)

    embedding_size: int = 256
    """Features of a token vector; at most as many as the teacher's have."""
    ngrams: tuple[int, ...] = ()
    """Sizes of the token n-grams that get vectors of their own, by hash."""
    buckets: int = 32768
    """Rows of the n-gram table."""
    dense_size: int = 256
    """Units between the mean and the labels."""
    dropout: float = 0.0
    """Share of positions left out in training."""
    head_dropout: float = 0.3
    """Dropout before the last layer."""


Options = EncoderOptions | RecurrentOptions | ConvolutionalOptions | StaticOptions
_FAMILIES: dict[str, type[Options]] = {
    options.family: options for options in (EncoderOptions, RecurrentOptions, ConvolutionalOptions, StaticOptions)
}


@dataclass(frozen=True)
class StudentSpec:
    """A student by the name it has in tables and folders."""

    name: str
    options: Options

    @property
    def family(self) -> str:
        """The family of its backbone."""
        return self.options.family

    @property
    def effort(self) -> Effort:
        """What its training takes unless the user says otherwise."""
        return self.options.effort


FRONTIER = (
    StudentSpec("static", StaticOptions()),
    StudentSpec("static-ngrams", StaticOptions(ngrams=(2,))),
    StudentSpec("convolutional", ConvolutionalOptions()),
    StudentSpec("recurrent", RecurrentOptions()),
    StudentSpec("encoder-2", EncoderOptions(num_layers=2)),
    StudentSpec("encoder-3", EncoderOptions(num_layers=3)),
)
"""The students a frontier has unless told otherwise, cheapest first."""

_NAMED = {spec.name: spec for spec in FRONTIER}


def parse_student(text: str) -> StudentSpec:
    """`encoder-3`, `static`, `encoder:layers=0,5`, `recurrent:cell=gru,hidden_size=64` as a StudentSpec.

    Raises GnomonError for an unknown family, an unknown option, or a value of the wrong kind.
    """
    if text in _NAMED:
        return _NAMED[text]
    family, _, rest = text.partition(":")
    if family not in _FAMILIES:
        raise GnomonError(f"unknown student {family!r}", did_you_mean(family, {*_FAMILIES, *_NAMED}))
    options = _FAMILIES[family]
    hints = typing.get_type_hints(options)
    names = [field.name for field in dataclasses.fields(options)]
    given = _pairs(rest, where=text)
    for name in given:
        if name not in names:
            raise GnomonError(f"{family} students have no option {name!r}", did_you_mean(name, names))
    made = options(**{name: _value(hints[name], value, where=f"{text}: {name}") for name, value in given.items()})
    default = next((spec for spec in _NAMED.values() if spec.options == made), None)
    return default or StudentSpec(re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-"), made)


def _pairs(rest: str, *, where: str) -> dict[str, str]:
    """`a=1,b=2,3` as {a: "1", b: "2,3"}: a comma parts two options, or two items of one."""
    pairs: dict[str, str] = {}
    name = ""
    for item in rest.split(",") if rest else ():
        before, equals, after = item.partition("=")
        if equals:
            name = before.strip()
            pairs[name] = after.strip()
        elif name:
            pairs[name] += f",{item.strip()}"
        else:
            raise GnomonError(f"{where!r}: {item!r} is not an option", "write FAMILY:OPTION=VALUE,OPTION=VALUE")
    return pairs


def _value(kind: Any, text: str, *, where: str) -> Any:
    """`text` as a field's type: a word, a count, a share, or whole numbers with commas between them."""
    wanted = typing.get_args(kind)[0] if type(None) in typing.get_args(kind) else kind
    try:
        if typing.get_origin(wanted) is tuple:
            return tuple(int(item) for item in text.split(","))
        value = wanted(text)
    except ValueError:
        value = None
    if value is None or (wanted is int and value < 1) or (wanted is float and not 0 <= value < 1):
        expected = {int: "a whole number above 0", float: "a share from 0 to below 1"}
        raise GnomonError(
            f"{where} is {text!r}", f"expected {expected.get(wanted, 'whole numbers with commas between them')}"
        )
    return value
