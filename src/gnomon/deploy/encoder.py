"""The Transformer encoder as onnx.

Attention runs in onnxruntime's own operators; LayerNorm, Gelu and the embeddings in onnx's, which measured
faster than the fused ones. Where the head reads only the first position, the last layer computes only that one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from gnomon.deploy.graph import IDS, MASK, MICROSOFT, Graph
from gnomon.deploy.head import classify, label_head
from gnomon.models.base import HeadConfig
from gnomon.models.encoder import EncoderConfig


def build_encoder(config: EncoderConfig, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> bytes:
    """The model file of an encoder classifier."""
    builder = _Encoder(config, arrays)
    graph = builder.graph
    x = builder.embeddings()
    first_only = head.pooling == "first"
    last = config.num_hidden_layers - 1
    for index in range(config.num_hidden_layers):
        x = builder.layer(x, index, first_only=first_only and index == last)
    if config.norm_position == "pre":
        x = builder.norm(x, "final_norm")
    if first_only:
        return graph.finish(classify(graph, graph.node("Squeeze", x, graph.integers(1)), head, arrays))
    return graph.finish(label_head(graph, x, head, arrays))


class _Encoder:
    def __init__(self, config: EncoderConfig, arrays: Mapping[str, np.ndarray]) -> None:
        self.graph = Graph()
        self._config = config
        self._arrays = arrays
        self._key_mask = self.graph.node("Cast", MASK, to=TensorProto.INT32)

    def embeddings(self) -> str:
        """[B, T, D]. Real tokens come first, so positions are 0 ... T - 1; every token is of the first segment."""
        graph = self.graph
        positions = self._array("embeddings.positions.weight")[self._config.position_offset :]
        if self._config.type_vocab_size:
            positions = positions + self._array("embeddings.segments.weight")[0]
        length = graph.node("Shape", IDS, start=1, end=2)
        rows = graph.node("Slice", graph.constant(positions), graph.integers(0), length)
        tokens = graph.node("Gather", graph.constant(self._array("embeddings.tokens.weight")), IDS)
        return self.norm(graph.node("Add", tokens, rows), "embeddings.norm")

    def layer(self, x: str, index: int, *, first_only: bool) -> str:
        """[B, T, D] -> [B, T, D], or [B, 1, D] with `first_only`."""
        graph, name = self.graph, f"layers.{index}"
        pre = self._config.norm_position == "pre"
        seen = self.norm(x, f"{name}.attention_norm") if pre else x
        if first_only:
            mixed = self._attention_of_first(seen, self._first(seen), f"{name}.attention")
            x = self._first(x)
        else:
            mixed = self._attention(seen, f"{name}.attention")
        x = graph.node("Add", self._linear(mixed, f"{name}.attention.output"), x)
        if pre:
            return graph.node("Add", self._feedforward(self.norm(x, f"{name}.feedforward_norm"), name), x)
        x = self.norm(x, f"{name}.attention_norm")
        return self.norm(graph.node("Add", self._feedforward(x, name), x), f"{name}.feedforward_norm")

    def norm(self, x: str, name: str) -> str:
        """The LayerNorm called `name`."""
        weight, bias = self._pair(name)
        return self.graph.norm(x, weight, bias, eps=self._config.layer_norm_eps)

    def _attention(self, x: str, name: str) -> str:
        weights, biases = zip(*(self._pair(f"{name}.{part}") for part in ("query", "key", "value")), strict=True)
        packed = self.graph.constant(np.concatenate([weight.T for weight in weights], axis=1))
        bias = self.graph.constant(np.concatenate(biases))
        heads = self._config.num_attention_heads
        return self.graph.node("Attention", x, packed, bias, self._key_mask, domain=MICROSOFT, num_heads=heads)

    def _attention_of_first(self, x: str, first: str, name: str) -> str:
        parts = [
            self._linear(source, f"{name}.{part}") for source, part in ((first, "query"), (x, "key"), (x, "value"))
        ]
        heads = self._config.num_attention_heads
        return self.graph.node("MultiHeadAttention", *parts, "", self._key_mask, domain=MICROSOFT, num_heads=heads)

    def _feedforward(self, x: str, name: str) -> str:
        inner = self.graph.activation(self._linear(x, f"{name}.feedforward.up"), self._config.hidden_act)
        return self._linear(inner, f"{name}.feedforward.down")

    def _first(self, x: str) -> str:
        bounds = [self.graph.integers(number) for number in (0, 1, 1)]
        return self.graph.node("Slice", x, *bounds)

    def _linear(self, x: str, name: str) -> str:
        return self.graph.linear(x, *self._pair(name))

    def _pair(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        return self._array(f"{name}.weight"), self._array(f"{name}.bias")

    def _array(self, name: str) -> np.ndarray:
        return self._arrays[f"backbone.{name}"]
