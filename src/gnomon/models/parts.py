"""What a language model is made of, as a person sets it. No torch here: a command's settings hold it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

FamilyName = Literal["decoder", "encoder", "recurrent", "convolutional"]
PresetName = Literal["standard", "fast"]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a language model is made of; None is as preset, family and depth derive it. Names are Hugging Face's."""

    hidden_size: int | None = None
    """Width. Default: 32 a layer (recurrent: 64)."""
    num_hidden_layers: int | None = None
    """Layers. Default: the depth (recurrent: a third of it)."""
    num_attention_heads: int | None = None
    """Heads. Default: one for every 32 of width, for every 64 from a width of 512 on."""
    num_key_value_heads: int | None = None
    """Heads of keys and values, which several heads may share. Default: as many as heads."""
    intermediate_size: int | None = None
    """Width inside the feed-forward part. Default: 8/3 of the width where gated, else 4 times."""
    hidden_act: str | None = None
    """Activation: silu, relu2 (squared ReLU), gelu, relu ... Default: silu (fast: relu2)."""
    gated: bool | None = None
    """A gate in the feed-forward part: SwiGLU with silu. Default: yes (fast: no)."""
    position_embedding_type: Literal["rope", "learned", "sinusoidal", "alibi", "none"] | None = None
    """How positions enter. Default: rope."""
    norm: Literal["rms", "layer", "batch", "none"] | None = None
    """The norm. Default: rms."""
    norm_position: Literal["pre", "post"] | None = None
    """Norms before attention and feed-forward, or after. Default: pre."""
    qk_norm: bool | None = None
    """A norm of queries and keys. Default: yes."""
    embedding_norm: bool | None = None
    """A norm after the input tables. Default: no."""
    num_ngram_buckets: int | None = None
    """Rows of a table of hashed n-grams that is added to the input; 0 for none. Default: 0 (fast: 65,536)."""
    ngram_sizes: tuple[int, ...] | None = None
    """Which n-grams. Default: 2, 3 and 4."""
    tied: bool | None = None
    """The input table is the output matrix too. Default: where the table outweighs a quarter of the layers."""
    silent_start: bool | None = None
    """What is added to the residual stream starts at zero, and the output matrix too unless tied. Default: yes."""
    dropout: float | None = None
    """Share of numbers dropped in training. Default: 0."""
    cell: Literal["lstm", "gru", "rnn"] | None = None
    """Of a recurrent model. Default: lstm."""
    kernel_sizes: tuple[int, ...] | None = None
    """Of a convolutional model, side by side. Default: 2, 3, 4 and 5."""

    def given(self) -> dict[str, Any]:
        """The parts that are set."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: tuple(v) if isinstance(v, list) else v for name, v in named.items() if v is not None}
