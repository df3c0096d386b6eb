"""An onnx graph under construction: constants, nodes, and the layers that every family needs.

Tensors are named by the strings that the methods return. A classifier's graph takes `input_ids` and `attention_mask`
int64 [B, T] and gives `logits` float32 [B, C]; real tokens come first in a row, and every row has at least one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from gnomon.errors import GnomonError

MICROSOFT = "com.microsoft"
"""The operators that only onnxruntime has: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md"""

IDS = "input_ids"
MASK = "attention_mask"
LOGITS = "logits"

Input = tuple[str, np.dtype[Any], Sequence[str | int]]
"""A graph input: name, type, shape."""

Output = tuple[str, str, np.dtype[Any], Sequence[str | int]]
"""A graph output: the tensor, the name it goes by outside, type, shape."""

_OPERATOR_SET = 20  # the first with Gelu
_FORMAT = 9  # what onnxruntime 1.19, the oldest supported, reads


class Graph:
    """Nodes and constants in the order they were added."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray, name: str = "") -> str:
        """A constant tensor; one that is looked for in the file has a name, which none has had before."""
        name = name or f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def integers(self, *numbers: int) -> str:
        """A constant vector int64."""
        return self.constant(np.array(numbers, dtype=np.int64))

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node and name its first output; an input "" is one left out."""
        return self.nodes(operator, *inputs, outputs=(0,), domain=domain, **attributes)[0]

    def nodes(
        self, operator: str, *inputs: str, outputs: Sequence[int], domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node and name those of its outputs whose places are given, in their order."""
        name = f"{operator}_{len(self._nodes)}"
        names = [f"{name}_{place}" if place in outputs else "" for place in range(max(outputs) + 1)]
        self._nodes.append(helper.make_node(operator, inputs, names, name=name, domain=domain, **attributes))
        return [names[place] for place in outputs]

    def linear(self, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """x [..., I] -> [..., O] with torch's weight [O, I] and bias [O]."""
        return self.node("Add", self.node("MatMul", x, self.constant(weight.T)), self.constant(bias))

    def norm(self, x: str, weight: np.ndarray, bias: np.ndarray, *, eps: float) -> str:
        """LayerNorm over the last dimension; onnxruntime's fusion with the sum before it measured slower, 3.6 times."""
        return self.node("LayerNormalization", x, self.constant(weight), self.constant(bias), epsilon=eps)

    def activation(self, x: str, name: str) -> str:
        """The activation of Hugging Face's name `name`."""
        if name in ("relu", "tanh"):
            return self.node(name.capitalize(), x)
        if name == "relu2":
            positive = self.node("Relu", x)
            return self.node("Mul", positive, positive)
        if name == "silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        if name == "gelu":
            return self.node("Gelu", x)
        if name in ("gelu_new", "gelu_pytorch_tanh"):
            return self.node("Gelu", x, approximate="tanh")
        raise GnomonError(f"no onnx operator is known for the activation {name!r}", "use relu, tanh or gelu")

    def float_mask(self) -> str:
        """The mask as float32 [B, T], 1 on real tokens."""
        return self.node("Cast", MASK, to=TensorProto.FLOAT)

    @cached_property
    def real(self) -> str:
        """The mask as bool [B, T, 1]."""
        return self.node("Unsqueeze", self.node("Cast", MASK, to=TensorProto.BOOL), self.integers(2))

    def lengths(self) -> str:
        """The number of real tokens of each row, int32 [B]."""
        total = self.node("ReduceSum", MASK, self.integers(1), keepdims=0)
        return self.node("Cast", total, to=TensorProto.INT32)

    def finish(self, logits: str) -> bytes:
        """The serialised model of a classifier whose scores are `logits`."""
        model = self.model(
            [(name, np.dtype(np.int64), ("batch", "length")) for name in (IDS, MASK)],
            [(logits, LOGITS, np.dtype(np.float32), ("batch", "labels"))],
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def model(self, inputs: Sequence[Input], outputs: Sequence[Output]) -> onnx.ModelProto:
        """The model with these inputs and outputs: names, types and shapes, a string for what differs by call."""
        self._rename({tensor: name for tensor, name, _, _ in outputs})
        graph = helper.make_graph(
            self._nodes,
            "gnomon",
            [_described(*one) for one in inputs],
            [_described(name, kind, shape) for _, name, kind, shape in outputs],
            self._constants,
        )
        domains = [helper.make_opsetid("", _OPERATOR_SET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=_FORMAT, producer_name="gnomon")

    def _rename(self, names: Mapping[str, str]) -> None:
        """Call tensors otherwise. An Identity would do, but for memory that must come out where it went in."""
        for node in self._nodes:
            for place in (node.input, node.output):
                place[:] = [names.get(tensor, tensor) for tensor in place]


def _described(name: str, kind: np.dtype[Any], shape: Sequence[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape)
