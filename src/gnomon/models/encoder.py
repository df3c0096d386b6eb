"""The bidirectional Transformer encoder: BERT, DistilBERT, RoBERTa and our own variations.

Tensor names: `embeddings.{tokens,positions,segments}.weight`, `embeddings.norm.*`,
`layers.N.attention.{query,key,value,output}.*`, `layers.N.attention_norm.*`,
`layers.N.feedforward.{up,down}.*`, `layers.N.feedforward_norm.*`, and `final_norm.*` when norms come first.
"""

from __future__ import annotations

from dataclasses import dataclass


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
