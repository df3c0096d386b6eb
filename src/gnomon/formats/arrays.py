"""Named arrays in safetensors files, read lazily into numpy.

The header is parsed here, not by the safetensors package, for two reasons: bfloat16 is widened to
float32 without torch, and a damaged file is explained by the tensor it cuts.
Format: https://huggingface.co/docs/safetensors (8 bytes of length, a JSON header, the data).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats import files

_ITEM_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_LONGEST_HEADER = 100_000_000
_AGAIN = "the file is damaged: download or copy it again"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies: its file, safetensors type name, shape, and first byte in the file."""

    file: Path
    type_name: str
    shape: tuple[int, ...]
    start: int

    @property
    def count(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays by name. Each access reads from the file afresh; half precision comes as float32.

    `mapped` gives read-only views of the file instead, whose pages are read when first touched.
    """

    def __init__(self, entries: Mapping[str, Entry], *, mapped: bool = False) -> None:
        self.entries = dict(entries)
        self._mapped = mapped

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        item_type = np.dtype(_ITEM_TYPES[entry.type_name])
        with files.explained(entry.file, doing="read"):
            if self._mapped and entry.count:
                view = np.memmap(entry.file, item_type, mode="r", offset=entry.start, shape=(entry.count,))
                return _widen(np.asarray(view), entry.type_name).reshape(entry.shape)
            flat = np.fromfile(entry.file, dtype=item_type, count=entry.count, offset=entry.start)
        if flat.size != entry.count:
            raise GnomonError(f"{entry.file} ended inside the tensor {name} while it was read", _AGAIN)
        return _widen(flat, entry.type_name).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of one array, without reading it."""
        return self.entries[name].shape


def read_arrays(path: Path, *, mapped: bool = False) -> LazyArrays:
    """The arrays of one safetensors file, its header checked against the file's length; `mapped` as for LazyArrays.

    Raises GnomonError for a truncated or altered file, naming the tensor that is cut.
    """
    with files.explained(path, doing="read"):
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            start = 8 + length
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise GnomonError(
                    f"{path} is not a whole safetensors file: its {size} bytes end before or inside the header", _AGAIN
                )
            raw = file.read(length)
    return LazyArrays(_parse(path, raw, start, size), mapped=mapped)


def read_sharded(index: Path) -> LazyArrays:
    """The arrays that a `model.safetensors.index.json` spreads over several files of its folder."""
    where = files.read_json(index).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(name, str) for name in where.values()):
        raise GnomonError(f"{index} has no weight_map of tensor names to files", _AGAIN)
    entries: dict[str, Entry] = {}
    for name in sorted(set(where.values())):
        if Path(name).name != name:
            raise GnomonError(f"{index} points outside its folder: {name}", "use the folder as it was published")
        shard = index.parent / name
        if not shard.exists():
            raise GnomonError(f"{index} names the file {name}, which is not there", "download the missing part")
        entries.update(read_arrays(shard).entries)
    missing = sorted(set(where) - set(entries))
    if missing:
        raise GnomonError(f"{index} promises {len(missing)} tensors that no file holds, first {missing[0]}", _AGAIN)
    return LazyArrays({name: entries[name] for name in where})


def to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The arrays as one safetensors file; the metadata is what Hugging Face's loaders ask for."""
    from safetensors.numpy import save

    return save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata={"format": "pt"})


def _parse(path: Path, raw: bytes, start: int, size: int) -> dict[str, Entry]:
    try:
        header = json.loads(raw.decode("utf-8"))
        rows = sorted(
            (tuple(item["data_offsets"]), name, str(item["dtype"]), tuple(item["shape"]))
            for name, item in header.items()
            if name != "__metadata__"
        )
    except (UnicodeDecodeError, json.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
        raise GnomonError(f"{path} is not a safetensors file: its header cannot be read ({error})", _AGAIN) from error
    entries: dict[str, Entry] = {}
    position = 0
    for offsets, name, type_name, shape in rows:
        position = _check(path, name, type_name, shape, offsets, position)
        if start + position > size:
            expected = start + rows[-1][0][-1]
            raise GnomonError(
                f"{path} is truncated: {expected} bytes expected, {size} found; the tensor {name} is cut",
                "download or copy it again",
            )
        entries[name] = Entry(path, type_name, shape, start + offsets[0])
    if start + position != size:
        raise GnomonError(f"{path} has {size - start - position} bytes that no tensor of its header claims", _AGAIN)
    return entries


def _check(path: Path, name: str, type_name: str, shape: tuple[Any, ...], offsets: tuple[Any, ...], at: int) -> int:
    """Check one header row, which must begin at byte `at` of the data; returns where it ends."""
    if type_name not in _ITEM_TYPES:
        raise GnomonError(
            f"{path}: the tensor {name} has the type {type_name}, which gnomon does not read",
            f"convert it to one of {', '.join(_ITEM_TYPES)}",
        )
    numbers = (*shape, *offsets)
    if len(offsets) != 2 or not all(isinstance(number, int) and number >= 0 for number in numbers) or offsets[0] != at:
        raise GnomonError(f"{path}: the header's place of the tensor {name} is impossible", _AGAIN)
    wanted = math.prod(shape) * np.dtype(_ITEM_TYPES[type_name]).itemsize
    if offsets[1] - offsets[0] != wanted:
        raise GnomonError(
            f"{path}: the tensor {name} of shape {list(shape)} needs {wanted} bytes, "
            f"the header gives it {offsets[1] - offsets[0]}",
            _AGAIN,
        )
    return int(offsets[1])


def _widen(flat: np.ndarray, type_name: str) -> np.ndarray:
    if type_name == "BF16":  # bfloat16 is the upper half of a float32
        return (flat.astype(np.uint32) << 16).view(np.float32)
    return flat.astype(np.float32) if type_name == "F16" else flat
