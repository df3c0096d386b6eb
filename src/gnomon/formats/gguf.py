"""GGUF, llama.cpp's one-file model format: metadata and tensors, read lazily into float32 numpy and written.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian): a magic word,
counts, key-value pairs, a row for each tensor (name, dimensions innermost first, type, offset), and the aligned data.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.formats.ggml_blocks import BY_NAME, BY_NUMBER, OTHER_NAMES, Floats, TensorType

MAGIC = b"GGUF"
_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_AGAIN = "the file is damaged: download or copy it again"

Metadata = Mapping[str, Any]
"""Strings, numbers, booleans and lists of them, by key."""


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where one tensor lies in the file: its shape as numpy has it (outermost first), its type, its first byte."""

    shape: tuple[int, ...]
    type: TensorType
    start: int


class GgufArrays(Mapping[str, Floats]):
    """Tensors by name, as float32. Each access reads from the file afresh."""

    def __init__(self, path: Path, entries: Mapping[str, TensorEntry]) -> None:
        self._path = path
        self.entries = dict(entries)

    def __getitem__(self, name: str) -> Floats:
        entry = self.entries[name]
        size = entry.type.size(entry.shape)
        with files.explained(self._path, doing="read"):
            data = np.fromfile(self._path, np.uint8, size, offset=entry.start)
        if data.size != size:
            raise GnomonError(f"{self._path} ended inside the tensor {name} while it was read", _AGAIN)
        return entry.type.decode(data).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(frozen=True)
class GgufFile:
    """One file: what it says of the model and the tokenizer, and its tensors under ggml's names."""

    path: Path
    metadata: dict[str, Any]
    arrays: GgufArrays

    def types(self) -> dict[str, int]:
        """How many tensors there are of each stored type."""
        names = [entry.type.name for entry in self.arrays.entries.values()]
        return {name: names.count(name) for name in sorted(set(names))}


def read_gguf(path: Path | str) -> GgufFile:
    """Open a file and check its header against its length; tensors are read when they are asked for.

    Raises GnomonError for a file that is no GGUF, is cut, or holds tensors of a type that is not read (named).
    """
    path = Path(path)
    with files.explained(path, doing="read"), path.open("rb") as file:
        size = path.stat().st_size
        cursor = _Cursor(path, file)
        if file.read(4) != MAGIC:
            raise GnomonError(f"{path} is no GGUF file: it does not begin with {MAGIC.decode()}", "name a .gguf file")
        version = cursor.number("I")
        if version not in (2, 3):
            shown = f"{version}" if version < 1 << 16 else "big-endian"
            raise GnomonError(f"{path} is GGUF of version {shown}; 2 and 3 are read", "convert it with llama.cpp")
        num_tensors, num_pairs = cursor.number("Q"), cursor.number("Q")
        metadata = {cursor.text(): cursor.value() for _ in range(num_pairs)}
        rows = [cursor.tensor() for _ in range(num_tensors)]
        start = _aligned(file.tell(), int(metadata.get("general.alignment", _ALIGNMENT)))
    entries = {name: TensorEntry(shape, kind, start + offset) for name, shape, kind, offset in rows}
    for name, entry in entries.items():
        end = entry.start + entry.type.size(entry.shape)
        if end > size:
            raise GnomonError(
                f"{path} is cut: the tensor {name} ends at byte {end:,}, and the file has {size:,}", _AGAIN
            )
    return GgufFile(path, metadata, GgufArrays(path, entries))


def write_gguf(
    path: Path | str,
    *,
    metadata: Metadata,
    arrays: Mapping[str, np.ndarray],
    type_of: Callable[[str, tuple[int, ...]], str],
) -> None:
    """Write a file atomically, one tensor in memory at a time. `type_of(name, shape)` names the type to store it as.

    Whole numbers are written as uint32 (negative ones int32), lists of them as int32, others as float32. Raises
    GnomonError for a type that is not written (F32, F16, Q8_0 and Q4_0 are) and for rows that its blocks do not fill.
    """
    kinds = {name: _writable(name, array.shape, type_of(name, array.shape)) for name, array in _items(arrays)}
    with files.new_file(Path(path)) as file:
        file.write(MAGIC + struct.pack("<IQQ", 3, len(kinds), len(metadata)))
        for key, value in metadata.items():
            file.write(_text(key) + _value(key, value))
        offset = 0
        for name, (shape, kind) in kinds.items():
            dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
            file.write(_text(name) + dimensions + struct.pack("<IQ", kind.number, offset))
            offset = _aligned(offset + kind.size(shape))
        file.write(bytes(_aligned(file.tell()) - file.tell()))
        for name, array in _items(arrays):
            encode = kinds[name][1].encode
            if encode is not None:
                data = encode(array.astype(np.float32)).tobytes()
                file.write(data + bytes(_aligned(len(data)) - len(data)))


class _Cursor:
    """Reads header values one after another; what is cut off is a GnomonError."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._read(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        return self._read(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int | None = None) -> Any:
        kind = self.number("I") if kind is None else kind
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            kind, count = self.number("I"), self.number("Q")
            if kind in _SCALARS:
                dtype = np.dtype(f"<{_SCALARS[kind]}")
                return np.frombuffer(self._read(count * dtype.itemsize), dtype).tolist()
            return [self.value(kind) for _ in range(count)]
        if kind not in _SCALARS:
            raise GnomonError(f"{self._path} holds a value of the unknown kind {kind}", _AGAIN)
        return self.number(_SCALARS[kind])

    def tensor(self) -> tuple[str, tuple[int, ...], TensorType, int]:
        name = self.text()
        dimensions = tuple(self.number("Q") for _ in range(self.number("I")))
        number, offset = self.number("I"), self.number("Q")
        if number not in BY_NUMBER:
            raise GnomonError(
                f"{self._path}: the tensor {name} is stored as {OTHER_NAMES.get(number, f'type {number}')}, "
                f"which is not read here",
                f"get the model as one of {', '.join(sorted(BY_NAME))}, or convert it with llama.cpp's llama-quantize",
            )
        return name, dimensions[::-1], BY_NUMBER[number], offset

    def _read(self, count: int) -> bytes:
        data = self._file.read(count) if count < 1 << 40 else b""
        if len(data) != count:
            raise GnomonError(f"{self._path} is cut or damaged: its header ends too early", _AGAIN)
        return data


def _items(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    return ((name, arrays[name]) for name in arrays)


def _aligned(place: int, alignment: int = _ALIGNMENT) -> int:
    return -(-place // alignment) * alignment


def _writable(name: str, shape: tuple[int, ...], type_name: str) -> tuple[tuple[int, ...], TensorType]:
    kind = BY_NAME.get(type_name)
    if kind is None or kind.encode is None:
        choices = ", ".join(sorted(kind.name for kind in BY_NAME.values() if kind.encode))
        raise GnomonError(f"tensors are not written as {type_name}", f"choose one of {choices}")
    if not shape or shape[-1] % kind.block:
        raise GnomonError(
            f"the tensor {name} of shape {list(shape)} cannot be stored as {type_name}: "
            f"its rows are not made of whole blocks of {kind.block}",
            "store it as F16",
        )
    return shape, kind


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _value(key: str, value: Any) -> bytes:
    if isinstance(value, (list, tuple)):
        if value and isinstance(value[0], str):
            return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))
        kind, code = (6, "f") if any(isinstance(item, float) for item in value) else (5, "i")
        return struct.pack("<IIQ", _ARRAY, kind, len(value)) + struct.pack(f"<{len(value)}{code}", *value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<Ii", 5, value) if value < 0 else struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    raise TypeError(f"the metadata {key} is a {type(value).__name__}")
