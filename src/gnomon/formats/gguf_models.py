"""Llama, Mistral, Qwen2 and Qwen3 between GGUF and Hugging Face: names of tensors, configuration, rotary layout.

llama.cpp rotates neighbouring pairs of a head in Llama models and the two halves in Qwen ones; Hugging Face always
rotates halves. So the rows of Llama's query and key projections change places on the way, heads apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats.gguf import GgufFile

_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "model.layers.{}.input_layernorm.weight": "blk.{}.attn_norm.weight",
    "model.layers.{}.post_attention_layernorm.weight": "blk.{}.ffn_norm.weight",
    "model.layers.{}.self_attn.q_norm.weight": "blk.{}.attn_q_norm.weight",
    "model.layers.{}.self_attn.k_norm.weight": "blk.{}.attn_k_norm.weight",
    **{
        f"model.layers.{{}}.{theirs}.{part}": f"blk.{{}}.{ours}.{part}"
        for theirs, ours in (
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
        )
        for part in ("weight", "bias")
    },
}
_ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
_CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
_LAYER = re.compile(r"(?<=\.)\d+(?=\.)")
_FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7}
_SCALED = "a stretched context (rope scaling) changes the positions, and is not carried over yet"

Change = Callable[[np.ndarray], np.ndarray]


class RenamedArrays(Mapping[str, np.ndarray]):
    """Arrays under other names, some changed on the way; nothing is read before it is asked for."""

    def __init__(
        self, source: Mapping[str, np.ndarray], names: Mapping[str, str], changes: Mapping[str, Change]
    ) -> None:
        self._source = source
        self._names = dict(names)
        self._changes = dict(changes)

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._source[self._names[name]]
        return self._changes[name](array) if name in self._changes else array

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class Storage:
    """How `type_of` of `write_gguf` stores a model: vectors in full, matrices as `name` where their rows allow it.

    The embedding and the output layer of a 4-bit model keep 8 bits, as llama.cpp's own do for quality.
    """

    name: str = "Q8_0"

    def __post_init__(self) -> None:
        if self.name not in _FILE_TYPES:
            raise GnomonError(f"models are not written as {self.name}", f"choose one of {', '.join(_FILE_TYPES)}")

    def __call__(self, name: str, shape: tuple[int, ...]) -> str:
        if len(shape) == 1 or self.name == "F32":
            return "F32"
        if shape[-1] % 32:
            return "F16"
        if self.name == "Q4_0" and name in ("token_embd.weight", "output.weight"):
            return "Q8_0"
        return self.name


def from_gguf(file: GgufFile) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """The config.json and the arrays, by Hugging Face's names, of a model in a GGUF file.

    Raises GnomonError for other architectures, stretched contexts and tensors without a counterpart.
    """
    architecture = str(file.metadata.get("general.architecture"))
    if architecture not in _CLASSES:
        raise GnomonError(
            f"{file.path} holds a model of the architecture {architecture!r}", f"read are {', '.join(_CLASSES)}"
        )
    config = _config(file, architecture)
    counterpart = {ours: theirs for theirs, ours in _NAMES.items()}
    names: dict[str, str] = {}
    for ours in file.arrays:
        theirs = _renamed(ours, counterpart)
        if theirs is None:
            reason = _SCALED if ours == "rope_freqs.weight" else "it has no counterpart in Hugging Face's model"
            raise GnomonError(f"{file.path}: the tensor {ours} cannot be read: {reason}", "use another model")
        names[theirs] = ours
    return config, RenamedArrays(file.arrays, names, _changes(names, config, architecture, _to_halves))


def to_gguf(
    config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], *, storage: Storage, name: str = ""
) -> tuple[dict[str, Any], Mapping[str, np.ndarray]]:
    """The metadata (but for the tokenizer's) and the arrays, by ggml's names, of a Hugging Face model folder.

    Raises GnomonError for types, activations, stretched contexts and tensors that have no counterpart.
    """
    model_type = str(config.get("model_type"))
    if model_type not in _ARCHITECTURES:
        raise GnomonError(
            f"models of the type {model_type!r} are not written as GGUF", f"written are {', '.join(_ARCHITECTURES)}"
        )
    _refuse_unexpressible(config)
    architecture = _ARCHITECTURES[model_type]
    names: dict[str, str] = {}
    for theirs in arrays:
        ours = _renamed(theirs, _NAMES)
        if ours is not None:
            names[ours] = theirs
        elif not theirs.endswith("rotary_emb.inv_freq"):  # computed from the configuration, saved by old versions
            raise GnomonError(f"the tensor {theirs} has no counterpart in GGUF", "export a model as gnomon saves it")
    if config.get("tie_word_embeddings") or "output.weight" not in names:
        names.pop("output.weight", None)
    metadata = {
        "general.architecture": architecture,
        "general.name": name or model_type,
        "general.file_type": _FILE_TYPES[storage.name],
        "general.quantization_version": 2,
        **{f"{architecture}.{key}": value for key, value in _hyperparameters(config).items()},
    }
    return metadata, RenamedArrays(arrays, names, _changes(names, config, architecture, _to_pairs))


def _renamed(name: str, table: Mapping[str, str]) -> str | None:
    layer = _LAYER.search(name)
    if layer is None:
        return table.get(name)
    pattern = table.get(_LAYER.sub("{}", name, count=1))
    return None if pattern is None else pattern.format(layer.group())


def _changes(
    names: Mapping[str, str],
    config: Mapping[str, Any],
    architecture: str,
    change: Callable[[np.ndarray, int], np.ndarray],
) -> dict[str, Change]:
    """What happens to the rows of Llama's query and key projections."""
    if architecture != "llama":
        return {}
    heads, shared = int(config["num_attention_heads"]), _kv_heads(config)
    changes: dict[str, Change] = {}
    for new, old in names.items():
        if any(part in name for part in ("attn_q.", "q_proj.") for name in (new, old)):
            changes[new] = lambda array: change(array, heads)
        elif any(part in name for part in ("attn_k.", "k_proj.") for name in (new, old)):
            changes[new] = lambda array: change(array, shared)
    return changes


def _to_pairs(array: np.ndarray, heads: int) -> np.ndarray:
    """Rows of each head: first half and second half -> alternating."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def _to_halves(array: np.ndarray, heads: int) -> np.ndarray:
    """The other way."""
    return array.reshape(heads, array.shape[0] // heads // 2, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def _kv_heads(config: Mapping[str, Any]) -> int:
    return int(config.get("num_key_value_heads") or config["num_attention_heads"])


def _config(file: GgufFile, architecture: str) -> dict[str, Any]:
    def given(key: str, default: Any = None) -> Any:
        value = file.metadata.get(f"{architecture}.{key}", default)
        if value is None:
            raise GnomonError(f"{file.path} does not say its {architecture}.{key}", "get the model from another source")
        return value

    if given("rope.scaling.type", "none") != "none":
        raise GnomonError(f"{file.path}: {_SCALED}", "use the model without it")
    heads, width = int(given("attention.head_count")), int(given("embedding_length"))
    theta = _short(given("rope.freq_base", 10000.0))
    config = {
        "architectures": [_CLASSES[architecture]],
        "model_type": architecture,
        "vocab_size": file.arrays.entries["token_embd.weight"].shape[0] if "token_embd.weight" in file.arrays else 0,
        "hidden_size": width,
        "intermediate_size": int(given("feed_forward_length")),
        "num_hidden_layers": int(given("block_count")),
        "num_attention_heads": heads,
        "num_key_value_heads": int(given("attention.head_count_kv", heads)),
        "head_dim": int(given("attention.key_length", width // heads)),
        "max_position_embeddings": int(given("context_length")),
        "rms_norm_eps": _short(given("attention.layer_norm_rms_epsilon")),
        "rope_theta": theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in file.arrays,
        "dtype": "float32",
    }
    if architecture != "qwen2":
        config["attention_bias"] = "blk.0.attn_q.bias" in file.arrays
    for role in ("bos", "eos"):
        if (number := file.metadata.get(f"tokenizer.ggml.{role}_token_id")) is not None:
            config[f"{role}_token_id"] = int(number)
    return config


def _hyperparameters(config: Mapping[str, Any]) -> dict[str, Any]:
    heads, width = int(config["num_attention_heads"]), int(config["hidden_size"])
    head_size = int(config.get("head_dim") or width // heads)
    rope = config.get("rope_parameters") or {}
    return {
        "vocab_size": int(config["vocab_size"]),
        "context_length": int(config["max_position_embeddings"]),
        "embedding_length": width,
        "block_count": int(config["num_hidden_layers"]),
        "feed_forward_length": int(config["intermediate_size"]),
        "attention.head_count": heads,
        "attention.head_count_kv": _kv_heads(config),
        "attention.key_length": head_size,
        "attention.value_length": head_size,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.dimension_count": head_size,
        "rope.freq_base": float(rope.get("rope_theta") or config.get("rope_theta") or 10000.0),
    }


def _refuse_unexpressible(config: Mapping[str, Any]) -> None:
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    for fault, found in (
        (f"the activation {config.get('hidden_act')!r}", config.get("hidden_act", "silu") not in ("silu", "swish")),
        ("a stretched context (rope scaling)", rope.get("rope_type", rope.get("type", "default")) != "default"),
        ("attention in a sliding window", window is not None and window < int(config["max_position_embeddings"])),
    ):
        if found:
            raise GnomonError(f"a model with {fault} is not written as GGUF", "export a model without it")


def _short(number: float) -> float:
    """A number as it was before it became a float32: 1e-05 and not 9.999999747378752e-06."""
    return float(f"{number:.7g}")
