"""Vector operations over LLVM's IR builder, for the few loops where plain numba does not come near.

Memory is passed by address. A kernel's file says how wide its registers are; the operations here are any width's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

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

    def called(self, name: str, result: Any, *values: Any) -> Any:
        """What the function `name`, LLVM's own or the process's, gives for `values`, of the type `result`."""
        signature = ir.FunctionType(result, [value.type for value in values])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, signature, name), values)

    def call(self, name: str, *values: Any) -> Any:
        """LLVM's own function `name` of float vectors."""
        return self.called(f"llvm.{name}.v{self.lanes}f32", self.floats, *values)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a b + c, rounded once."""
        return self.call("fma", a, b, c)

    def constant(self, value: float) -> Any:
        """A float in every lane."""
        return ir.Constant(self.floats, [value] * self.lanes)

    def integers(self, value: int) -> Any:
        """A 32-bit integer in every lane."""
        return ir.Constant(self.ints, [value] * self.lanes)

    def offset(self, address: Any, size: Any, index: Any) -> Any:
        """The address of element `index` of elements of `size` bytes; both may be numbers or values."""
        if isinstance(size, int) and isinstance(index, int):
            return self.builder.add(address, ir.Constant(INT64, size * index))
        size, index = (ir.Constant(INT64, one) if isinstance(one, int) else one for one in (size, index))
        return self.builder.add(address, self.builder.mul(size, index))

    def load(self, address: Any, kind: Any = None, align: int = 4) -> Any:
        """What lies at an address: floats in every lane unless `kind` says otherwise."""
        kind = self.floats if kind is None else kind
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align)

    def shorts(self, address: Any) -> Any:
        """Floats in every lane from as many 16-bit ones, which begin at a multiple of their bytes."""
        kind = ir.VectorType(ir.HalfType(), self.lanes)
        return self.builder.fpext(self.load(address, kind, 2 * self.lanes), self.floats)

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


def emits(signature: Any, lanes: int) -> Callable[[Callable[..., Any]], Any]:
    """A function for kernels to call, of numba's `signature`, whose machine code the decorated one writes.

    That one is given an `Emitter` and the arguments as values; what it returns, if anything, is the result.
    """

    def decorated(write: Callable[..., Any]) -> Any:
        def typed(typing: Any, *kinds: Any) -> Any:
            def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                result = write(Emitter(builder, lanes), *arguments)
                return context.get_dummy_value() if result is None else result

            return signature, emit

        typed.__name__, typed.__doc__ = write.__name__, write.__doc__
        names = ["typing", *(f"argument_{number}" for number in range(len(signature.args)))]  # numba counts them
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        typed.__dict__["__signature__"] = inspect.Signature(parameters)
        return intrinsic(typed)

    return decorated
