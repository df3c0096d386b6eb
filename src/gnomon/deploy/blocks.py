"""Weights in 8 or 4 bits, as onnxruntime's MatMulNBits reads them: each block of a row's columns has its own scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gnomon.deploy.gptq import round_columns

Floats = npt.NDArray[np.float32]

BITS = (4, 8)
_MIDDLE = 128  # of 8 bits: the stored number that stands for 0
_LARGEST = 15  # of 4 bits
_SIZES = {4: (32, 16), 8: (64, 32, 16)}  # of 8 bits 64 measured a tenth faster than 32; of 4 it loses too much
_ENDS = tuple((low, high) for low in (1.0, 0.9, 0.8) for high in (1.0, 0.9, 0.8))  # shares of a block's range, tried
_ROWS = 64
_LEAST, _TINY = 1e-6, 1e-30


@dataclass(frozen=True)
class Blocks:
    """A matrix [O, I] as whole numbers `stored` uint8 [O, n, size] (not yet packed), `scales` float32 and `middles`
    uint8 [O, n]: a number stands for (stored - middle) * scale. Of 8 bits every middle is 128.
    """

    bits: int
    stored: npt.NDArray[np.uint8]
    scales: Floats
    middles: npt.NDArray[np.uint8]

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
        """The bytes [O, n, size * bits / 8]."""
        return self.stored if self.bits == 8 else _two_a_byte(self.stored)

    def packed_middles(self) -> npt.NDArray[np.uint8]:
        """The bytes [O, n / 2, rounded up] of 4-bit middles; those of 8 bits need not be stored."""
        return _two_a_byte(np.pad(self.middles, ((0, 0), (0, self.middles.shape[1] % 2))))

    def values(self) -> Floats:
        """The matrix that is computed with, float32 [O, I]."""
        numbers = self.stored.astype(np.float32) - self.middles[..., None]
        whole: Floats = (numbers * self.scales[..., None]).reshape(self.shape)
        return whole


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
    middles = np.full(cut.shape[:2], _MIDDLE, np.uint8)
    if bits == 8:
        scales = np.abs(cut).max(axis=-1) / np.float32(_MIDDLE - 1)
        scales[scales == 0] = 1
        return Blocks(bits, _rounded(cut, scales, middles, bits), scales, middles)
    known = torch.ones(weight.shape[1]) if moments is None else moments.diagonal()
    weighing = (known + _LEAST * known.mean()).reshape(-1, size)
    scales = np.empty(cut.shape[:2], np.float32)
    for start in range(0, len(cut), _ROWS):  # a part of the rows at a time, which stays in the processor's cache
        rows = slice(start, start + _ROWS)
        scales[rows], middles[rows] = _least_error(torch.from_numpy(cut[rows]), weighing)
    if moments is None:
        return Blocks(bits, _rounded(cut, scales, middles, bits), scales, middles)
    scale, middle = (torch.from_numpy(part).float().repeat_interleave(size, dim=1) for part in (scales, middles))
    numbers = round_columns(torch.from_numpy(weight), scale, middle, moments, largest=_LARGEST)
    return Blocks(bits, numbers.numpy().astype(np.uint8).reshape(cut.shape), scales, middles)


def _rounded(cut: Floats, scales: Floats, middles: npt.NDArray[np.uint8], bits: int) -> npt.NDArray[np.uint8]:
    """The stored numbers nearest to blocks [O, n, size]."""
    stored = np.empty(cut.shape, np.uint8)
    for start in range(0, len(cut), _ROWS):
        rows = slice(start, start + _ROWS)
        numbers = np.rint(cut[rows] / scales[rows, :, None])
        numbers += middles[rows, :, None]
        stored[rows] = np.clip(numbers, 0, 2**bits - 1)
    return stored


def _two_a_byte(numbers: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two 4-bit numbers of the last axis in a byte, the lower half first."""
    joined: npt.NDArray[np.uint8] = numbers[..., ::2] | (numbers[..., 1::2] << np.uint8(4))
    return joined


def _least_error(numbers: Tensor, weighing: Tensor) -> tuple[Floats, Floats]:
    """The best of some scales and middles of 4-bit blocks [..., n, size], errors weighing by `weighing` [n, size]. In
    torch, many times as quick as numpy."""
    weighed = numbers * weighing
    low, high = numbers.amin(-1).clamp_max_(0), numbers.amax(-1).clamp_min_(0)
    best, middle, least = torch.ones_like(low), torch.zeros_like(low), torch.full_like(low, torch.inf)
    for share_low, share_high in _ENDS:
        scales = (high * share_high - low * share_low) / _LARGEST
        scales = torch.where(scales == 0, 1.0, scales)
        middles = (-low * share_low / scales).round_()
        nearest = _nearest(numbers, scales, middles)
        # The scale that fits these whole numbers best, and the numbers that are nearest then.
        fitted = (weighed * nearest).sum(-1) / (weighing * nearest.square()).sum(-1).clamp_min_(_TINY)
        scales = torch.where(fitted <= 0, scales, fitted)
        lost = torch.addcmul(numbers, _nearest(numbers, scales, middles), scales[..., None], value=-1)
        error = lost.square_().mul_(weighing).sum(-1)
        better = error < least
        best, middle = torch.where(better, scales, best), torch.where(better, middles, middle)
        least = torch.where(better, error, least)
    return best.numpy(), middle.numpy()


def _nearest(numbers: Tensor, scales: Tensor, middles: Tensor) -> Tensor:
    """The whole numbers nearest to `numbers`, 0 standing for 0."""
    middles = middles[..., None]
    return (numbers / scales[..., None]).round_().clamp_(-middles, _LARGEST - middles)
