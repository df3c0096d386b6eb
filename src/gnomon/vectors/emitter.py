"""Vector operations over LLVM's IR builder, for the few loops where plain numba does not come near.

Memory is passed by address. A kernel's file says how wide its registers are; the operations here are any width's.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils as untyped_cgutils

cgutils: Any = untyped_cgutils

BYTE = ir.IntType(8)
FLOAT = ir.FloatType()
INT32 = ir.IntType(32)
INT64 = ir.IntType(64)
LOG2_E = 1.4426950408889634
_EXP2 = (0.0013333558, 0.0096181291, 0.0555041087, 0.2402265069, 0.6931471806, 1.0)
"""exp2 on [-0.5, 0.5], highest power first; relative error below 4e-6."""


class Emitter:
    """Operations on vectors of `lanes` floats or 32-bit integers, emitted where `builder` stands."""

    def __init__(self, builder: Any, lanes: int) -> None:
        self.builder = builder
        self.lanes = lanes
        self.floats = ir.VectorType(FLOAT, lanes)
        self.ints = ir.VectorType(INT32, lanes)

    def call(self, name: str, *values: Any) -> Any:
        """LLVM's own function `name` of float vectors."""
        signature = ir.FunctionType(self.floats, [self.floats] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.{name}.v{self.lanes}f32")
        return self.builder.call(function, values)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        return self.call("fma", a, b, c)

    def constant(self, value: float) -> Any:
        """A float in every lane."""
        return ir.Constant(self.floats, [value] * self.lanes)

    def integers(self, value: int) -> Any:
        """A 32-bit integer in every lane."""
        return ir.Constant(self.ints, [value] * self.lanes)

    def offset(self, address: Any, size: int, index: Any) -> Any:
        """The address of element `index`, a number or a value, of elements of `size` bytes."""
        scaled = self.builder.mul(index, ir.Constant(INT64, size)) if isinstance(index, ir.Value) else None
        return self.builder.add(address, scaled if scaled is not None else ir.Constant(INT64, size * index))

    def load(self, address: Any, kind: Any = None, align: int = 4) -> Any:
        """What lies at an address: floats in every lane unless `kind` says otherwise."""
        kind = self.floats if kind is None else kind
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align)

    def store(self, value: Any, address: Any) -> None:
        """Write a vector."""
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer()), align=4)

    def spread(self, value: Any) -> Any:
        """A number in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(INT32, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(self.ints, [0] * self.lanes))

    def exp(self, x: Any) -> Any:
        """exp(x) of x within [-87, 88]: by a polynomial and an exponent."""
        power = self.builder.fmul(x, self.constant(LOG2_E))
        whole = self.call("rint", power)
        part = self.builder.fsub(power, whole)
        fraction = self.constant(_EXP2[0])
        for coefficient in _EXP2[1:]:
            fraction = self.fma(fraction, part, self.constant(coefficient))
        biased = self.builder.add(self.builder.fptosi(whole, self.ints), self.integers(127))
        return self.builder.fmul(
            fraction, self.builder.bitcast(self.builder.shl(biased, self.integers(23)), self.floats)
        )

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x)), with x held within [-30, 30]."""
        held = self.call("minnum", self.call("maxnum", x, self.constant(-30.0)), self.constant(30.0))
        return self.builder.fdiv(
            self.constant(1.0), self.builder.fadd(self.constant(1.0), self.exp(self.builder.fneg(held)))
        )
