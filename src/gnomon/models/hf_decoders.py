"""Llama, Qwen2, Qwen3, Mistral and GPT-2: their tensor names and fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.errors import GnomonError
from gnomon.models.hf_layout import Layout

_LLAMA = Layout(
    prefix="model",
    body={"tokens": "embed_tokens", "final_norm": "norm"},
    layer_prefix="layers",
    layer={
        "attention.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "attention.query_norm": "self_attn.q_norm",
        "attention.key_norm": "self_attn.k_norm",
        "attention.output": "self_attn.o_proj",
        "attention_norm": "input_layernorm",
        "feedforward.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
        "feedforward.down": "mlp.down_proj",
        "feedforward_norm": "post_attention_layernorm",
    },
    heads={"language": {"out": "lm_head"}},
    unread=(".rotary_emb.inv_freq",),
)
_GPT2 = Layout(
    prefix="transformer",
    body={"tokens": "wte", "positions": "wpe", "final_norm": "ln_f"},
    layer_prefix="h",
    layer={
        "attention.qkv": "attn.c_attn",
        "attention.output": "attn.c_proj",
        "attention_norm": "ln_1",
        "feedforward.up": "mlp.c_fc",
        "feedforward.down": "mlp.c_proj",
        "feedforward_norm": "ln_2",
    },
    heads={"language": {"out": "lm_head"}},
    transposed=True,
    unread=(".attn.bias", ".attn.masked_bias"),
)
DECODER_LAYOUTS: dict[str, Layout] = {
    "llama": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
    "mistral": _LLAMA,
    "gpt2": _GPT2,
}
ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "gpt2": "GPT2LMHeadModel",
}
_LLAMA_FIELDS = {
    name: name
    for name in (
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "intermediate_size",
        "hidden_act",
        "max_position_embeddings",
        "attention_dropout",
        "pad_token_id",
        "initializer_range",
    )
} | {"norm_eps": "rms_norm_eps"}
_GPT2_FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "hidden_act": "activation_function",
    "max_position_embeddings": "n_positions",
    "norm_eps": "layer_norm_epsilon",
    "attention_dropout": "attn_pdrop",
    "embd_pdrop": "embd_pdrop",
    "resid_pdrop": "resid_pdrop",
    "pad_token_id": "pad_token_id",
    "initializer_range": "initializer_range",
}
# What the types take for granted; their configurations, unlike ours, may leave it out.
_LLAMA_DEFAULTS = {"hidden_act": "silu", "max_position_embeddings": 2048, "norm_eps": 1e-6, "attention_dropout": 0.0}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": _LLAMA_DEFAULTS,
    "qwen2": _LLAMA_DEFAULTS | {"max_position_embeddings": 32768},
    "qwen3": _LLAMA_DEFAULTS | {"max_position_embeddings": 32768},
    "mistral": _LLAMA_DEFAULTS | {"max_position_embeddings": 131072, "num_key_value_heads": 8},
    "gpt2": {"hidden_act": "gelu_new", "max_position_embeddings": 1024, "norm_eps": 1e-5}
    | dict.fromkeys(("attention_dropout", "embd_pdrop", "resid_pdrop"), 0.1),
}
# What a type does not vary, in our fields.
_PLAIN = {
    "gated": True,
    "position_embedding_type": "rope",
    "norm": "rms",
    "norm_position": "pre",
    "embedding_norm": False,
    "qk_norm": False,
    "attention_bias": False,
    "attention_output_bias": False,
    "mlp_bias": False,
    "sliding_window": None,
    "layer_types": (),
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "num_ngram_buckets": 0,
}
_ROPE_THETA = 10_000.0
_SLIDING, _FULL = "sliding_attention", "full_attention"


def decoder_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """DecoderConfig's fields from a Hugging Face config.json; raises GnomonError for a variation we do not compute."""
    model_type = config["model_type"]
    names = _GPT2_FIELDS if model_type == "gpt2" else _LLAMA_FIELDS
    given = {ours: config[theirs] for ours, theirs in names.items() if config.get(theirs) is not None}
    if given.get("pad_token_id", 0) < 0:  # "none", in the oldest Llama folders
        del given["pad_token_id"]
    fields: dict[str, Any] = _PLAIN | _DEFAULTS[model_type] | given | {"model_type": model_type}
    if model_type == "gpt2":
        _refuse_gpt2_variations(config)
        fields |= {"gated": False, "position_embedding_type": "learned", "norm": "layer"}
        fields |= dict.fromkeys(("attention_bias", "attention_output_bias", "mlp_bias"), True)
        fields.setdefault("intermediate_size", 4 * fields["hidden_size"])
    else:
        fields["rope_parameters"] = _rope_parameters(config, fields["max_position_embeddings"])
        bias = model_type == "qwen2" or bool(model_type in ("llama", "qwen3") and config.get("attention_bias"))
        fields |= {"attention_bias": bias, "attention_output_bias": bias and model_type != "qwen2"}
        fields["mlp_bias"] = bool(model_type == "llama" and config.get("mlp_bias"))
        fields["qk_norm"] = model_type == "qwen3"
        if model_type == "qwen3":
            fields.setdefault("head_dim", 128)
        fields |= _windows(config, fields["num_hidden_layers"])
    return fields


def decoder_head(config: Mapping[str, Any]) -> dict[str, Any]:
    """LanguageHeadConfig's fields of a Hugging Face causal language model."""
    return {"tied": config.get("tie_word_embeddings", config["model_type"] == "gpt2")}


def decoder_expressible(model_type: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> bool:
    """Whether the type computes exactly what these fields and this head say."""
    positions = "learned" if model_type == "gpt2" else "rope"
    if head["bias"] or fields["position_embedding_type"] != positions:
        return False
    return _resolved(decoder_fields(decoder_config(model_type, fields, head))) == _resolved(fields)


def decoder_config(model_type: str, fields: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a Hugging Face causal language model, without its special tokens."""
    known = _resolved(fields)
    names = _GPT2_FIELDS if model_type == "gpt2" else _LLAMA_FIELDS
    config: dict[str, Any] = {"model_type": model_type, "architectures": [ARCHITECTURES[model_type]]}
    config |= {theirs: known[ours] for ours, theirs in names.items()}
    config["tie_word_embeddings"] = head["tied"]
    if model_type == "gpt2":
        return config
    rope = dict(known["rope_parameters"])
    config |= {
        "rope_parameters": rope,
        "rope_theta": rope["rope_theta"],
    }  # the second for readers before transformers 5
    if rope["rope_type"] != "default":
        config["rope_scaling"] = {name: value for name, value in rope.items() if name != "rope_theta"}
    if model_type in ("llama", "qwen3"):
        config["attention_bias"] = known["attention_bias"]
    if model_type == "llama":
        config["mlp_bias"] = known["mlp_bias"]
    if model_type == "mistral":
        config["sliding_window"] = known["sliding_window"]
    if model_type == "qwen2" and known["head_dim"] == known["hidden_size"] // known["num_attention_heads"]:
        del config["head_dim"]  # which Qwen2's own configuration does not name
    if model_type in ("qwen2", "qwen3"):
        sliding = known["sliding_window"] is not None
        config |= {"use_sliding_window": sliding, "sliding_window": known["sliding_window"]}
        config["layer_types"] = list(known["layer_types"]) or [_FULL] * known["num_hidden_layers"]
    return config


def joined_rows(fields: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """How many rows each part of a joined module has."""
    known = _resolved(fields)
    queries, keys = (known[name] * known["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    inner = known["intermediate_size"]
    return {"attention.qkv": (queries, keys, keys), "feedforward.gate_up": (inner, inner)}


def _resolved(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields with what they leave open filled in, so that equal models have equal fields."""
    known = dict(fields)
    known["num_key_value_heads"] = known.get("num_key_value_heads") or known["num_attention_heads"]
    known["head_dim"] = known.get("head_dim") or known["hidden_size"] // known["num_attention_heads"]
    known["layer_types"] = tuple(known["layer_types"]) if known["sliding_window"] is not None else ()
    if set(known["layer_types"]) == {_SLIDING} and known["model_type"] == "mistral":
        known["layer_types"] = ()
    elif known["sliding_window"] is not None and not known["layer_types"] and known["model_type"] != "mistral":
        known["layer_types"] = (_SLIDING,) * known["num_hidden_layers"]
    rope = known["position_embedding_type"] == "rope"
    known["rope_parameters"] = _rope_parameters(known, known["max_position_embeddings"]) if rope else {}
    for name in ("pad_token_id", "ngram_sizes"):
        known.setdefault(name, None)
    if not known["num_ngram_buckets"]:
        known["ngram_sizes"] = None
    known.setdefault("initializer_range", 0.02)
    return known


def _rope_parameters(config: Mapping[str, Any], max_positions: int) -> dict[str, Any]:
    """`rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of those before."""
    given = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    if any(isinstance(value, Mapping) for value in given.values()):
        raise GnomonError("rope_parameters differ between layers, which gnomon does not compute for this type")
    kind = given.pop("rope_type", given.pop("type", "default"))
    given.pop("type", None)
    theta = given.pop("rope_theta", None) or config.get("rope_theta") or _ROPE_THETA
    if kind in ("llama3", "yarn"):
        given.setdefault("original_max_position_embeddings", max_positions)
    kept = {name: value for name, value in given.items() if value is not None} if kind != "default" else {}
    if kind == "default" and given.get("partial_rotary_factor") not in (None, 1.0):
        kept["partial_rotary_factor"] = given["partial_rotary_factor"]
    return {"rope_type": kind, "rope_theta": float(theta), **kept}


def _windows(config: Mapping[str, Any], num_layers: int) -> dict[str, Any]:
    model_type = config["model_type"]
    if model_type == "llama":
        return {}
    if model_type == "mistral":
        return {"sliding_window": config.get("sliding_window", 4096)}
    if not config.get("use_sliding_window"):
        return {}
    full = config.get("max_window_layers", 28)
    types = config.get("layer_types") or [_SLIDING if index >= full else _FULL for index in range(num_layers)]
    if _SLIDING not in types:
        return {}
    return {"sliding_window": config.get("sliding_window", 4096), "layer_types": tuple(types)}


def _refuse_gpt2_variations(config: Mapping[str, Any]) -> None:
    for name, usual in (
        ("scale_attn_weights", True),
        ("scale_attn_by_inverse_layer_idx", False),
        ("add_cross_attention", False),
    ):
        if config.get(name, usual) != usual:
            raise GnomonError(f"config.json sets {name} = {config[name]}, which gnomon does not compute")
