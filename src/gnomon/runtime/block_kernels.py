"""Products with matrices of 8- or 4-bit numbers in blocks, each block of columns with its own scale.

Activations are rounded to 8 bits as they come, as llama.cpp and onnxruntime do, each span of at most `SPAN` columns
with a step of its own: by whole blocks of 64, the activations' rounding cost more than that of 8-bit weights. Every row
of results is computed by the same operations in the same order, whatever rows are computed beside it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gnomon.runtime.block_lanes import LANES, PIECE, times_rows
from gnomon.vectors.compiling import kernel

WEIGHTS, SCALES, BIAS, TILES, BLOCKS, SIZE, BITS, EXPONENT = range(8)
"""Fields of a matrix's description, int64: addresses, then numbers; SIZE is the columns of a block, and what the scales
say is to be multiplied by 2 ** EXPONENT."""

SPAN = 32
"""Columns of activations that have a step in common, where blocks are not smaller."""

_LARGEST = 127
_SHORT_EXPONENT = 15  # the largest of 16-bit floats
_ALIGNMENT = 64
_OCTET = 8
Array = npt.NDArray[Any]


class Numbers(NamedTuple):
    """Rounded activations: int8 [M, I], and of each span [M, n] its step float32, the sum of its numbers int32 and
    the product of both, its lift."""

    whole: Array
    steps: Array
    sums: Array
    lifts: Array

    @staticmethod
    def room(rows: int, columns: int) -> Numbers:
        """Memory for so many, in spans as short as may be."""
        kinds = (np.float32, np.int32, np.float32)
        spans = (aligned((rows, -(-columns // PIECE)), kind) for kind in kinds)
        return Numbers(aligned((rows, columns), np.int8), *spans)


class Arena:
    """One stretch of memory for all matrices in the order of their use: numpy asks for large pages for a large array,
    and with small ones a token waits for addresses besides."""

    def __init__(self, size: int) -> None:
        self._memory = aligned((size,), np.uint8)
        self._used = 0

    def take(self, shape: tuple[int, ...], kind: Any) -> Array:
        """Zeros that begin at a cache line."""
        begin, size = self._used, int(np.prod(shape)) * np.dtype(kind).itemsize
        self._used += -(-size // _ALIGNMENT) * _ALIGNMENT
        array: Array = self._memory[begin : begin + size].view(kind).reshape(shape)
        return array


class Matrix:
    """A matrix laid out in tiles, and the description that kernels read; its memory lives as long as it does."""

    def __init__(
        self, packed: Array, scales: Array, centres: Array | None = None, bias: Array | None = None, *, arena: Arena
    ) -> None:
        """Lay out `packed` uint8 [O, n, size * bits / 8], of 4 bits two columns in a byte, `scales` float32 of O n
        blocks and, of 4 bits, `centres` float32 [O, n], which 16-bit floats then hold; `bias` float32 [O]. The arena
        needs room for `bytes_of(packed)`."""
        rows, blocks, width = packed.shape
        bits = 8 if centres is None else 4
        self.rows, self.blocks, self.tiles = int(rows), int(blocks), -(-int(rows) // LANES)
        self.size: int = width * 8 // bits
        self._weights = arena.take((self.tiles, blocks * width // 4, LANES), np.uint32)
        lay_out(packed.reshape(rows, -1).view(np.uint32), self._weights)
        exponent, scales = 0, scales.reshape(rows, blocks)
        if centres is None:
            self._scales = arena.take((self.tiles, blocks, LANES), np.float32)
            lay_out(scales, self._scales)
        else:
            both = np.stack([scales, centres], axis=-1)
            exponent = int(np.frexp(np.abs(both).max())[1]) - _SHORT_EXPONENT
            self._scales = arena.take((self.tiles, blocks, 2, LANES), np.uint16)
            lay_out(np.ldexp(both, -exponent).astype(np.float16).view(np.uint16).reshape(rows, -1), self._scales)
        self._bias = arena.take((self.tiles * LANES,), np.float32)
        self._bias[:rows] = 0 if bias is None else bias
        addresses = [part.ctypes.data for part in (self._weights, self._scales, self._bias)]
        self.description = np.array([*addresses, self.tiles, blocks, self.size, bits, exponent], np.int64)

    @staticmethod
    def bytes_of(packed: Array) -> int:
        """The memory that such weights need, at most."""
        rows, blocks, width = packed.shape
        return int((rows + LANES) * (blocks * (width + 4) + 4) + 3 * _ALIGNMENT)

    @property
    def columns(self) -> int:
        """Columns of the matrix."""
        return self.blocks * self.size

    def take(self, rows: Array) -> npt.NDArray[np.float32]:
        """Some rows [N] of a matrix of 8 bits in full: float32 [N, I]."""
        places = (rows // LANES, slice(None), rows % LANES)
        numbers: Array = self._weights[places].view(np.uint8).astype(np.int16).reshape(len(rows), self.blocks, -1) - 128
        found: npt.NDArray[np.float32] = numbers * self._scales[places][..., None]
        return found.reshape(len(rows), -1)


def aligned(shape: tuple[int, ...], kind: Any) -> Array:
    """Zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    array: Array = memory[start : start + size].view(kind).reshape(shape)
    return array


@kernel
def lay_out(rows: Any, tiles: Any) -> None:
    """`rows` [O, K] as `tiles` [O / LANES rounded up, K (as one axis or two), LANES]; lanes without a row are left."""
    tiles = tiles.reshape(tiles.shape[0], -1, LANES)
    for row in range(rows.shape[0]):
        tile, lane = row // LANES, row % LANES
        for column in range(rows.shape[1]):
            tiles[tile, column, lane] = rows[row, column]


@kernel
def round_row(values: Any, numbers: Any, row: Any, matrix: Any) -> None:
    """Round `values` float32 [>= I] to row `row` of `numbers`, for products with the described matrix.

    A 4-bit byte holds two neighbouring columns, so of eight columns the even ones come first.
    """
    size, bits, unit = min(SPAN, matrix[SIZE]), matrix[BITS], np.float32(2.0 ** matrix[EXPONENT])
    for span in range(matrix[BLOCKS] * matrix[SIZE] // size):
        start = span * size
        highest = np.float32(0)
        for place in range(start, start + size):
            highest = max(highest, abs(values[place]))
        step = highest / np.float32(_LARGEST)
        inverse = np.float32(1) / step if step > 0 else np.float32(0)
        total = np.int32(0)
        if bits == 8:
            for place in range(start, start + size):
                number = np.int32(np.rint(values[place] * inverse))
                total += number
                numbers.whole[row, place] = number
        else:
            for octet in range(start, start + size, _OCTET):
                for pair in range(_OCTET // 2):
                    even = np.int32(np.rint(values[octet + 2 * pair] * inverse))
                    odd = np.int32(np.rint(values[octet + 2 * pair + 1] * inverse))
                    total += even + odd
                    numbers.whole[row, octet + pair] = even
                    numbers.whole[row, octet + _OCTET // 2 + pair] = odd
        numbers.steps[row, span] = step * unit
        numbers.sums[row, span] = total
        numbers.lifts[row, span] = step * unit * np.float32(total)


@kernel
def times(matrix: Any, first: Any, last: Any, numbers: Any, count: Any, out: Any, adding: Any) -> None:
    """The products of `count` rows of rounded activations with the tiles `first` to `last` of a described matrix, and
    its bias: added to `out` float32 [>= count, >= LANES tiles], or written over it.
    """
    blocks, size, bits = matrix[BLOCKS], matrix[SIZE], matrix[BITS]
    whole, steps = numbers.whole.ctypes.data, numbers.steps.ctypes.data
    sums, lifts = numbers.sums.ctypes.data, numbers.lifts.ctypes.data
    by_number, by_span, by_result = numbers.whole.shape[1], 4 * numbers.steps.shape[1], 4 * out.shape[1]
    span = min(SPAN, size)
    for tile in range(first, last):
        weights = matrix[WEIGHTS] + tile * (blocks * size * LANES * bits // 8)
        scales, bias = matrix[SCALES] + tile * blocks * LANES * 4, matrix[BIAS] + tile * LANES * 4
        results = out.ctypes.data + tile * LANES * 4
        times_rows(
            bits, weights, scales, bias, blocks, size // span, span // PIECE, whole, by_number, steps, sums, lifts,
            by_span, results, by_result, count, adding,
        )  # fmt: skip
