"""Convolutions of several widths as onnx's Conv, over [B, channels, T], with zeros beyond each text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnomon.deploy.graph import IDS, Graph
from gnomon.deploy.head import label_head
from gnomon.models.base import HeadConfig
from gnomon.models.convolutional import ConvolutionalConfig


def build_convolutional(config: ConvolutionalConfig, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> bytes:
    """The model file of a convolutional classifier."""
    graph = Graph()
    mask = graph.node("Unsqueeze", graph.float_mask(), graph.integers(1))  # [B, 1, T]
    tokens = graph.node("Gather", graph.constant(arrays["backbone.tokens.weight"]), IDS)
    x = graph.node("Mul", graph.node("Transpose", tokens, perm=[0, 2, 1]), mask)
    for index in range(config.num_hidden_layers):
        y = graph.node("Mul", _layer(graph, x, config, index, arrays), mask)
        x = graph.node("Add", x, y) if index else y
    return graph.finish(label_head(graph, graph.node("Transpose", x, perm=[0, 2, 1]), head, arrays))


def _layer(graph: Graph, x: str, config: ConvolutionalConfig, index: int, arrays: Mapping[str, np.ndarray]) -> str:
    parts = []
    for number, width in enumerate(config.kernel_sizes):
        name = f"backbone.layers.{index}.convolutions.{number}"
        weight, bias = (graph.constant(arrays[f"{name}.{part}"]) for part in ("weight", "bias"))
        pads = [(width - 1) // 2, width // 2]
        parts.append(graph.node("Relu", graph.node("Conv", x, weight, bias, kernel_shape=[width], pads=pads)))
    return graph.node("Concat", *parts, axis=1)
