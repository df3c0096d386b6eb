"""The bidirectional Transformer with rotary positions, gates and local attention: ModernBERT (Warner et al. 2024).

Tensor names: `tokens.weight`, `embedding_norm.*`, `layers.N.attention.{qkv,output}.*`, `layers.N.attention_norm.*` (not
of layer 0), `layers.N.feedforward.{gate_up,down}.*`, `layers.N.feedforward_norm.*`, `final_norm.*`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.models.base import Backbone, Output, Taps, named_tap, refuse_state
from gnomon.nn.decoder_block import DecoderBlock
from gnomon.nn.feedforward import GatedFeedForward
from gnomon.nn.grouped_attention import GroupedAttention, Reading
from gnomon.nn.init import init_residual_transformer
from gnomon.nn.masks import attention_bias
from gnomon.nn.norms import make_norm
from gnomon.nn.positions import token_positions
from gnomon.nn.rope import rotary, rotation_of
from gnomon.nn.state import State

LOCAL = "sliding_attention"


@dataclass(frozen=True)
class ModernEncoderConfig:
    """Fields are Hugging Face's ModernBertConfig's. The layers that `layer_types` calls "sliding_attention" see
    `local_attention` columns around each, and rotate by `local_rope_theta`; the others see all, by `global_rope_theta`.
    `layer_types` empty: every third, from the first on, sees all."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_activation: str = "gelu"
    max_position_embeddings: int = 8192
    layer_types: tuple[str, ...] = ()
    local_attention: int = 128
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    pad_token_id: int | None = None
    initializer_range: float = 0.02
    model_type: str = "modernbert"

    @property
    def local_layers(self) -> tuple[bool, ...]:
        """Whether each layer sees its neighbourhood only."""
        if self.layer_types:
            return tuple(kind == LOCAL for kind in self.layer_types)
        return tuple(index % 3 > 0 for index in range(self.num_hidden_layers))


class ModernEncoderBackbone(Backbone):
    """Normed tokens, a stack of pre-norm blocks, a last norm; no position is a tensor."""

    family = "modern_encoder"

    def __init__(self, config: ModernEncoderConfig) -> None:
        super().__init__()
        size = config.hidden_size
        if size % config.num_attention_heads:
            raise GnomonError(
                f"{config.num_attention_heads} heads do not divide the width {size}", "choose a number that does"
            )
        if len(config.local_layers) != config.num_hidden_layers:
            raise GnomonError(
                f"layer_types names {len(config.layer_types)} layers of {config.num_hidden_layers}", "name every layer"
            )
        self.config = config
        self.hidden_size = size
        self.max_positions = config.max_position_embeddings
        self.head_std = config.initializer_range
        self.tokens = nn.Embedding(config.vocab_size, size)
        self.embedding_norm = make_norm("layer", size, eps=config.norm_eps, bias=config.norm_bias)
        self.layers = nn.ModuleList(_block(config, first=index == 0) for index in range(config.num_hidden_layers))
        self.final_norm = make_norm("layer", size, eps=config.norm_eps, bias=config.norm_bias)
        head_size = size // config.num_attention_heads
        self._tables = {
            local: rotary(head_size, {"rope_theta": theta}, max_positions=config.max_position_embeddings)
            for local, theta in ((False, config.global_rope_theta), (True, config.local_rope_theta))
        }
        init_residual_transformer(self.layers, std=config.initializer_range)
        nn.init.normal_(self.tokens.weight, std=config.initializer_range)

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, D]."""
        return self.tokens

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
        refuse_state(self, state)
        x: Tensor = self.embedding_norm(self.tokens(ids))
        if taps is not None:
            taps("embeddings", x)
        readings = {local: self._reading(x, mask, documents, local=local) for local in set(self.config.local_layers)}
        for index, (layer, local) in enumerate(zip(self.layers, self.config.local_layers, strict=True)):
            see = None if taps is None else named_tap(taps, f"layers.{index}.attention")
            x = layer(x, readings[local], see_weights=see)
            if taps is not None:
                taps(f"layers.{index}", x)
        return Output(self.final_norm(x))

    def _reading(self, x: Tensor, mask: Tensor | None, documents: Tensor | None, *, local: bool) -> Reading:
        length = x.shape[1]
        reach = self.config.local_attention // 2 + 1
        bias = attention_bias(
            mask,
            length=length,
            causal=False,
            dtype=x.dtype,
            documents=documents,
            window=reach if local and reach < length else None,
            device=x.device,
        )
        positions = token_positions(length, mask=mask, documents=documents)
        return Reading(bias, rotation=rotation_of(self._tables[local].at(positions, bound=length, like=x)))


def _block(config: ModernEncoderConfig, *, first: bool) -> DecoderBlock:
    attention = GroupedAttention(
        config.hidden_size,
        config.num_attention_heads,
        num_key_value_heads=config.num_attention_heads,
        head_size=config.hidden_size // config.num_attention_heads,
        bias=config.attention_bias,
        output_bias=config.attention_bias,
    )
    return DecoderBlock(
        attention,
        GatedFeedForward(
            config.hidden_size, config.intermediate_size, act=config.hidden_activation, bias=config.mlp_bias
        ),
        size=config.hidden_size,
        norm="layer",
        norm_eps=config.norm_eps,
        norm_bias=config.norm_bias,
        attention_norm=not first,
    )
