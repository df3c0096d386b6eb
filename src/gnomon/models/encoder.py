"""The bidirectional Transformer encoder: BERT, DistilBERT, RoBERTa and our own variations.

Tensor names: `embeddings.{tokens,positions,segments}.weight`, `embeddings.norm.*`,
`layers.N.attention.{query,key,value,output}.*`, `layers.N.attention_norm.*`,
`layers.N.feedforward.{up,down}.*`, `layers.N.feedforward_norm.*`, and `final_norm.*` when norms come first.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gnomon.models.base import Backbone, Output, Taps, named_tap, refuse_state
from gnomon.nn.block import Block
from gnomon.nn.embeddings import TransformerEmbeddings
from gnomon.nn.init import init_transformer
from gnomon.nn.masks import attention_bias
from gnomon.nn.state import State


@dataclass(frozen=True)
class EncoderConfig:
    """Fields are Hugging Face's BertConfig's. `type_vocab_size` 0 means no segments; `position_offset` is the first
    row of the position table in use (RoBERTa: pad_token_id + 1). `model_type` names the type it is saved as."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: str = "gelu"
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    pad_token_id: int = 0
    position_offset: int = 0
    norm_position: str = "post"
    initializer_range: float = 0.02
    model_type: str = "bert"


class EncoderBackbone(Backbone):
    """Embeddings and a stack of blocks; every position sees every real one."""

    family = "encoder"

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.hidden_size = config.hidden_size
        self.embeddings = TransformerEmbeddings(
            config.vocab_size,
            config.max_position_embeddings,
            config.type_vocab_size,
            config.hidden_size,
            position_offset=config.position_offset,
            norm_eps=config.layer_norm_eps,
            dropout=config.hidden_dropout_prob,
        )
        self.max_positions = self.embeddings.max_positions
        self.head_std = config.initializer_range
        self.layers = nn.ModuleList(
            Block(
                config.hidden_size,
                config.num_attention_heads,
                config.intermediate_size,
                act=config.hidden_act,
                norm_position=config.norm_position,
                norm_eps=config.layer_norm_eps,
                dropout=config.hidden_dropout_prob,
                attention_dropout=config.attention_probs_dropout_prob,
            )
            for _ in range(config.num_hidden_layers)
        )
        pre = config.norm_position == "pre"
        self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if pre else None
        init_transformer(self, std=config.initializer_range)

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, D]."""
        return self.embeddings.tokens

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        taps: Taps | None = None,
        segment_ids: Tensor | None = None,
    ) -> Output:
        """`ids`, `mask`, `documents`, `segment_ids` [B, T] -> hidden [B, T, D]. Taps: embeddings, layers.N,
        layers.N.attention."""
        refuse_state(self, state)
        return Output(self._hidden(ids, mask, documents=documents, segment_ids=segment_ids, taps=taps))

    def first(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """[B, T] -> [B, 1, D]; the last layer computes no other position."""
        return self._hidden(ids, mask, first_only=True)[:, :1]  # a stack without layers cuts nothing

    def _hidden(
        self,
        ids: Tensor,
        mask: Tensor | None,
        *,
        documents: Tensor | None = None,
        segment_ids: Tensor | None = None,
        taps: Taps | None = None,
        first_only: bool = False,
    ) -> Tensor:
        x: Tensor = self.embeddings(ids, mask, segment_ids, documents)
        bias = attention_bias(
            mask, length=ids.shape[1], causal=False, dtype=x.dtype, documents=documents, device=x.device
        )
        if taps is not None:
            taps("embeddings", x)
        last = len(self.layers) - 1
        for index, layer in enumerate(self.layers):
            if taps is None:
                x = layer(x, bias=bias, first_only=first_only and index == last)
            else:
                x = layer(x, bias=bias, see_weights=named_tap(taps, f"layers.{index}.attention"))
                taps(f"layers.{index}", x)
        return x if self.final_norm is None else self.final_norm(x)
