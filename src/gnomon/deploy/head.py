"""The label head of every family as onnx: pooling over real tokens, an optional dense layer, the last layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gnomon.deploy.graph import Graph
from gnomon.models.base import HeadConfig

_LOWEST = np.array(np.finfo(np.float32).min)
_END = int(np.iinfo(np.int64).max)


def label_head(graph: Graph, hidden: str, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """hidden [B, T, D] -> logits [B, C]; the same function as `nn.heads.LabelHead` for texts of at least one token."""
    return classify(graph, pool(graph, hidden, head, arrays), head, arrays)


def classify(graph: Graph, pooled: str, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """pooled [B, D] -> logits [B, C]."""
    if head.dense_size is not None:
        dense = graph.linear(pooled, arrays["head.dense.weight"], arrays["head.dense.bias"])
        pooled = graph.activation(dense, head.activation)
    return graph.linear(pooled, arrays["head.out.weight"], arrays["head.out.bias"])


def pool(graph: Graph, hidden: str, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """hidden [B, T, D] -> [B, D]."""
    if head.pooling == "first":
        return graph.node("Gather", hidden, graph.constant(np.array(0)), axis=1)
    if head.pooling == "max":
        covered = graph.node("Where", graph.real, hidden, graph.constant(_LOWEST))
        return graph.node("ReduceMax", covered, graph.integers(1), keepdims=0)
    weights = graph.node("Unsqueeze", _weights(graph, hidden, head, arrays), graph.integers(1))
    return graph.node("Squeeze", graph.node("MatMul", weights, hidden), graph.integers(1))


def _weights(graph: Graph, hidden: str, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> str:
    """What each position [B, T] counts for, zero beyond the text."""
    mask = graph.float_mask()
    if head.pooling == "mean":
        return graph.node("Div", mask, graph.node("ReduceSum", mask, graph.integers(1), keepdims=1))
    if head.pooling == "last":  # the mask falls from 1 to 0 (or ends) after the last token
        after = graph.node("Pad", mask, graph.integers(0, 0, 0, 1))
        shifted = graph.node("Slice", after, *(graph.integers(n) for n in (1, np.iinfo(np.int64).max, 1)))
        return graph.node("Sub", mask, shifted)
    # As a matrix [D, 1]: by a vector [D], onnxruntime 1.32 multiplies wrongly where `hidden` is a transposed tensor.
    scores = graph.node("MatMul", hidden, graph.constant(arrays["head.pool.score.weight"].T))
    scores = graph.node("Where", graph.real, scores, graph.constant(_LOWEST))
    return graph.node("Softmax", graph.node("Squeeze", scores, graph.integers(2)), axis=1)
