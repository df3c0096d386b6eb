"""The inner step of negative sampling in explicit vector code: the one place where plain loops do not come near.

A window is m input rows against up to six output rows: 6 m dot products, 6 m sigmoids, then two updates of rank m and
rank 6, in place. Written as plain numba loops LLVM cannot prove that the rows are apart, so it neither keeps the six
output rows in registers nor vectorises the updates: 500 ns a pair of words at 100 dimensions against 50 here, and 1,220
against 123 at 300 (one thread of a Zen 4 at 256-bit registers, which is also what AVX2 has).

Rows are padded to a multiple of `LANES` floats and passed by address. `OUTPUTS` rows are always computed: where fewer
are used, the others must be a row of zeros, which stays one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_cgutils

from gnomon.vectors.compiling import emitted

cgutils: Any = untyped_cgutils

LANES = 8
"""Floats in one register: 256 bits, so that AVX2 keeps twelve sums in its sixteen registers."""
OUTPUTS = 6
"""Output rows of one call: the word itself and five negatives."""
LINE = 64
"""Bytes of a cache line."""

_FLOAT = ir.FloatType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_FLOATS = ir.VectorType(_FLOAT, LANES)
_INTS = ir.VectorType(_INT32, LANES)
_LOG2_E = 1.4426950408889634
_EXP2 = (0.0013333558, 0.0096181291, 0.0555041087, 0.2402265069, 0.6931471806, 1.0)
"""exp2 on [-0.5, 0.5], highest power first; relative error below 4e-6."""


class _Emitter:
    """The handful of vector operations the step needs, over one IR builder."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def call(self, name: str, *values: Any) -> Any:
        signature = ir.FunctionType(_FLOATS, [_FLOATS] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"llvm.{name}.v{LANES}f32")
        return self.builder.call(function, values)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.call("fma", a, b, c)

    def constant(self, value: float) -> Any:
        return ir.Constant(_FLOATS, [value] * LANES)

    def offset(self, address: Any, size: int, index: Any) -> Any:
        scaled = self.builder.mul(index, ir.Constant(_INT64, size)) if isinstance(index, ir.Value) else None
        return self.builder.add(address, scaled if scaled is not None else ir.Constant(_INT64, size * index))

    def load(self, address: Any, kind: Any = _FLOATS, align: int = 4) -> Any:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align)

    def store(self, value: Any, address: Any) -> None:
        self.builder.store(value, self.builder.inttoptr(address, _FLOATS.as_pointer()), align=4)

    def spread(self, value: Any) -> Any:
        """A number in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(_INT32, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(_INTS, [0] * LANES))

    def pick(self, lanes: Sequence[int], a: Any, b: Any) -> Any:
        return self.builder.shuffle_vector(a, b, ir.Constant(_INTS, list(lanes)))

    def sums(self, vectors: list[Any]) -> Any:
        """Lane i of the result is the sum of the lanes of `vectors[i]` (eight vectors)."""
        even, odd = (0, 2, 8, 10, 4, 6, 12, 14), (1, 3, 9, 11, 5, 7, 13, 15)
        for _ in range(2):
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self.builder.fadd(self.pick(even, a, b), self.pick(odd, a, b)) for a, b in pairs]
        low, high = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)
        return self.builder.fadd(self.pick(low, *vectors), self.pick(high, *vectors))

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x)), with x held within [-30, 30]: exp by a polynomial and an exponent."""
        held = self.call("minnum", self.call("maxnum", x, self.constant(-30.0)), self.constant(30.0))
        power = self.builder.fmul(held, self.constant(-_LOG2_E))
        whole = self.call("rint", power)
        part = self.builder.fsub(power, whole)
        fraction = self.constant(_EXP2[0])
        for coefficient in _EXP2[1:]:
            fraction = self.fma(fraction, part, self.constant(coefficient))
        biased = self.builder.add(self.builder.fptosi(whole, _INTS), ir.Constant(_INTS, [127] * LANES))
        scale = self.builder.bitcast(self.builder.shl(biased, ir.Constant(_INTS, [23] * LANES)), _FLOATS)
        return self.builder.fdiv(self.constant(1.0), self.fma(fraction, scale, self.constant(1.0)))


def _errors(emit: _Emitter, rows: list[Any], outputs: list[Any], chunks: Any, labels: Any, rates: Any) -> list[Any]:
    """For each input row, (label - sigmoid(row . output)) * rate in the lane of each output."""
    builder = emit.builder
    totals = [[cgutils.alloca_once_value(builder, emit.constant(0.0)) for _ in outputs] for _ in rows]
    for total in (total for of_row in totals for total in of_row):
        builder.store(emit.constant(0.0), total)
    with cgutils.for_range(builder, chunks) as loop:
        values = [emit.load(emit.offset(row, 4 * LANES, loop.index)) for row in rows]
        for column, output in enumerate(outputs):
            other = emit.load(emit.offset(output, 4 * LANES, loop.index))
            for value, of_row in zip(values, totals, strict=True):
                builder.store(emit.fma(value, other, builder.load(of_row[column])), of_row[column])
    unused = [emit.constant(0.0)] * (LANES - len(outputs))
    dots = [emit.sums([builder.load(total) for total in of_row] + unused) for of_row in totals]
    return [builder.fmul(builder.fsub(labels, emit.sigmoid(dot)), rates) for dot in dots]


def _update(emit: _Emitter, inputs: Any, count: Any, outputs: list[Any], errors: Any, chunks: Any) -> None:
    """Move every input row along the old output rows and every output row along the input rows, two at a time."""
    builder = emit.builder
    moved = [cgutils.alloca_once_value(builder, emit.constant(0.0)) for _ in outputs]
    with cgutils.for_range(builder, chunks) as chunk:
        places = [emit.offset(output, 4 * LANES, chunk.index) for output in outputs]
        old = [emit.load(place) for place in places]
        for value, slot in zip(old, moved, strict=True):
            builder.store(value, slot)
        one = ir.Constant(_INT64, 1)
        with cgutils.for_range(builder, builder.lshr(builder.add(count, one), one)) as pair:
            first = builder.shl(pair.index, one)
            for number in range(2):
                index = builder.add(first, ir.Constant(_INT64, number))
                place = emit.offset(emit.load(emit.offset(inputs, 8, index), _INT64, 8), 4 * LANES, chunk.index)
                value = emit.load(place)
                error = emit.offset(errors, 4 * LANES, index)
                sums = [value, emit.constant(0.0)]  # two chains, so that one fma need not wait for the one before it
                for column, (other, slot) in enumerate(zip(old, moved, strict=True)):
                    weight = emit.spread(emit.load(emit.offset(error, 4, column), _FLOAT))
                    sums[column % 2] = emit.fma(weight, other, sums[column % 2])
                    builder.store(emit.fma(weight, value, builder.load(slot)), slot)
                emit.store(builder.fadd(*sums), place)
        for slot, place in zip(moved, places, strict=True):
            emit.store(builder.load(slot), place)


@emitted
def step(
    typing: Any, inputs: Any, count: Any, outputs: Any, used: Any, label: Any, rate: Any, errors: Any, chunks: Any
) -> Any:
    """One window: `count` input rows against `used` of `OUTPUTS` output rows, both tables updated in place.

    `inputs` and `outputs` are addresses of int64 arrays of row addresses; inputs[count] (for rows go two at a time) and
    and outputs[used:] must be a row of zeros. The first output row has the label `label`, the others 0; `rate` is the
    learning rate (both float32). `errors` is the address of room for `LANES` float32 for each of count + 1 rows, or
    count + 2 where that is odd: (label - sigmoid) * rate is left there. `chunks` is the row length over `LANES`.
    Source: Mikolov et al. 2013, with the negatives shared over the window.
    """

    def emit_step(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        inputs, count, outputs, used, label, rate, errors, chunks = arguments
        emit = _Emitter(builder)
        rows = [emit.load(emit.offset(outputs, 8, column), _INT64, 8) for column in range(OUTPUTS)]
        zero, lanes = emit.constant(0.0), ir.Constant(_INTS, list(range(LANES)))
        limit = emit.spread(builder.trunc(used, _INT32))
        rates = builder.select(builder.icmp_signed("<", lanes, limit), emit.spread(rate), zero)
        labels = builder.insert_element(zero, label, ir.Constant(_INT32, 0))
        one = ir.Constant(_INT64, 1)
        with cgutils.for_range(builder, builder.lshr(builder.add(count, one), one)) as pair:
            first = builder.shl(pair.index, one)
            places = [emit.offset(inputs, 8, first), emit.offset(inputs, 8, builder.add(first, one))]
            tile = [emit.load(place, _INT64, 8) for place in places]
            for number, error in enumerate(_errors(emit, tile, rows, chunks, labels, rates)):
                emit.store(error, emit.offset(emit.offset(errors, 4 * LANES, first), 4 * LANES, number))
        emit.store(zero, emit.offset(errors, 4 * LANES, count))  # the row of zeros stays one
        _update(emit, inputs, count, rows, errors, chunks)
        return context.get_dummy_value()

    integer, number = types.int64, types.float32
    return types.void(integer, integer, integer, integer, number, number, integer, integer), emit_step


@emitted
def move(typing: Any, target: Any, source: Any, factor: Any, chunks: Any) -> Any:
    """Add `factor` (float32) times the row at the address `source` to the row at `target`."""

    def emit_move(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source, factor, chunks = arguments
        emit = _Emitter(builder)
        factors = emit.spread(factor)
        with cgutils.for_range(builder, chunks) as chunk:
            place = emit.offset(target, 4 * LANES, chunk.index)
            added = emit.load(emit.offset(source, 4 * LANES, chunk.index))
            emit.store(emit.fma(factors, added, emit.load(place)), place)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32, types.int64), emit_move


@emitted
def prefetch(typing: Any, address: Any, lines: Any) -> Any:
    """Ask for `lines` cache lines from `address` on, for writing."""

    def emit_prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, lines = arguments
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT32, _INT32, _INT32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        hints = [ir.Constant(_INT32, value) for value in (1, 3, 1)]  # for writing, keep close, data
        emit = _Emitter(builder)
        with cgutils.for_range(builder, lines) as line:
            builder.call(function, [builder.inttoptr(emit.offset(address, LINE, line.index), byte), *hints])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), emit_prefetch
