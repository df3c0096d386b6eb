"""Weights in 8 or 4 bits, as onnxruntime's MatMulNBits reads them: each block of a row's columns has its own scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float32]

BITS = (4, 8)
_MIDDLE = {4: 8, 8: 128}  # the stored number that stands for 0
_SIZES = {4: (32, 16), 8: (64, 32, 16)}  # of 8 bits 64 measured a tenth faster than 32; of 4 it loses too much
_TRIED = (1.0, 1.15, 1.05, 0.95, 0.88, 0.8, 0.72, -1.05)  # of the plain scale; the last turns the range around
_ROWS = 64
_LEAST, _TINY = 1e-6, 1e-30


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


def to_blocks(weight: Floats, *, bits: int, importance: Floats | None = None) -> Blocks:
    """Round `weight` [O, I] to numbers of each block's scale. I must have a `block_size`.

    The number of a block that is furthest from 0 becomes the end of the range: of 4 bits the longer, lower one,
    whatever its sign (as in ggml's Q4_0). With `importance` [I], the mean squares of what the columns are multiplied
    with, scales around that are tried for the least error of the product: of SmolLM2 in 4 bits a sixth of the loss is
    left.
    """
    size = block_size(weight.shape[1], bits)
    if size is None:
        raise ValueError(f"{weight.shape[1]} columns do not make up whole blocks")
    stored = np.empty((len(weight), weight.shape[1] // size, size), np.uint8)
    scales = np.empty(stored.shape[:2], np.float32)
    weights = None if importance is None else importance.reshape(-1, size) + np.float32(_LEAST * importance.mean())
    for start in range(0, len(weight), _ROWS):  # a part of the rows at a time, which stays in the processor's cache
        rows = slice(start, start + _ROWS)
        cut = weight[rows].reshape(-1, *stored.shape[1:])
        scales[rows] = _end_to_end(cut, bits) if weights is None else _least_error(cut, bits, weights)
        stored[rows] = _rounded(cut, scales[rows], bits) + np.float32(_MIDDLE[bits])
    return Blocks(bits, stored, scales)


def _end_to_end(cut: Floats, bits: int) -> Floats:
    """The scales of blocks [..., size] by which the number furthest from 0 is an end of the range."""
    if bits == 8:
        scales = np.abs(cut).max(axis=-1) / np.float32(_MIDDLE[8] - 1)
    else:
        furthest = np.abs(cut).argmax(axis=-1)[..., None]
        scales = np.take_along_axis(cut, furthest, axis=-1)[..., 0] / np.float32(-_MIDDLE[4])
    found: Floats = np.where(scales == 0, np.float32(1), scales)
    return found


def _least_error(cut: Floats, bits: int, weights: Floats) -> Floats:
    """The best of some scales of blocks [..., n, size], errors weighing by `weights` [n, size]. In torch, many times
    as quick as numpy."""
    numbers, weighing = torch.from_numpy(cut), torch.from_numpy(weights)
    weighed = numbers * weighing
    plain = torch.from_numpy(_end_to_end(cut, bits))
    best, least = plain, torch.full_like(plain, torch.inf)
    for share in _TRIED:
        scales = plain * share
        nearest = _nearest(numbers, scales, bits)
        # The scale that fits these whole numbers best, and the numbers that are nearest then.
        fitted = (weighed * nearest).sum(-1) / (weighing * nearest.square()).sum(-1).clamp_min(_TINY)
        scales = torch.where(fitted == 0, scales, fitted)
        lost = torch.addcmul(numbers, _nearest(numbers, scales, bits), scales[..., None], value=-1)
        error = lost.square_().mul_(weighing).sum(-1)
        better = error < least
        best, least = torch.where(better, scales, best), torch.where(better, error, least)
    found: Floats = best.numpy()
    return found


def _nearest(numbers: Tensor, scales: Tensor, bits: int) -> Tensor:
    """As `_rounded`."""
    middle = _MIDDLE[bits]
    return (numbers / scales[..., None]).round_().clamp_(-middle, middle - 1)


def _rounded(cut: Floats, scales: Floats, bits: int) -> Floats:
    """The whole numbers of blocks, 0 in the middle."""
    middle = _MIDDLE[bits]
    numbers = cut / scales[..., None]
    np.rint(numbers, out=numbers)
    np.clip(numbers, -middle, middle - 1, out=numbers)
    return numbers
