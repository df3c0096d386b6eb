"""Weights in 8 or 4 bits, as onnxruntime's MatMulNBits reads them: each block of a row's columns has its own scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

BITS = (4, 8)
_MIDDLE = {4: 8, 8: 128}  # the stored number that stands for 0
_SIZES = {4: (32, 16), 8: (64, 32, 16)}  # of 8 bits 64 measured a tenth faster than 32; of 4 it loses too much


@dataclass(frozen=True)
class Blocks:
    """A matrix [O, I] as whole numbers `stored` uint8 [O, n, size] (not yet packed) and `scales` float32 [O, n].

    A number stands for (stored - middle) * scale.
    """

    bits: int
    stored: npt.NDArray[np.uint8]
    scales: Floats

    @property
    def size(self) -> int:
        """Columns of one block."""
        return int(self.stored.shape[2])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        rows, blocks, size = self.stored.shape
        return rows, blocks * size

    def packed(self) -> npt.NDArray[np.uint8]:
        """The bytes [O, n, size * bits / 8]; of two 4-bit numbers in a byte the lower half comes first."""
        if self.bits == 8:
            return self.stored
        joined: npt.NDArray[np.uint8] = self.stored[..., ::2] | (self.stored[..., 1::2] << np.uint8(4))
        return joined

    def values(self) -> Floats:
        """The matrix that is computed with, float32 [O, I]."""
        numbers = self.stored.astype(np.float32) - np.float32(_MIDDLE[self.bits])
        whole: Floats = (numbers * self.scales[..., None]).reshape(self.shape)
        return whole


def block_size(columns: int, bits: int) -> int | None:
    """How many columns share a scale; None where no size divides them, so that they cannot be stored in blocks."""
    return next((size for size in _SIZES[bits] if columns % size == 0), None)


def to_blocks(weight: Floats, *, bits: int) -> Blocks:
    """Round `weight` [O, I] to the nearest number of each block's scale. I must have a `block_size`.

    The number of a block that is furthest from 0 becomes the end of the range: of 4 bits the longer, lower one,
    whatever its sign (as in ggml's Q4_0).
    """
    size = block_size(weight.shape[1], bits)
    if size is None:
        raise ValueError(f"{weight.shape[1]} columns do not make up whole blocks")
    cut = weight.reshape(len(weight), -1, size)
    middle = _MIDDLE[bits]
    if bits == 8:
        scales = np.abs(cut).max(axis=-1) / (middle - 1)
    else:
        furthest = np.abs(cut).argmax(axis=-1)[..., None]
        scales = np.take_along_axis(cut, furthest, axis=-1)[..., 0] / -middle
    scales = np.where(scales == 0, 1, scales).astype(np.float32)
    stored = np.clip(np.rint(cut / scales[..., None]) + middle, 0, 2 * middle - 1).astype(np.uint8)
    return Blocks(bits, stored, scales)
