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

from gnomon.vectors.emitter import BYTE, FLOAT, INT32, INT64, Emitter, cgutils, emits

LANES = 8
"""Floats in one register: 256 bits, so that AVX2 keeps twelve sums in its sixteen registers."""
OUTPUTS = 6
"""Output rows of one call: the word itself and five negatives."""
LINE = 64
"""Bytes of a cache line."""


def _sums(emit: Emitter, vectors: list[Any]) -> Any:
    """Lane i of the result is the sum of the lanes of `vectors[i]` (eight vectors)."""

    def pick(lanes: Sequence[int], a: Any, b: Any) -> Any:
        return emit.builder.shuffle_vector(a, b, ir.Constant(emit.ints, list(lanes)))

    even, odd = (0, 2, 8, 10, 4, 6, 12, 14), (1, 3, 9, 11, 5, 7, 13, 15)
    for _ in range(2):
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [emit.builder.fadd(pick(even, a, b), pick(odd, a, b)) for a, b in pairs]
    low, high = (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)
    return emit.builder.fadd(pick(low, *vectors), pick(high, *vectors))


def _errors(emit: Emitter, rows: list[Any], outputs: list[Any], chunks: Any, labels: Any, rates: Any) -> list[Any]:
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
    dots = [_sums(emit, [builder.load(total) for total in of_row] + unused) for of_row in totals]
    return [builder.fmul(builder.fsub(labels, emit.sigmoid(dot)), rates) for dot in dots]


def _update(emit: Emitter, inputs: Any, count: Any, outputs: list[Any], errors: Any, chunks: Any) -> None:
    """Move every input row along the old output rows and every output row along the input rows, two at a time."""
    builder = emit.builder
    moved = [cgutils.alloca_once_value(builder, emit.constant(0.0)) for _ in outputs]
    with cgutils.for_range(builder, chunks) as chunk:
        places = [emit.offset(output, 4 * LANES, chunk.index) for output in outputs]
        old = [emit.load(place) for place in places]
        for value, slot in zip(old, moved, strict=True):
            builder.store(value, slot)
        one = ir.Constant(INT64, 1)
        with cgutils.for_range(builder, builder.lshr(builder.add(count, one), one)) as pair:
            first = builder.shl(pair.index, one)
            for number in range(2):
                index = builder.add(first, ir.Constant(INT64, number))
                place = emit.offset(emit.load(emit.offset(inputs, 8, index), INT64, 8), 4 * LANES, chunk.index)
                value = emit.load(place)
                error = emit.offset(errors, 4 * LANES, index)
                sums = [value, emit.constant(0.0)]  # two chains, so that one fma need not wait for the one before it
                for column, (other, slot) in enumerate(zip(old, moved, strict=True)):
                    weight = emit.spread(emit.load(emit.offset(error, 4, column), FLOAT))
                    sums[column % 2] = emit.fma(weight, other, sums[column % 2])
                    builder.store(emit.fma(weight, value, builder.load(slot)), slot)
                emit.store(builder.fadd(*sums), place)
        for slot, place in zip(moved, places, strict=True):
            emit.store(builder.load(slot), place)


_NUMBER = types.int64


@emits(types.void(*[_NUMBER] * 4, types.float32, types.float32, _NUMBER, _NUMBER), LANES)
def step(
    emit: Emitter, inputs: Any, count: Any, outputs: Any, used: Any, label: Any, rate: Any, errors: Any, chunks: Any
) -> None:
    """One window: `count` input rows against `used` of `OUTPUTS` output rows, both tables updated in place.

    `inputs` and `outputs` are addresses of int64 arrays of row addresses; inputs[count] (for rows go two at a time) and
    and outputs[used:] must be a row of zeros. The first output row has the label `label`, the others 0; `rate` is the
    learning rate (both float32). `errors` is the address of room for `LANES` float32 for each of count + 1 rows, or
    count + 2 where that is odd: (label - sigmoid) * rate is left there. `chunks` is the row length over `LANES`.
    Source: Mikolov et al. 2013, with the negatives shared over the window.
    """
    builder = emit.builder
    rows = [emit.load(emit.offset(outputs, 8, column), INT64, 8) for column in range(OUTPUTS)]
    zero, lanes = emit.constant(0.0), ir.Constant(emit.ints, list(range(LANES)))
    limit = emit.spread(builder.trunc(used, INT32))
    rates = builder.select(builder.icmp_signed("<", lanes, limit), emit.spread(rate), zero)
    labels = builder.insert_element(zero, label, ir.Constant(INT32, 0))
    one = ir.Constant(INT64, 1)
    with cgutils.for_range(builder, builder.lshr(builder.add(count, one), one)) as pair:
        first = builder.shl(pair.index, one)
        places = [emit.offset(inputs, 8, first), emit.offset(inputs, 8, builder.add(first, one))]
        tile = [emit.load(place, INT64, 8) for place in places]
        for number, error in enumerate(_errors(emit, tile, rows, chunks, labels, rates)):
            emit.store(error, emit.offset(emit.offset(errors, 4 * LANES, first), 4 * LANES, number))
    emit.store(zero, emit.offset(errors, 4 * LANES, count))  # the row of zeros stays one
    _update(emit, inputs, count, rows, errors, chunks)


@emits(types.void(_NUMBER, _NUMBER, types.float32, _NUMBER), LANES)
def move(emit: Emitter, target: Any, source: Any, factor: Any, chunks: Any) -> None:
    """Add `factor` (float32) times the row at the address `source` to the row at `target`."""
    factors = emit.spread(factor)
    with cgutils.for_range(emit.builder, chunks) as chunk:
        place = emit.offset(target, 4 * LANES, chunk.index)
        added = emit.load(emit.offset(source, 4 * LANES, chunk.index))
        emit.store(emit.fma(factors, added, emit.load(place)), place)


@emits(types.void(_NUMBER, _NUMBER), LANES)
def prefetch(emit: Emitter, address: Any, lines: Any) -> None:
    """Ask for `lines` cache lines from `address` on, for writing."""
    hints = [ir.Constant(INT32, value) for value in (1, 3, 1)]  # for writing, keep close, data
    with cgutils.for_range(emit.builder, lines) as line:
        place = emit.builder.inttoptr(emit.offset(address, LINE, line.index), BYTE.as_pointer())
        emit.called("llvm.prefetch.p0", ir.VoidType(), place, *hints)
