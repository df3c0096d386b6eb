"""The inner loops of attention over keys and values held as 16-bit floats, for up to `HEADS` queries at once.

Keys lie in tiles of `LANES` columns, [T / LANES, d, LANES]: a register holds one feature of sixteen keys, and each
feature of a query multiplies all of them. Values lie in parts of `LANES` features, [d / LANES, T, LANES]. Both are read
from end to end, once for all queries that share them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from gnomon.runtime.block_lanes import LANES
from gnomon.vectors.emitter import FLOAT, INT32, INT64, Emitter, cgutils, emits

HEADS = 4
"""Queries that go through keys or values together."""

_REGISTER = 4 * LANES  # bytes
_SHORT = 2  # bytes of a 16-bit float
_LARGEST = 65504.0  # of 16-bit floats
_TILES = {1: 4, 2: 2, 3: 2, 4: 1}  # of keys, at once: sums that do not wait for each other
_ROWS = {1: 4, 2: 2, 3: 2, 4: 1}  # of values

KEYS = LANES * max(_TILES.values())
"""Keys are read in multiples of so many."""


_NUMBER = types.int64


@emits(types.void(*[_NUMBER] * 5, types.float32, _NUMBER, _NUMBER), LANES)
def compare(
    emit: Emitter, heads: Any, queries: Any, keys: Any, size: Any, tiles: Any, factor: Any, scores: Any, stride: Any
) -> None:
    """`scores` [heads, stride] = factor times the products of queries [heads, d] with keys, in tiles.

    At most HEADS heads. Addresses, and numbers: features of a head, tiles of keys (which are read in multiples of
    `KEYS` columns), bytes between two heads' scores.
    """
    for number in range(1, HEADS + 1):
        with _where(emit, heads, number):
            _compare(emit, number, queries, keys, size, tiles, factor, scores, stride)


def _compare(
    emit: Emitter, heads: int, queries: Any, keys: Any, size: Any, tiles: Any, factor: Any, scores: Any, stride: Any
) -> None:
    builder, together = emit.builder, _TILES[heads]
    sums = [[cgutils.alloca_once(builder, emit.floats) for _ in range(together)] for _ in range(heads)]
    tile_bytes, head_bytes = (builder.mul(size, ir.Constant(INT64, each)) for each in (LANES * _SHORT, 4))
    with cgutils.for_range(builder, _rounds(emit, tiles, together)) as turn:
        _clear(emit, sums)
        first = builder.mul(turn.index, ir.Constant(INT64, together))
        places = [builder.add(first, ir.Constant(INT64, tile)) for tile in range(together)]
        begins = [emit.offset(keys, tile_bytes, place) for place in places]
        with cgutils.for_range(builder, size) as feature:
            columns = [emit.shorts(emit.offset(begin, LANES * _SHORT, feature.index)) for begin in begins]
            for head, slots in enumerate(sums):
                query = emit.offset(emit.offset(queries, head_bytes, head), 4, feature.index)
                value = emit.spread(emit.load(query, FLOAT))
                for column, slot in zip(columns, slots, strict=True):
                    builder.store(emit.fma(value, column, builder.load(slot)), slot)
        for head, slots in enumerate(sums):
            row = emit.offset(scores, stride, head)
            for place, slot in zip(places, slots, strict=True):
                found = builder.fmul(builder.load(slot), emit.spread(factor))
                emit.store(found, emit.offset(row, _REGISTER, place))


@emits(types.void(*[_NUMBER] * 7), LANES)
def weigh(
    emit: Emitter, heads: Any, weights: Any, stride: Any, values: Any, count: Any, out: Any, out_stride: Any
) -> None:
    """`out` [heads, LANES] = the sum over `count` rows of one part of the values of weight times row.

    At most HEADS heads. Addresses, and numbers: bytes between two heads' weights and between their results. Weights
    after the last row are 0 up to whole registers, and what lies there in the values is a number.
    """
    for number in range(1, HEADS + 1):
        with _where(emit, heads, number):
            _weigh(emit, number, weights, stride, values, count, out, out_stride)


def _weigh(
    emit: Emitter, heads: int, weights: Any, stride: Any, values: Any, count: Any, out: Any, out_stride: Any
) -> None:
    builder, together = emit.builder, _ROWS[heads]
    sums = [[cgutils.alloca_once(builder, emit.floats) for _ in range(together)] for _ in range(heads)]
    _clear(emit, sums)
    with cgutils.for_range(builder, _rounds(emit, count, together)) as turn:
        first = builder.mul(turn.index, ir.Constant(INT64, together))
        for number in range(together):
            index = builder.add(first, ir.Constant(INT64, number))
            row = emit.shorts(emit.offset(values, LANES * _SHORT, index))
            for head, slots in enumerate(sums):
                weight = emit.load(emit.offset(emit.offset(weights, stride, head), 4, index), FLOAT)
                total = emit.fma(emit.spread(weight), row, builder.load(slots[number]))
                builder.store(total, slots[number])
    for head, slots in enumerate(sums):
        total = builder.load(slots[0])
        for slot in slots[1:]:
            total = builder.fadd(total, builder.load(slot))
        emit.store(total, emit.offset(out, out_stride, head))


def _where(emit: Emitter, heads: Any, number: int) -> Any:
    """The code for so many heads."""
    return emit.builder.if_then(emit.builder.icmp_signed("==", heads, ir.Constant(INT64, number)))


def _rounds(emit: Emitter, count: Any, together: int) -> Any:
    """How often `together` things go into `count`, rounded up."""
    more = emit.builder.add(count, ir.Constant(INT64, together - 1))
    return emit.builder.udiv(more, ir.Constant(INT64, together))


def _clear(emit: Emitter, sums: list[list[Any]]) -> None:
    for slot in (slot for of_head in sums for slot in of_head):
        emit.builder.store(emit.constant(0.0), slot)


@emits(types.void(*[_NUMBER] * 4), LANES)
def shorten(emit: Emitter, values: Any, chunks: Any, out: Any, stride: Any) -> None:
    """Write `chunks` registers of float32 as 16-bit floats, held within their range: number i at `out` + i `stride`."""
    builder = emit.builder
    with cgutils.for_range(builder, chunks) as chunk:
        value = emit.load(emit.offset(values, _REGISTER, chunk.index))
        held = emit.call("minnum", emit.call("maxnum", value, emit.constant(-_LARGEST)), emit.constant(_LARGEST))
        found = builder.fptrunc(held, ir.VectorType(ir.HalfType(), LANES))
        first = builder.mul(chunk.index, ir.Constant(INT64, LANES))
        for lane in range(LANES):
            place = emit.offset(out, stride, builder.add(first, ir.Constant(INT64, lane)))
            number = builder.extract_element(found, ir.Constant(INT32, lane))
            builder.store(number, builder.inttoptr(place, ir.HalfType().as_pointer()), align=_SHORT)


@emits(types.float32(_NUMBER, _NUMBER, types.float32), LANES)
def exponentials(emit: Emitter, values: Any, chunks: Any, highest: Any) -> Any:
    """Replace `chunks` registers of float32 by exp(value - highest), `highest` their maximum; their sum."""
    builder = emit.builder
    total = cgutils.alloca_once(builder, emit.floats)
    builder.store(emit.constant(0.0), total)
    shift = emit.spread(highest)
    with cgutils.for_range(builder, chunks) as chunk:
        place = emit.offset(values, _REGISTER, chunk.index)
        found = emit.exp(emit.call("maxnum", builder.fsub(emit.load(place), shift), emit.constant(-80.0)))
        emit.store(found, place)
        builder.store(builder.fadd(builder.load(total), found), total)
    return emit.called(f"llvm.vector.reduce.fadd.v{LANES}f32", FLOAT, ir.Constant(FLOAT, 0.0), builder.load(total))
