"""Blocks of ggml's quantised types: 32 weights of a row share a scale, and Q4_1 a minimum.

Layouts and rounding are those of llama.cpp's ggml-quants.c, so that a value written here is the value it would write.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
BLOCK = 32


@dataclass(frozen=True, slots=True)
class TensorType:
    """How numbers are stored: ggml's number and name, and `block_bytes` for every `block` of them."""

    number: int
    name: str
    block: int
    block_bytes: int
    decode: Callable[[Bytes], Floats]
    encode: Callable[[Floats], Bytes] | None = None

    def size(self, shape: tuple[int, ...]) -> int:
        """The bytes of a tensor."""
        return math.prod(shape) // self.block * self.block_bytes


def _plain(dtype: str) -> tuple[Callable[[Bytes], Floats], Callable[[Floats], Bytes]]:
    def decode(data: Bytes) -> Floats:
        return data.view(dtype).astype(np.float32)

    def encode(values: Floats) -> Bytes:
        return np.ascontiguousarray(values, dtype).reshape(-1).view(np.uint8)

    return decode, encode


def _decode_bf16(data: Bytes) -> Floats:
    return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)  # bfloat16 is a float32's upper half


def _decode_q8_0(data: Bytes) -> Floats:
    blocks = data.reshape(-1, 2 + BLOCK)
    return _scale(blocks, 0) * blocks[:, 2:].view(np.int8)


def _decode_q4_0(data: Bytes) -> Floats:
    blocks = data.reshape(-1, 2 + BLOCK // 2)
    return _scale(blocks, 0) * (_nibbles(blocks[:, 2:]) - np.float32(8))


def _decode_q4_1(data: Bytes) -> Floats:
    blocks = data.reshape(-1, 4 + BLOCK // 2)
    return _scale(blocks, 0) * _nibbles(blocks[:, 4:]) + _scale(blocks, 2)


def _encode_q8_0(values: Floats) -> Bytes:
    blocks = _blocks(values)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    steps = blocks * _inverse(scale)
    rounded = np.trunc(steps + np.copysign(np.float32(0.5), steps)).astype(np.int8)  # halves away from zero, as in C
    return np.hstack([_bytes_of(scale), rounded.view(np.uint8)])


def _encode_q4_0(values: Floats) -> Bytes:
    blocks = _blocks(values)
    farthest = np.abs(blocks).argmax(axis=1, keepdims=True)
    scale = np.take_along_axis(blocks, farthest, axis=1) / np.float32(-8)
    levels = np.trunc(blocks * _inverse(scale) + np.float32(8.5)).clip(0, 15).astype(np.uint8)
    packed = levels[:, : BLOCK // 2] | (levels[:, BLOCK // 2 :] << 4)
    return np.hstack([_bytes_of(scale), packed])


def _blocks(values: Floats) -> Floats:
    return np.ascontiguousarray(values, np.float32).reshape(-1, BLOCK)


def _inverse(scale: Floats) -> Floats:
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def _bytes_of(scale: Floats) -> Bytes:
    return scale.astype("<f2").view(np.uint8)


def _scale(blocks: Bytes, place: int) -> Floats:
    return np.ascontiguousarray(blocks[:, place : place + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Floats:
    """The low halves of a block's bytes, then the high ones."""
    return np.hstack([packed & 15, packed >> 4]).astype(np.float32)


_TYPES: tuple[TensorType, ...] = (
    TensorType(0, "F32", 1, 4, *_plain("<f4")),
    TensorType(1, "F16", 1, 2, *_plain("<f2")),
    TensorType(2, "Q4_0", BLOCK, 18, _decode_q4_0, _encode_q4_0),
    TensorType(3, "Q4_1", BLOCK, 20, _decode_q4_1),
    TensorType(8, "Q8_0", BLOCK, 34, _decode_q8_0, _encode_q8_0),
    TensorType(30, "BF16", 1, 2, _decode_bf16),
)
BY_NUMBER = {kind.number: kind for kind in _TYPES}
BY_NAME = {kind.name: kind for kind in _TYPES}

OTHER_NAMES: dict[int, Any] = {
    6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""Types of ggml that are known by name only: a file that holds one is refused with it."""
