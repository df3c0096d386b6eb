"""The shapes that a config.json promises, for the types of model gnomon knows: arithmetic on its numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Shapes = dict[str, tuple[int, ...]]

_GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def expected_shapes(config: Mapping[str, Any], stored: Iterable[str]) -> Shapes:
    """Tensor name, as it stands in `stored`, to its shape; empty for a type whose shapes are not known.

    Raises KeyError, TypeError or ValueError when the config lacks a number or holds something else in its place.
    """
    model_type = config["model_type"]
    if model_type in ("bert", "roberta"):
        return _named_as_stored(_bert(config), stored, prefix=model_type)
    if model_type == "distilbert":
        return _named_as_stored(_distilbert(config), stored, prefix=model_type)
    if model_type == "gnomon_vectors":
        return _word_vectors(config, stored)
    if model_type.startswith("gnomon_"):
        return _ours(config["gnomon"], num_labels=len(config.get("id2label") or {}))
    return {}


def _bert(config: Mapping[str, Any]) -> Shapes:
    size, inner = config["hidden_size"], config["intermediate_size"]
    found = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], size),
        "embeddings.position_embeddings.weight": (config.get("max_position_embeddings", 512), size),
        "embeddings.token_type_embeddings.weight": (config.get("type_vocab_size", 2), size),
        **_norm("embeddings.LayerNorm", size),
    }
    for index in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{index}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            found |= _linear(f"{layer}.attention.{part}", size, size)
        found |= _norm(f"{layer}.attention.output.LayerNorm", size)
        found |= _linear(f"{layer}.intermediate.dense", size, inner) | _linear(f"{layer}.output.dense", inner, size)
        found |= _norm(f"{layer}.output.LayerNorm", size)
    return found


def _distilbert(config: Mapping[str, Any]) -> Shapes:
    size, inner = config["dim"], config["hidden_dim"]
    found = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], size),
        "embeddings.position_embeddings.weight": (config.get("max_position_embeddings", 512), size),
        **_norm("embeddings.LayerNorm", size),
    }
    for index in range(config["n_layers"]):
        layer = f"transformer.layer.{index}"
        for part in ("q_lin", "k_lin", "v_lin", "out_lin"):
            found |= _linear(f"{layer}.attention.{part}", size, size)
        found |= _norm(f"{layer}.sa_layer_norm", size) | _norm(f"{layer}.output_layer_norm", size)
        found |= _linear(f"{layer}.ffn.lin1", size, inner) | _linear(f"{layer}.ffn.lin2", inner, size)
    return found


def _ours(section: Mapping[str, Any], *, num_labels: int) -> Shapes:
    bodies = {
        "encoder": _encoder,
        "recurrent": _recurrent,
        "convolutional": _convolutional,
        "static": _static,
    }
    body, size = bodies[section["family"]](section["config"])
    found = {f"backbone.{name}": shape for name, shape in body.items()}
    if "head" not in section:  # word vectors converted to a static model, which no labels have been put on yet
        return found
    head = section["head"]
    if head["pooling"] == "attention":
        found["head.pool.score.weight"] = (1, size)
    if head["dense_size"] is not None:
        found |= _linear("head.dense", size, head["dense_size"])
        size = head["dense_size"]
    return found | _linear("head.out", size, num_labels)


def _encoder(config: Mapping[str, Any]) -> tuple[Shapes, int]:
    size, inner = config["hidden_size"], config["intermediate_size"]
    found = {
        "embeddings.tokens.weight": (config["vocab_size"], size),
        "embeddings.positions.weight": (config["max_position_embeddings"], size),
        **_norm("embeddings.norm", size),
    }
    if config["type_vocab_size"]:
        found["embeddings.segments.weight"] = (config["type_vocab_size"], size)
    for index in range(config["num_hidden_layers"]):
        layer = f"layers.{index}"
        for part in ("query", "key", "value", "output"):
            found |= _linear(f"{layer}.attention.{part}", size, size)
        found |= _linear(f"{layer}.feedforward.up", size, inner) | _linear(f"{layer}.feedforward.down", inner, size)
        found |= _norm(f"{layer}.attention_norm", size) | _norm(f"{layer}.feedforward_norm", size)
    return (found | _norm("final_norm", size) if config["norm_position"] == "pre" else found), size


def _recurrent(config: Mapping[str, Any]) -> tuple[Shapes, int]:
    size, rows = config["hidden_size"], config["hidden_size"] * _GATES[config["cell"]]
    endings = ("", "_reverse") if config["bidirectional"] else ("",)
    found: Shapes = {"tokens.weight": (config["vocab_size"], config["embedding_size"])}
    width = config["embedding_size"]
    for layer in range(config["num_hidden_layers"]):
        for ending in endings:
            found[f"recurrent.weight_ih_l{layer}{ending}"] = (rows, width)
            found[f"recurrent.weight_hh_l{layer}{ending}"] = (rows, size)
            found[f"recurrent.bias_ih_l{layer}{ending}"] = (rows,)
            found[f"recurrent.bias_hh_l{layer}{ending}"] = (rows,)
        width = size * len(endings)
    return found, width


def _convolutional(config: Mapping[str, Any]) -> tuple[Shapes, int]:
    channels, kernels = config["channels"], config["kernel_sizes"]
    found: Shapes = {"tokens.weight": (config["vocab_size"], config["embedding_size"])}
    width = config["embedding_size"]
    for layer in range(config["num_hidden_layers"]):
        for number, kernel in enumerate(kernels):
            found[f"layers.{layer}.convolutions.{number}.weight"] = (channels, width, kernel)
            found[f"layers.{layer}.convolutions.{number}.bias"] = (channels,)
        width = channels * len(kernels)
    return found, width


def _static(config: Mapping[str, Any]) -> tuple[Shapes, int]:
    size = config["embedding_size"]
    found: Shapes = {"tokens.weight": (config["vocab_size"], size), "scores.weight": (config["vocab_size"], 1)}
    if config["num_ngram_buckets"]:
        found["ngrams.table.weight"] = (config["num_ngram_buckets"], size)
    return found, size


def _word_vectors(config: Mapping[str, Any], stored: Iterable[str]) -> Shapes:
    words, size = config["vocab_size"], config["hidden_size"]
    known = {"input": (words, size), "output": (words, size), "counts": (words,)}
    return {name: shape for name, shape in known.items() if name == "input" or name in stored}


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, size: int) -> Shapes:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


def _named_as_stored(shapes: Shapes, stored: Iterable[str], *, prefix: str) -> Shapes:
    """Names with the type's prefix, unless the folder is of the bare model; LayerNorm's as old folders call them."""
    names = set(stored)
    start = f"{prefix}." if any(name.startswith(f"{prefix}.") for name in names) else ""
    old = any(name.endswith("LayerNorm.gamma") for name in names)

    def renamed(name: str) -> str:
        if old and "LayerNorm." in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        return start + name

    return {renamed(name): shape for name, shape in shapes.items()}
