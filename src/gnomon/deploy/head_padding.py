"""Heads made as wide as onnxruntime's attention asks for, by features that are always zero.

Its operator takes heads of a multiple of 16 features. A narrower head gets zeros after each half (rotary positions turn
the pairs of both halves), in queries, keys and values, and the output matrix as many columns that see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from gnomon.models.decoder import DecoderConfig

_MULTIPLE = 16


def padded_size(head_size: int) -> int:
    """The width that a head of `head_size` features is given."""
    return -(-head_size // _MULTIPLE) * _MULTIPLE


class PaddedHeads(Mapping[str, np.ndarray]):
    """The arrays of a decoder with the heads padded; nothing is read before it is asked for."""

    def __init__(self, config: DecoderConfig, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._size = config.head_size
        self._padded = padded_size(config.head_size)

    def __getitem__(self, name: str) -> np.ndarray:
        array = self._arrays[name]
        if self._size == self._padded or ".attention." not in name:
            return array
        if ".attention.qkv." in name:
            return self._wider(array)
        if name.endswith(".attention.output.weight"):
            return np.ascontiguousarray(self._wider(array.T).T)
        if name.endswith("_norm.weight"):  # the mean of squares is taken over the zeros too
            widened: np.ndarray = self._wider(array) * np.float32((self._size / self._padded) ** 0.5)
            return widened
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def _wider(self, array: np.ndarray) -> np.ndarray:
        """[heads * size, ...] -> [heads * padded, ...]."""
        halves = array.reshape(-1, self._size // 2, *array.shape[1:])
        missing = (self._padded - self._size) // 2
        wider = np.pad(halves, [(0, 0), (0, missing), *((0, 0) for _ in array.shape[1:])])
        return wider.reshape(-1, *array.shape[1:])
