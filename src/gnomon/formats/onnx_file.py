"""The constants and notes of an onnx file, read without the onnx package and without copying.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (ModelProto, GraphProto, TensorProto) in protobuf's wire
format, https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import GnomonError

LAYERS = "layers"
"""The note in a graph whose layers gnomon's own kernels can compute; its text is what they are like."""

_MODEL_GRAPH, _MODEL_NOTES = 7, 14
_NOTE_KEY, _NOTE_VALUE = 1, 2
_GRAPH_CONSTANTS = 5
_SHAPE, _TYPE, _NAME, _BYTES = 1, 2, 8, 9
_TYPES: Mapping[int, np.dtype[Any]] = {1: np.dtype(np.float32), 2: np.dtype(np.uint8), 7: np.dtype(np.int64)}
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class OnnxFile:
    """`notes` are the model's metadata, `constants` its initializers of the types float32, uint8 and int64 by name:
    read-only arrays over the file's own memory."""

    notes: Mapping[str, str]
    constants: Mapping[str, np.ndarray]


def read_onnx(source: Path | bytes) -> OnnxFile:
    """Read a file (mapped, so that only what is used is loaded) or its bytes. Raises GnomonError when it is no onnx."""
    notes: dict[str, str] = {}
    constants: dict[str, np.ndarray] = {}
    try:
        data = memoryview(np.memmap(source, np.uint8, "r").data if isinstance(source, Path) else source)
        for field, value in _fields(data):
            if field == _MODEL_GRAPH and isinstance(value, memoryview):
                found = (
                    _constant(part)
                    for number, part in _fields(value)
                    if number == _GRAPH_CONSTANTS and isinstance(part, memoryview)
                )
                constants |= dict(pair for pair in found if pair is not None)
            elif field == _MODEL_NOTES and isinstance(value, memoryview):
                note = {number: part.tobytes().decode() for number, part in _fields(value) if not isinstance(part, int)}
                notes[note[_NOTE_KEY]] = note.get(_NOTE_VALUE, "")
    except (IndexError, KeyError, ValueError) as error:
        name = source if isinstance(source, Path) else "the graph"
        raise GnomonError(f"{name} is no whole onnx file: {error}", "deploy or export the model again") from error
    return OnnxFile(notes, constants)


def _constant(data: memoryview) -> tuple[str, np.ndarray] | None:
    """The name and values of a TensorProto; None for types and storages that are of no use here."""
    shape: list[int] = []
    kind, name = 0, ""
    values: memoryview | None = None
    for field, value in _fields(data):
        if field == _SHAPE:
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif field == _TYPE and isinstance(value, int):
            kind = value
        elif field == _NAME and isinstance(value, memoryview):
            name = value.tobytes().decode()
        elif field == _BYTES and isinstance(value, memoryview):
            values = value
    if values is None or kind not in _TYPES:
        return None
    array: np.ndarray = np.frombuffer(values, _TYPES[kind])
    return name, array.reshape(shape)


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: number, and an integer or the bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if wire == _SIZED:
            size, place = _varint(data, place)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"a field of the kind {wire} at byte {place:,}")
        if place + size > len(data):
            raise ValueError(f"{place + size - len(data):,} bytes are missing at its end")
        yield number, data[place : place + size]
        place += size


def _varints(data: memoryview) -> Iterator[int]:
    place = 0
    while place < len(data):
        value, place = _varint(data, place)
        yield value


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """The number that begins at `place`, and where the next field does."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
