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
from gnomon.vectors.compiling import emitted
from gnomon.vectors.emitter import FLOAT, INT64, Emitter, cgutils

HEADS = 4
"""Queries that go through keys or values together."""

_LINE = 64  # bytes of a register
_SHORT = 2  # bytes of a 16-bit float
_LARGEST = 65504.0  # of 16-bit floats
_HALVES = ir.VectorType(ir.HalfType(), LANES)
_TILES = {1: 4, 2: 2, 3: 2, 4: 1}  # of keys, at once: sums that do not wait for each other
_ROWS = {1: 4, 2: 2, 3: 2, 4: 1}  # of values

KEYS = LANES * max(_TILES.values())
"""Keys are read in multiples of so many."""


def _short(emit: Emitter, address: Any) -> Any:
    """A register of floats from as many of 16 bits."""
    return emit.builder.fpext(emit.load(address, _HALVES, LANES * _SHORT), emit.floats)


def _compare(heads: int) -> Any:
    """`scores` [heads, stride] = factor times the products of queries [heads, d] with keys, in tiles.

    Addresses, and numbers: features of a head, bytes between two heads' scores, tiles of keys (rounded up to `KEYS`).
    """

    @emitted
    def compare(
        typing: Any, queries: Any, keys: Any, size: Any, tiles: Any, factor: Any, scores: Any, stride: Any
    ) -> Any:
        def emit_compare(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            queries, keys, size, tiles, factor, scores, stride = arguments
            emit, together = Emitter(builder, LANES), _TILES[heads]
            sums = [[cgutils.alloca_once(builder, emit.floats) for _ in range(together)] for _ in range(heads)]
            tile_bytes = builder.mul(size, ir.Constant(INT64, LANES * _SHORT))
            count = ir.Constant(INT64, together)
            rounds = builder.udiv(builder.add(tiles, ir.Constant(INT64, together - 1)), count)
            with cgutils.for_range(builder, rounds) as turn:
                first = builder.mul(turn.index, count)
                for slot in (slot for of_head in sums for slot in of_head):
                    builder.store(emit.constant(0.0), slot)
                places = [builder.add(first, ir.Constant(INT64, tile)) for tile in range(together)]
                begins = [builder.add(keys, builder.mul(place, tile_bytes)) for place in places]
                with cgutils.for_range(builder, size) as feature:
                    columns = [_short(emit, emit.offset(begin, LANES * _SHORT, feature.index)) for begin in begins]
                    for head, slots in enumerate(sums):
                        query = emit.offset(queries, 4, builder.mul(size, ir.Constant(INT64, head)))
                        value = emit.spread(emit.load(emit.offset(query, 4, feature.index), FLOAT))
                        for column, slot in zip(columns, slots, strict=True):
                            builder.store(emit.fma(value, column, builder.load(slot)), slot)
                for head, slots in enumerate(sums):
                    row = builder.add(scores, builder.mul(stride, ir.Constant(INT64, head)))
                    for place, slot in zip(places, slots, strict=True):
                        found = builder.fmul(builder.load(slot), emit.spread(factor))
                        emit.store(found, emit.offset(row, LANES * 4, place))
            return context.get_dummy_value()

        integer = types.int64
        return types.void(integer, integer, integer, integer, types.float32, integer, integer), emit_compare

    return compare


def _weigh(heads: int) -> Any:
    """`out` [heads, LANES] = the sum over `count` rows of one part of the values of weight times row.

    Addresses, and numbers: bytes between two heads' weights and between their results. Weights after the last row are 0
    up to whole registers, and what lies there in the values is a number.
    """

    @emitted
    def weigh(typing: Any, weights: Any, stride: Any, values: Any, count: Any, out: Any, out_stride: Any) -> Any:
        def emit_weigh(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            weights, stride, values, count, out, out_stride = arguments
            emit, together = Emitter(builder, LANES), _ROWS[heads]
            sums = [[cgutils.alloca_once(builder, emit.floats) for _ in range(together)] for _ in range(heads)]
            for slot in (slot for of_head in sums for slot in of_head):
                builder.store(emit.constant(0.0), slot)
            at_once = ir.Constant(INT64, together)
            rounds = builder.udiv(builder.add(count, ir.Constant(INT64, together - 1)), at_once)
            with cgutils.for_range(builder, rounds) as turn:
                first = builder.mul(turn.index, at_once)
                for number in range(together):
                    index = builder.add(first, ir.Constant(INT64, number))
                    row = _short(emit, emit.offset(values, LANES * _SHORT, index))
                    for head, slots in enumerate(sums):
                        beside = builder.add(weights, builder.mul(stride, ir.Constant(INT64, head)))
                        weight = emit.spread(emit.load(emit.offset(beside, 4, index), FLOAT))
                        builder.store(emit.fma(weight, row, builder.load(slots[number])), slots[number])
            for head, slots in enumerate(sums):
                total = builder.load(slots[0])
                for slot in slots[1:]:
                    total = builder.fadd(total, builder.load(slot))
                emit.store(total, builder.add(out, builder.mul(out_stride, ir.Constant(INT64, head))))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), emit_weigh

    return weigh


compare_1, compare_2, compare_3, compare_4 = (_compare(heads) for heads in range(1, HEADS + 1))
weigh_1, weigh_2, weigh_3, weigh_4 = (_weigh(heads) for heads in range(1, HEADS + 1))


@emitted
def shorten(typing: Any, values: Any, chunks: Any, out: Any, stride: Any) -> Any:
    """Write `chunks` registers of float32 as 16-bit floats, held within their range: number i at `out` + i `stride`."""

    def emit_shorten(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, chunks, out, stride = arguments
        emit = Emitter(builder, LANES)
        with cgutils.for_range(builder, chunks) as chunk:
            value = emit.load(emit.offset(values, LANES * 4, chunk.index))
            held = emit.call("minnum", emit.call("maxnum", value, emit.constant(-_LARGEST)), emit.constant(_LARGEST))
            found = builder.fptrunc(held, _HALVES)
            first = builder.mul(chunk.index, ir.Constant(INT64, LANES))
            for lane in range(LANES):
                index = builder.add(first, ir.Constant(INT64, lane))
                place = builder.add(out, builder.mul(index, stride))
                number = builder.extract_element(found, ir.Constant(ir.IntType(32), lane))
                builder.store(number, builder.inttoptr(place, ir.HalfType().as_pointer()), align=_SHORT)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit_shorten


@emitted
def exponentials(typing: Any, values: Any, chunks: Any, highest: Any) -> Any:
    """Replace `chunks` registers of float32 by exp(value - highest), `highest` their maximum; their sum."""

    def emit_exponentials(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, chunks, highest = arguments
        emit = Emitter(builder, LANES)
        total = cgutils.alloca_once(builder, emit.floats)
        builder.store(emit.constant(0.0), total)
        shift = emit.spread(highest)
        with cgutils.for_range(builder, chunks) as chunk:
            place = emit.offset(values, _LINE, chunk.index)
            found = emit.exp(emit.call("maxnum", builder.fsub(emit.load(place), shift), emit.constant(-80.0)))
            emit.store(found, place)
            builder.store(builder.fadd(builder.load(total), found), total)
        kind = ir.FunctionType(FLOAT, [FLOAT, emit.floats])
        add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return builder.call(add, [ir.Constant(FLOAT, 0.0), builder.load(total)])

    return types.float32(types.int64, types.int64, types.float32), emit_exponentials
