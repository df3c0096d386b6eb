"""RNN, LSTM and GRU as onnx's own operators, with the length of each text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gnomon.deploy.graph import IDS, Graph
from gnomon.deploy.head import label_head
from gnomon.models.base import HeadConfig
from gnomon.models.recurrent import RecurrentConfig

# Where torch keeps each gate that onnx wants next: LSTM i f g o -> i o f c, GRU r z n -> z r h.
_GATES = {"rnn": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


def build_recurrent(config: RecurrentConfig, head: HeadConfig, arrays: Mapping[str, np.ndarray]) -> bytes:
    """The model file of a recurrent classifier."""
    graph = Graph()
    lengths = graph.lengths()
    ids = graph.node("Transpose", IDS, perm=[1, 0])
    x = graph.node("Gather", graph.constant(arrays["backbone.tokens.weight"]), ids)  # [T, B, E]
    width = config.hidden_size * (2 if config.bidirectional else 1)
    for layer in range(config.num_hidden_layers):
        y = _layer(graph, x, lengths, config, layer, arrays)  # [T, directions, B, H]
        last = layer == config.num_hidden_layers - 1
        together = graph.node("Transpose", y, perm=[2, 0, 1, 3] if last else [0, 2, 1, 3])
        x = graph.node("Reshape", together, graph.integers(0, 0, width))
    return graph.finish(label_head(graph, x, head, arrays))


def _layer(
    graph: Graph,
    x: str,
    lengths: str,
    config: RecurrentConfig,
    layer: int,
    arrays: Mapping[str, np.ndarray],
) -> str:
    suffixes = [f"l{layer}", f"l{layer}_reverse"] if config.bidirectional else [f"l{layer}"]

    def both(part: str) -> np.ndarray:
        """One parameter of every direction [directions, gates * H, ...], gates in onnx's order."""
        return np.stack([_reordered(arrays[f"backbone.recurrent.{part}_{suffix}"], config.cell) for suffix in suffixes])

    bias = np.concatenate([both("bias_ih"), both("bias_hh")], axis=1)
    attributes: dict[str, Any] = {
        "hidden_size": config.hidden_size,
        "direction": "bidirectional" if config.bidirectional else "forward",
        **({"linear_before_reset": 1} if config.cell == "gru" else {}),
    }
    weights = [graph.constant(value) for value in (both("weight_ih"), both("weight_hh"), bias)]
    return graph.node(config.cell.upper(), x, *weights, lengths, **attributes)


def _reordered(array: np.ndarray, cell: str) -> np.ndarray:
    gates = np.split(array, len(_GATES[cell]))
    return np.concatenate([gates[index] for index in _GATES[cell]])
