"""ModernBERT: its tensor names and fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.errors import GnomonError
from gnomon.models.hf_layout import Layout

MODERNBERT = Layout(
    prefix="model",
    body={"tokens": "embeddings.tok_embeddings", "embedding_norm": "embeddings.norm", "final_norm": "final_norm"},
    layer_prefix="layers",
    layer={
        "attention.qkv": "attn.Wqkv",
        "attention.output": "attn.Wo",
        "attention_norm": "attn_norm",
        "feedforward.gate_up": "mlp.Wi",
        "feedforward.down": "mlp.Wo",
        "feedforward_norm": "mlp_norm",
    },
    heads={"masked_language": {"dense": "head.dense", "norm": "head.norm", "out": "decoder"}},
)
_FIELDS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_activation",
    "max_position_embeddings",
    "local_attention",
    "norm_eps",
    "norm_bias",
    "attention_bias",
    "mlp_bias",
    "pad_token_id",
    "initializer_range",
)
_DROPOUTS = ("embedding_dropout", "attention_dropout", "mlp_dropout")
_THETAS = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}


def modernbert_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """ModernEncoderConfig's fields from a Hugging Face config.json; GnomonError for what we do not compute."""
    for name in _DROPOUTS:
        if config.get(name):
            raise GnomonError(f"config.json sets {name} = {config[name]}, which gnomon does not compute", "set it to 0")
    fields = {name: config[name] for name in _FIELDS if name in config} | {"model_type": "modernbert"}
    every = config.get("global_attn_every_n_layers", 3)
    fields["layer_types"] = tuple(config.get("layer_types") or _usual_layers(config["num_hidden_layers"], every))
    for kind, ours in _THETAS.items():
        rope = (config.get("rope_parameters") or {}).get(kind) or {}
        if rope.get("rope_type", "default") != "default":
            raise GnomonError(f"RoPE of the type {rope['rope_type']!r} is not computed here for ModernBERT")
        theta = rope.get("rope_theta", config.get(ours))
        if theta is not None:
            fields[ours] = float(theta)
    return fields


def modernbert_head(config: Mapping[str, Any]) -> dict[str, Any]:
    """MaskedLanguageHeadConfig's fields of a ModernBertForMaskedLM."""
    return {
        "tied": config.get("tie_word_embeddings", True),
        "activation": config.get("classifier_activation", "gelu"),
        "dense_bias": config.get("classifier_bias", False),
        "norm_eps": config.get("norm_eps", 1e-5),
        "norm_bias": config.get("norm_bias", False),
        "bias": config.get("decoder_bias", True),
    }


def modernbert_expressible(fields: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    """Whether the type computes exactly what these fields and this head say."""
    if head["kind"] != "masked_language":
        return False
    return {"kind": head["kind"], **modernbert_head(modernbert_config(fields, head))} == head


def modernbert_config(fields: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a ModernBertForMaskedLM, without its special tokens."""
    types = fields["layer_types"] or _usual_layers(fields["num_hidden_layers"])
    thetas = {ours: fields[ours] for ours in _THETAS.values()}
    return {
        "model_type": "modernbert",
        "architectures": ["ModernBertForMaskedLM"],
        **{name: fields[name] for name in _FIELDS},
        "layer_types": list(types),
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": fields[x]} for kind, x in _THETAS.items()},
        **thetas,  # for readers before transformers 5
        "tie_word_embeddings": head["tied"],
        "classifier_activation": head["activation"],
        "classifier_bias": head["dense_bias"],
        "decoder_bias": head["bias"],
    }


def _usual_layers(count: int, every: int = 3) -> list[str]:
    """The kinds of layers where none are named: every so many, from the first on, see all."""
    return ["sliding_attention" if index % every else "full_attention" for index in range(count)]
