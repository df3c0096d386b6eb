"""Weights in 8 or 4 bits: each block of a row's columns has its own scale, and of 4 bits its own centre.

A number stands for (stored - middle) * scale + centre, where `middle` is half of all numbers. What onnxruntime's
MatMulNBits reads are the first two; llama.cpp's Q4_1 is the same, and its weights come through unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnomon.deploy.gptq import round_columns

Floats = npt.NDArray[np.float32]

BITS = (4, 8)
_SIZES = {4: (32, 16), 8: (64, 32, 16)}  # of 8 bits 64 measured a tenth faster than 32; of 4 it loses too much
_ENDS = tuple((low, high) for low in (0.0, 0.05, 0.1) for high in (0.0, 0.05, 0.1))  # shares of a range cut off, tried
_SIGNIFICANT = 2**11
_ROWS = 64
_LEAST, _TINY = 1e-6, 1e-30


@dataclass(frozen=True)
class Blocks:
    """A matrix [O, I] as whole numbers `stored` uint8 [O, n, size] (not yet packed), `scales` float32 [O, n] and, of 4
    bits, `centres` float32 [O, n]; both then have 11 significant bits, so that 16 hold them."""

    bits: int
    stored: npt.NDArray[np.uint8]
    scales: Floats
    centres: Floats | None = None

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
        """The bytes [O, n, size * bits / 8]: of 4 bits two numbers in each, the lower half first."""
        return self.stored if self.bits == 8 else self.stored[..., ::2] | (self.stored[..., 1::2] << np.uint8(4))

    def values(self) -> Floats:
        """The matrix that is computed with, float32 [O, I]."""
        numbers = self.stored.astype(np.float32) - np.float32(_middle(self.bits))
        values: Floats = numbers * self.scales[..., None]
        if self.centres is not None:
            values += self.centres[..., None]
        return values.reshape(self.shape)


def block_size(columns: int, bits: int) -> int | None:
    """How many columns share a scale; None where no size divides them, so that they cannot be stored in blocks."""
    return next((size for size in _SIZES[bits] if columns % size == 0), None)


def to_blocks(weight: Floats, *, bits: int, moments: Tensor | None = None) -> Blocks:
    """Round `weight` [O, I] to numbers of each block's scale. I must have a `block_size`.

    Of 8 bits the number of a block that is furthest from 0 becomes the end of the range. Of 4 bits, ends are tried for
    the least error, and with `moments` [I, I], those of what the columns are multiplied with, it is the error of the
    product that counts: in the choice of the ends, and in the rounding (`gptq`).
    """
    size = block_size(weight.shape[1], bits)
    if size is None:
        raise ValueError(f"{weight.shape[1]} columns do not make up whole blocks")
    cut = weight.reshape(len(weight), -1, size)
    if bits == 8:
        scales = np.abs(cut).max(axis=-1) / np.float32(_middle(bits) - 1)
        scales[scales == 0] = 1
        return Blocks(bits, _rounded(cut, scales, np.zeros_like(scales), bits), scales)
    known = torch.ones(weight.shape[1]) if moments is None else moments.diagonal()
    weighing = (known + _LEAST * known.mean()).reshape(-1, size)
    scales, centres = np.empty(cut.shape[:2], np.float32), np.empty(cut.shape[:2], np.float32)
    for start in range(0, len(cut), _ROWS):  # a part of the rows at a time, which stays in the processor's cache
        rows = slice(start, start + _ROWS)
        scales[rows], centres[rows] = _least_error(torch.from_numpy(cut[rows]), weighing, _middle(bits))
    if moments is None:
        return Blocks(bits, _rounded(cut, scales, centres, bits), scales, centres)
    scale, centre = (torch.from_numpy(part).repeat_interleave(size, dim=1) for part in (scales, centres))
    numbers = round_columns(torch.from_numpy(weight), scale, centre, moments, middle=_middle(bits))
    return Blocks(bits, numbers.numpy().astype(np.uint8).reshape(cut.shape), scales, centres)


def _middle(bits: int) -> int:
    """The stored number that stands for a block's centre."""
    return 1 << (bits - 1)


def _rounded(cut: Floats, scales: Floats, centres: Floats, bits: int) -> npt.NDArray[np.uint8]:
    """The stored numbers nearest to blocks [O, n, size]."""
    stored = np.empty(cut.shape, np.uint8)
    for start in range(0, len(cut), _ROWS):
        rows = slice(start, start + _ROWS)
        numbers = np.rint((cut[rows] - centres[rows, :, None]) / scales[rows, :, None])
        stored[rows] = np.clip(numbers + _middle(bits), 0, 2 * _middle(bits) - 1)
    return stored


def _least_error(numbers: Tensor, weighing: Tensor, middle: int) -> tuple[Floats, Floats]:
    """The best of some scales and centres of blocks [..., n, size], errors weighing by `weighing` [n, size]. In torch,
    many times as quick as numpy."""
    low, high = numbers.amin(-1), numbers.amax(-1)
    best, centre, least = torch.ones_like(low), torch.zeros_like(low), torch.full_like(low, torch.inf)
    total = weighing.sum(-1)
    mean = (weighing * numbers).sum(-1) / total
    for cut_low, cut_high in _ENDS:
        scales = (high - low) * ((1 - cut_low - cut_high) / (2 * middle - 1))
        scales = torch.where(scales == 0, 1.0, scales)
        centres = low + (high - low) * cut_low + middle * scales
        # The scale and centre that fit these whole numbers best, and the numbers that are nearest then.
        nearest = _nearest(numbers, scales, centres, middle)
        around = nearest - ((weighing * nearest).sum(-1) / total)[..., None]
        fitted = (weighing * numbers * around).sum(-1) / (weighing * around.square()).sum(-1).clamp_min_(_TINY)
        scales = _short(torch.where(fitted <= 0, scales, fitted))
        centres = _short(mean - scales * (nearest - around)[..., 0])
        lost = torch.addcmul(numbers, _nearest(numbers, scales, centres, middle), scales[..., None], value=-1)
        error = lost.sub_(centres[..., None]).square_().mul_(weighing).sum(-1)
        better = error < least
        best, centre = torch.where(better, scales, best), torch.where(better, centres, centre)
        least = torch.where(better, error, least)
    return best.numpy(), centre.numpy()


def _nearest(numbers: Tensor, scales: Tensor, centres: Tensor, middle: int) -> Tensor:
    """The whole numbers nearest to `numbers`, 0 standing for the centre."""
    return ((numbers - centres[..., None]) / scales[..., None]).round_().clamp_(-middle, middle - 1)


def _short(numbers: Tensor) -> Tensor:
    """The nearest numbers of 11 significant bits."""
    parts, exponents = torch.frexp(numbers)
    return torch.ldexp((parts * _SIGNIFICANT).round_() / _SIGNIFICANT, exponents)
