"""The causal Transformer: Llama, Qwen2 and Qwen3, Mistral, GPT-2, and our own variations.

Tensor names: `tokens.weight`, `positions.weight` (learned positions), `ngrams.table.weight`, `embedding_norm.*`,
`layers.N.attention.{qkv,output}.*`, `layers.N.attention.{query,key}_norm.weight`, `layers.N.attention_norm.*`,
`layers.N.feedforward.{gate_up | up}.*`, `layers.N.feedforward.down.*`, `layers.N.feedforward_norm.*`, `final_norm.*`.
`qkv` holds the rows of queries, keys and values in this order, `gate_up` those of gate and up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError, did_you_mean
from gnomon.models.base import Backbone, Output, Taps, named_tap
from gnomon.nn.decoder_block import DecoderBlock
from gnomon.nn.embeddings import NgramEmbedding, refuse_long_texts
from gnomon.nn.feedforward import FeedForward, GatedFeedForward
from gnomon.nn.grouped_attention import GroupedAttention, Reading
from gnomon.nn.init import init_residual_transformer
from gnomon.nn.masks import attention_bias
from gnomon.nn.norms import make_norm
from gnomon.nn.positions import POSITIONS, Positions, PositionTable, alibi_bias, sinusoidal, take, token_positions
from gnomon.nn.rope import rotary, rotation_of
from gnomon.nn.state import KeyValues, Memory, State, Vectors

SLIDING = "sliding_attention"


@dataclass(frozen=True)
class DecoderConfig:
    """Fields are Hugging Face's, those of Llama's configuration where types differ.

    `num_key_value_heads` and `head_dim` None: as many as heads, and hidden_size / heads. `gated` is SwiGLU's kind of
    feed-forward, else up, activation, down. `position_embedding_type` is rope, learned, sinusoidal, alibi or none;
    `rope_parameters` are `nn.rope.rotary`'s. `sliding_window` limits the layers that `layer_types` calls
    "sliding_attention" (all, where it is empty) to so many columns. `num_ngram_buckets` adds a table of hashed n-grams
    of ids to the input. `model_type` names the type it is saved as, where that type expresses it.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    gated: bool = True
    max_position_embeddings: int = 2048
    position_embedding_type: str = "rope"
    rope_parameters: Mapping[str, Any] = field(default_factory=lambda: {"rope_type": "default", "rope_theta": 10000.0})
    norm: str = "rms"
    norm_eps: float = 1e-6
    norm_position: str = "pre"
    embedding_norm: bool = False
    qk_norm: bool = False
    attention_bias: bool = False
    attention_output_bias: bool = False
    mlp_bias: bool = False
    sliding_window: int | None = None
    layer_types: tuple[str, ...] = ()
    attention_dropout: float = 0.0
    embd_pdrop: float = 0.0
    resid_pdrop: float = 0.0
    num_ngram_buckets: int = 0
    ngram_sizes: tuple[int, ...] = (2,)
    pad_token_id: int | None = None
    initializer_range: float = 0.02
    model_type: str = "gnomon_decoder"

    @property
    def head_size(self) -> int:
        """The width of one head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Each layer's sliding window, None where it sees everything."""
        types = self.layer_types or (SLIDING,) * self.num_hidden_layers
        return tuple(self.sliding_window if kind == SLIDING else None for kind in types)


class DecoderBackbone(Backbone):
    """Tokens (and positions), a stack of blocks, a last norm; every position sees itself and those before."""

    family = "decoder"
    causal = True
    can_step = True

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        _check(config)
        self.config = config
        self.hidden_size = config.hidden_size
        self.max_positions = config.max_position_embeddings
        self.head_std = config.initializer_range
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        learned = config.position_embedding_type == "learned"
        self.positions = nn.Embedding(config.max_position_embeddings, config.hidden_size) if learned else None
        self.ngrams: NgramEmbedding | None = None
        if config.num_ngram_buckets:
            self.ngrams = NgramEmbedding(config.num_ngram_buckets, config.hidden_size, sizes=config.ngram_sizes)
        norm = config.norm if config.embedding_norm else "none"
        self.embedding_norm = make_norm(norm, config.hidden_size, eps=config.norm_eps)
        self.embedding_dropout = nn.Dropout(config.embd_pdrop)
        self.layers = nn.ModuleList(_block(config) for _ in range(config.num_hidden_layers))
        norm = config.norm if config.norm_position == "pre" else "none"
        self.final_norm = make_norm(norm, config.hidden_size, eps=config.norm_eps)
        self._table = _formula(config)
        init_residual_transformer(self.layers, std=config.initializer_range)
        for table in (self.tokens, self.positions):
            if table is not None:
                nn.init.normal_(table.weight, std=config.initializer_range)

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, D]."""
        return self.tokens

    def init_state(self) -> State:
        """An empty state, for any number of rows."""
        memories: list[Memory] = [KeyValues() for _ in self.layers]
        return State(memories if self.ngrams is None else [*memories, Vectors()])

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        taps: Taps | None = None,
    ) -> Output:
        """`ids`, `mask`, `documents` [B, T] -> hidden [B, T, D]. Taps: embeddings, layers.N, layers.N.attention."""
        return Output(self._hidden(ids, mask, documents, state, taps), state)

    def last(self, ids: Tensor, *, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """[B, T] -> [B, 1, D]: of the last layer only the keys and values of the other positions are computed."""
        return self._hidden(ids, mask, None, state, None, last_only=True)[:, -1:]  # a stack without layers cuts nothing

    def _hidden(
        self,
        ids: Tensor,
        mask: Tensor | None,
        documents: Tensor | None,
        state: State | None,
        taps: Taps | None,
        *,
        last_only: bool = False,
    ) -> Tensor:
        rows, length = ids.shape
        past, seen = 0, mask
        before: int | Tensor = 0
        memories: Sequence[Memory | None] = [None] * (len(self.layers) + 1)
        if state is not None:
            past, before, memories = state.length, state.counts, state.memories
            seen = state.seen(mask, rows=rows, length=length)
        positions = token_positions(length, mask=mask, documents=documents, past=before)
        x = self._embed(ids, positions, mask, documents, past + length, memories[-1])
        readings = self._readings(x, positions, seen, documents, past)
        if taps is not None:
            taps("embeddings", x)
        for index, layer in enumerate(self.layers):
            see = None if taps is None else named_tap(taps, f"layers.{index}.attention")
            cut = last_only and index == len(self.layers) - 1
            x = layer(x, readings[index], memory=memories[index], see_weights=see, last_only=cut)
            if taps is not None:
                taps(f"layers.{index}", x)
        if state is not None:
            state.advance(length, seen)
        hidden: Tensor = self.final_norm(x)
        return hidden

    def _embed(
        self,
        ids: Tensor,
        positions: Positions,
        mask: Tensor | None,
        documents: Tensor | None,
        bound: int,
        recent: Memory | None,
    ) -> Tensor:
        """What the stack begins with [B, T, D]; positions are below `bound`."""
        x: Tensor = self.tokens(ids)
        if self.ngrams is not None:
            real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
            x = x + self.ngrams(ids, real, documents=documents, recent=recent)
        if self.positions is not None:
            refuse_long_texts(positions, bound=bound, limit=self.config.max_position_embeddings)
            x = x + take(self.positions.weight, positions)
        elif self._table is not None and self.config.position_embedding_type == "sinusoidal":
            x = x * self.hidden_size**0.5 + self._table.at(positions, bound=bound, like=x)
        result: Tensor = self.embedding_dropout(self.embedding_norm(x))
        return result

    def _readings(
        self, x: Tensor, positions: Positions, seen: Tensor | None, documents: Tensor | None, past: int
    ) -> list[Reading]:
        """What each layer needs to know of the pass, made once for each kind of layer."""
        kind, length = self.config.position_embedding_type, x.shape[1]
        rotation, slopes = None, None
        if kind == "rope" and self._table is not None:
            rotation = rotation_of(self._table.at(positions, bound=past + length, like=x))
        if kind == "alibi":
            slopes = alibi_bias(self.config.num_attention_heads, length=length, past=past, like=x)
        made: dict[int | None, Reading] = {}
        windows = [None if w is None or w >= past + length else w for w in self.config.windows]
        for window in windows:
            if window in made:
                continue
            plain = seen is None and documents is None and window is None and slopes is None
            if plain and (past == 0 or length == 1):
                made[window] = Reading(causal=length > 1, rotation=rotation, past=past)
                continue
            bias = attention_bias(
                seen,
                length=length,
                causal=True,
                dtype=x.dtype,
                past=past,
                documents=documents,
                window=window,
                device=x.device,
            )
            made[window] = Reading(_sum(bias, slopes), rotation=rotation, past=past)
        return [made[window] for window in windows]


def _check(config: DecoderConfig) -> None:
    kind = config.position_embedding_type
    if kind not in POSITIONS:
        raise GnomonError(f"unknown position_embedding_type {kind!r}", did_you_mean(kind, POSITIONS))
    if config.head_dim is None and config.hidden_size % config.num_attention_heads:
        raise GnomonError(
            f"{config.num_attention_heads} heads do not divide the width {config.hidden_size}",
            "choose a number of heads that does, or set head_dim",
        )
    if config.layer_types and len(config.layer_types) != config.num_hidden_layers:
        raise GnomonError(
            f"layer_types names {len(config.layer_types)} layers of {config.num_hidden_layers}", "name every layer"
        )


def _block(config: DecoderConfig) -> DecoderBlock:
    attention = GroupedAttention(
        config.hidden_size,
        config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads or config.num_attention_heads,
        head_size=config.head_size,
        bias=config.attention_bias,
        output_bias=config.attention_output_bias,
        qk_norm_eps=config.norm_eps if config.qk_norm else None,
        dropout=config.attention_dropout,
    )
    kind = GatedFeedForward if config.gated else FeedForward
    return DecoderBlock(
        attention,
        kind(config.hidden_size, config.intermediate_size, act=config.hidden_act, bias=config.mlp_bias),
        size=config.hidden_size,
        norm=config.norm,
        norm_eps=config.norm_eps,
        norm_position=config.norm_position,
        dropout=config.resid_pdrop,
    )


def _formula(config: DecoderConfig) -> PositionTable | None:
    if config.position_embedding_type == "sinusoidal":
        return sinusoidal(config.hidden_size)
    if config.position_embedding_type == "rope":
        return rotary(config.head_size, config.rope_parameters, max_positions=config.max_position_embeddings)
    return None


def _sum(bias: Tensor | None, slopes: Tensor | None) -> Tensor | None:
    return slopes if bias is None else bias if slopes is None else bias + slopes
