"""The inner loops of products with narrow weights, and of the gate between them, in explicit vector code.

A matrix of 8- or 4-bit numbers is laid out in tiles of `LANES` rows: each lane of a register is a row, so that a
block's scales multiply sixteen rows at once and no lane is ever added to another. One instruction (VNNI's vpdpbusd)
multiplies four columns of sixteen rows. One row of activations is then computed about as fast as memory gives the
weights; `make bench-generate` measures what that brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from llvmlite import binding, ir
from numba import config, types

from gnomon.vectors.emitter import BYTE, FLOAT, INT32, INT64, Emitter, cgutils, emits

LANES = 16
"""Rows of a tile: 32-bit numbers in a register of 512 bits."""
PIECE = 16
"""Columns of one turn of the inner loop; a block's size is a multiple of it."""

_REGISTER = 4 * LANES  # bytes
_QUAD = 4  # columns of one instruction
_LOWER = 15


def _features() -> Mapping[str, bool]:
    """What the processor that numba compiles for has; NUMBA_CPU_FEATURES may say that it is another."""
    said: str | None = getattr(config, "CPU_FEATURES", None)
    if said:
        return {part[1:]: part[0] == "+" for part in said.split(",") if part}
    features: Mapping[str, bool] = binding.get_host_cpu_features()
    return features


def _has(*names: str) -> bool:
    return all(_features().get(name, False) for name in names)


VNNI = _has("avx512f", "avx512bw", "avx512vl", "avx512vnni")
"""Whether one instruction multiplies four columns of LANES rows; AVX2 needs several."""

TILE = 4 if VNNI else 2
"""Rows of activations that go through a product together where there are so many: as registers allow."""


def available() -> bool:
    """Whether this processor has the instructions: AVX-512 with VNNI, or AVX2 with FMA and F16C."""
    return VNNI or _has("avx2", "fma", "f16c")


class _Products:
    """Sums of products of unsigned weights [quads of columns, LANES rows, 4] and signed activations."""

    def __init__(self, emit: Emitter, bits: int, tile: int) -> None:
        self.emit = emit
        self.builder = builder = emit.builder
        self.bits = bits
        self.tile = range(tile)
        self.middle = 0 if bits == 8 and not VNNI else 1 << (bits - 1)
        """What must still be taken from each weight."""
        self.registers = PIECE // _QUAD * self.bits // 8
        """Registers of weights of one piece."""
        self.sums = [[cgutils.alloca_once(builder, self.emit.ints) for _ in range(2)] for _ in self.tile]
        """Two for each row of activations: an instruction need not wait for the one before it."""

    def clear(self) -> None:
        for slot in (slot for pair in self.sums for slot in pair):
            self.builder.store(self.emit.integers(0), slot)

    def totals(self) -> list[Any]:
        return [self.builder.add(self.builder.load(even), self.builder.load(odd)) for even, odd in self.sums]

    def add_piece(self, weights: Any, activations: Any, stride: Any) -> None:
        """Add the products of `PIECE` columns. `stride` is the distance of two rows of activations."""
        emit, quad = self.emit, 0
        for register in range(self.registers):
            for numbers in self._numbers(emit.offset(weights, _REGISTER, register)):
                for row in self.tile:
                    place = emit.offset(emit.offset(activations, stride, row), _QUAD, quad)
                    four = emit.spread(emit.load(place, INT32))
                    slot = self.sums[row][quad % 2]
                    self.builder.store(self._multiplied(self.builder.load(slot), numbers, four), slot)
                quad += 1

    def _numbers(self, place: Any) -> list[Any]:
        """The registers of unsigned bytes that one register in memory holds: 4-bit numbers are two."""
        builder, raw = self.builder, self.emit.load(place, self.emit.ints, _REGISTER)
        if self.bits == 8:
            return [raw]
        halves = ir.VectorType(BYTE, _REGISTER)
        mask = ir.Constant(halves, [_LOWER] * _REGISTER)
        both = [builder.bitcast(one, halves) for one in (raw, builder.lshr(raw, self.emit.integers(4)))]
        return [builder.bitcast(builder.and_(one, mask), self.emit.ints) for one in both]

    def _multiplied(self, total: Any, unsigned: Any, signed: Any) -> Any:
        """`total` and, for each row, the products of four unsigned weights with four signed activations."""
        if not VNNI:
            halves = [self._half_multiplied(unsigned, signed, half) for half in range(2)]
            lanes = ir.Constant(self.emit.ints, list(range(LANES)))
            return self.builder.add(total, self.builder.shuffle_vector(*halves, lanes))
        return self.emit.called("llvm.x86.avx512.vpdpbusd.512", self.emit.ints, total, unsigned, signed)

    def _half_multiplied(self, unsigned: Any, signed: Any, half: int) -> Any:
        """The same of eight rows by AVX2, which adds pairs in 16 bits: 8-bit weights would not fit, so of them the
        activation's sign goes to the weight, whose middle was taken from it."""
        lanes = [half * LANES // 2 + lane for lane in range(LANES // 2)]
        pick = ir.Constant(ir.VectorType(INT32, len(lanes)), lanes)
        bytes_, words = ir.VectorType(BYTE, _REGISTER // 2), ir.VectorType(ir.IntType(16), _REGISTER // 4)
        weights, activations = (
            self.builder.bitcast(self.builder.shuffle_vector(one, one, pick), bytes_) for one in (unsigned, signed)
        )
        if self.bits == 8:
            centred = self.builder.xor(weights, ir.Constant(bytes_, [-128] * (_REGISTER // 2)))
            weights, activations = (
                self.emit.called("llvm.abs.v32i8", bytes_, activations, ir.Constant(ir.IntType(1), 0)),
                self.emit.called("llvm.x86.avx2.psign.b", bytes_, centred, activations),
            )
        pairs = self.emit.called("llvm.x86.avx2.pmadd.ub.sw", words, weights, activations)
        ones = ir.Constant(words, [1] * (_REGISTER // 4))
        return self.emit.called("llvm.x86.avx2.pmadd.wd", ir.VectorType(INT32, LANES // 2), pairs, ones)


class _Call(NamedTuple):
    """The arguments of `times_rows`, as values of the IR builder."""

    bits: Any
    weights: Any
    scales: Any
    bias: Any
    blocks: Any
    spans: Any
    pieces: Any
    numbers: Any
    number_stride: Any
    steps: Any
    sums: Any
    lifts: Any
    span_stride: Any
    out: Any
    out_stride: Any
    count: Any
    adding: Any


@emits(types.void(*[types.int64] * len(_Call._fields)), LANES)
def times_rows(emit: Emitter, *arguments: Any) -> None:
    """Multiply one tile of LANES rows of weights of `bits`, 8 or 4, with `count` rows of activations.

    Addresses and strides in bytes: the tile's weights, scales (of 8 bits float32 [blocks, LANES], of 4 float16 [blocks,
    2, LANES], centres after scales) and bias; its number of blocks, of a block's spans, and of a span's pieces;
    activations int8, and of each span their steps float32, sums int32 and lifts float32; results float32, which are
    added to where `adding`. A weight is (stored - middle) * scale + centre, an activation number * step, a lift the sum
    of a span's activations.
    """
    call, builder, size = _Call(*arguments), emit.builder, ir.Constant(INT64, TILE)
    whole = builder.udiv(call.count, size)
    done = builder.mul(whole, size)
    for bits in (4, 8):
        with builder.if_then(builder.icmp_signed("==", call.bits, ir.Constant(INT64, bits))):
            with cgutils.for_range(builder, whole) as tile:
                _emit_tile(emit, bits, TILE, builder.mul(tile.index, size), call)
            with cgutils.for_range(builder, builder.sub(call.count, done)) as one:
                _emit_tile(emit, bits, 1, builder.add(done, one.index), call)


def _emit_tile(emit: Emitter, bits: int, tile: int, row: Any, call: _Call) -> None:
    """The products of `tile` rows of activations from `row` on."""
    builder, products = emit.builder, _Products(emit, bits, tile)
    numbers = emit.offset(call.numbers, call.number_stride, row)
    rows = [builder.add(row, ir.Constant(INT64, number)) for number in products.tile]
    places = [emit.offset(call.out, call.out_stride, one) for one in rows]
    results = [cgutils.alloca_once(builder, emit.floats) for _ in rows]
    adding = builder.icmp_signed("!=", call.adding, ir.Constant(INT64, 0))
    for place, result in zip(places, results, strict=True):
        begun = builder.select(adding, emit.load(place), emit.constant(0.0))
        builder.store(builder.fadd(begun, emit.load(call.bias)), result)
    middle = emit.integers(products.middle)
    with cgutils.for_range(builder, call.blocks) as block:
        scale, centre = _scales(emit, emit.offset(call.scales, _REGISTER, block.index), bits)
        with cgutils.for_range(builder, call.spans) as span:
            products.clear()
            index = builder.add(builder.mul(block.index, call.spans), span.index)
            with cgutils.for_range(builder, call.pieces) as piece:
                at = builder.add(builder.mul(index, call.pieces), piece.index)
                place = emit.offset(call.weights, _REGISTER * products.registers, at)
                products.add_piece(place, emit.offset(numbers, PIECE, at), call.number_stride)
            for one, total, result in zip(rows, products.totals(), results, strict=True):
                spans = (emit.offset(part, call.span_stride, one) for part in (call.steps, call.lifts, call.sums))
                step_at, lift_at, whole_at = (emit.offset(part, 4, index) for part in spans)
                whole = emit.spread(emit.load(whole_at, INT32))
                exact = builder.sitofp(builder.sub(total, builder.mul(middle, whole)), emit.floats)
                step = emit.spread(emit.load(step_at, FLOAT))
                found = emit.fma(exact, builder.fmul(scale, step), builder.load(result))
                if centre is not None:
                    found = emit.fma(centre, emit.spread(emit.load(lift_at, FLOAT)), found)
                builder.store(found, result)
    for place, result in zip(places, results, strict=True):
        emit.store(builder.load(result), place)


def _scales(emit: Emitter, place: Any, bits: int) -> tuple[Any, Any]:
    """The scales of a block's rows and, of 4 bits, their centres: one line of memory holds both, as 16-bit floats."""
    if bits == 8:
        return emit.load(place, align=_REGISTER), None
    return emit.shorts(place), emit.shorts(emit.offset(place, _REGISTER // 2, 1))


@emits(types.void(*[types.int64] * 4), LANES)
def gate(emit: Emitter, gates: Any, values: Any, out: Any, chunks: Any) -> None:
    """`out` = gates sigmoid(gates) values, `chunks` registers of float32 each (SwiGLU; Shazeer 2020)."""
    with cgutils.for_range(emit.builder, chunks) as chunk:
        gated, value = (emit.load(emit.offset(part, _REGISTER, chunk.index)) for part in (gates, values))
        opened = emit.builder.fmul(gated, emit.sigmoid(gated))
        emit.store(emit.builder.fmul(opened, value), emit.offset(out, _REGISTER, chunk.index))
