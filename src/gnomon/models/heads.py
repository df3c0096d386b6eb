"""The heads a model can have: what each is made of, and its module on a given backbone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from gnomon.errors import GnomonError
from gnomon.nn.heads import LabelHead
from gnomon.nn.language_heads import LanguageHead, MaskedLanguageHead


@dataclass(frozen=True)
class HeadConfig:
    """The label head: `pooling` is first, mean, max, attention or last; `dense_size` None means no dense layer."""

    kind: ClassVar[str] = "label"
    pooling: str = "first"
    dense_size: int | None = None
    activation: str = "tanh"
    dropout: float = 0.1
    input_dropout: float = 0.0


@dataclass(frozen=True)
class LanguageHeadConfig:
    """The scores of the next token; `tied` uses the input table as the output matrix."""

    kind: ClassVar[str] = "language"
    tied: bool = True
    bias: bool = False


@dataclass(frozen=True)
class MaskedLanguageHeadConfig:
    """BERT's head for masked tokens: dense layer, activation, LayerNorm, then the (tied) output matrix."""

    kind: ClassVar[str] = "masked_language"
    tied: bool = True
    activation: str = "gelu"
    dense_bias: bool = True
    norm_eps: float = 1e-12
    norm_bias: bool = True
    bias: bool = True


AnyHeadConfig = HeadConfig | LanguageHeadConfig | MaskedLanguageHeadConfig
AnyHead = LabelHead | LanguageHead | MaskedLanguageHead

HEADS: Mapping[str, type[HeadConfig] | type[LanguageHeadConfig] | type[MaskedLanguageHeadConfig]] = {
    config.kind: config for config in (HeadConfig, LanguageHeadConfig, MaskedLanguageHeadConfig)
}


def make_head(config: AnyHeadConfig, *, size: int, table: nn.Embedding, num_labels: int) -> AnyHead:
    """The module of `config` for hidden vectors of `size`; `table` [V, E] is the backbone's input table.

    Raises GnomonError for tying a table that is not as wide as the hidden vectors.
    """
    if isinstance(config, HeadConfig):
        return LabelHead(
            size,
            num_labels,
            pooling=config.pooling,
            dense_size=config.dense_size,
            act=config.activation,
            dropout=config.dropout,
            input_dropout=config.input_dropout,
        )
    if config.tied and table.embedding_dim != size:
        raise GnomonError(
            f"the input table is {table.embedding_dim} wide and the hidden vectors {size}: they cannot be tied",
            "make them equally wide, or set tied = false",
        )
    tied_to = table if config.tied else None
    if isinstance(config, LanguageHeadConfig):
        return LanguageHead(size, table.num_embeddings, tied_to=tied_to, bias=config.bias)
    return MaskedLanguageHead(
        size,
        table.num_embeddings,
        tied_to=tied_to,
        act=config.activation,
        dense_bias=config.dense_bias,
        norm_eps=config.norm_eps,
        norm_bias=config.norm_bias,
        bias=config.bias,
    )
