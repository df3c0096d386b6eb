"""Token shards: what `prepare` wrote, memory-mapped, and checked before anything is learnt from it.

A folder holds `index.json`, the tokenizer, and for each part (train, valid) shards `train-00000.tokens`. A shard is
the token ids of whole documents one after another (little-endian uint16, or uint32 for large vocabularies), zero bytes
up to a multiple of 8, and the place where each document starts (uint32).
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.text.tokenizer import Tokenizer

FORMAT = "gnomon tokens 1"
INDEX = "index.json"
PARTS = ("train", "valid")
_AGAIN = "prepare the data again, or restore the folder from where it came"

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One shard as the index knows it; `modified` is its time of modification in nanoseconds, `size` its bytes."""

    name: str
    tokens: int
    documents: int
    largest_id: int
    size: int
    modified: int
    sha256: str


@dataclass(frozen=True)
class TokenPart:
    """The shards of one part as one long row of `tokens` ids, of `bytes` of UTF-8 text; `unknown` ids are unknown."""

    folder: Path
    dtype: str
    tokens: int
    documents: int
    bytes: int
    unknown: int
    entries: tuple[ShardEntry, ...]

    def read(self, start: int, stop: int) -> Array:
        """The ids in places [start, stop), int64."""
        pieces = [
            ids[max(0, start - base) : stop - base]
            for (ids, _), base, end in zip(self._arrays, self._bases, self._bases[1:], strict=False)
            if start < end and stop > base
        ]
        return np.concatenate(pieces, dtype=np.int64) if pieces else np.zeros(0, np.int64)

    def starts(self, start: int, stop: int) -> Array:
        """The places in [start, stop) where a document begins, int64, in order."""
        pieces = [
            starts[slice(*np.searchsorted(starts, (max(0, start - base), max(0, stop - base))))].astype(np.int64) + base
            for (_, starts), base, end in zip(self._arrays, self._bases, self._bases[1:], strict=False)
            if start < end and stop > base
        ]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def document(self, number: int) -> Array:
        """The ids of one document, int64, its begin and end tokens included."""
        if not 0 <= number < self.documents:
            raise IndexError(f"document {number} of {self.documents}")
        for (ids, starts), entry in zip(self._arrays, self.entries, strict=True):
            if number < entry.documents:
                end = int(starts[number + 1]) if number + 1 < entry.documents else entry.tokens
                return ids[int(starts[number]) : end].astype(np.int64)
            number -= entry.documents
        raise IndexError(number)

    def check(self, *, every_byte: bool = False) -> None:
        """Compare the files with the index: sizes, and hashes of those whose time of modification is another.

        `every_byte` compares all hashes. Raises GnomonError that names the shard.
        """
        for entry in self.entries:
            path = self.folder / entry.name
            with files.explained(path, doing="read"):
                found = path.stat()
            if found.st_size != entry.size:
                raise GnomonError(
                    f"{path} has {found.st_size:,} bytes, and {entry.size:,} were written: it is cut or damaged", _AGAIN
                )
            changed = every_byte or found.st_mtime_ns != entry.modified
            if changed and files.sha256(path) != entry.sha256:
                raise GnomonError(f"{path} has changed since it was written: its hash is another", _AGAIN)

    @cached_property
    def _bases(self) -> list[int]:
        """The place of each shard's first token in the whole, and the end."""
        return [0, *np.cumsum([entry.tokens for entry in self.entries]).tolist()]

    @cached_property
    def _arrays(self) -> list[tuple[Array, Array]]:
        return [_mapped(self.folder / entry.name, entry, np.dtype(self.dtype)) for entry in self.entries]


@dataclass(frozen=True)
class TokenData:
    """A folder of token shards. `end_id` ends every document where the tokenizer has an end token."""

    path: Path
    fingerprint: str
    vocab_size: int
    end_id: int | None
    facts: dict[str, Any]
    train: TokenPart
    valid: TokenPart

    @classmethod
    def open(cls, path: Path | str, *, tokenizer: Tokenizer | None = None, every_byte: bool = False) -> TokenData:
        """Open and check a folder (see `TokenPart.check`), and that it was made by `tokenizer` where one is given."""
        folder = Path(path)
        if not (folder / INDEX).is_file():
            raise GnomonError(f"{folder} holds no prepared tokens: it has no {INDEX}", "make it with `gnomon prepare`")
        content = files.read_json(folder / INDEX)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise GnomonError(f"{folder / INDEX} is no index of prepared tokens ({FORMAT!r})", _AGAIN)
        try:
            parts = {name: _part(folder, content["dtype"], content["parts"][name]) for name in PARTS}
            data = cls(
                folder,
                str(content["tokenizer"]),
                int(content["vocab_size"]),
                content["end_id"],
                dict(content["facts"]),
                **parts,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise GnomonError(f"{folder / INDEX} is damaged: {error!r}", _AGAIN) from error
        if tokenizer is not None and tokenizer.fingerprint != data.fingerprint:
            raise GnomonError(
                f"{folder} was prepared with another tokenizer ({data.fingerprint[:12]}) "
                f"than the model's ({tokenizer.fingerprint[:12]}): the same ids would mean other words",
                f"prepare the text with the model's tokenizer, or train with the tokenizer in {folder}",
            )
        for part in (data.train, data.valid):
            part.check(every_byte=every_byte)
        return data

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that made these tokens; a copy lies in the folder."""
        tokenizer = Tokenizer.from_dir(self.path)
        if tokenizer.fingerprint != self.fingerprint:
            raise GnomonError(f"the tokenizer in {self.path} is not the one that made its tokens", _AGAIN)
        return tokenizer

    def check_vocabulary(self, vocab_size: int) -> None:
        """Refuse, with a GnomonError, tokens that a model with `vocab_size` rows does not have."""
        for entry in (*self.train.entries, *self.valid.entries):
            if entry.largest_id >= vocab_size:
                raise GnomonError(
                    f"{self.path / entry.name} holds the token id {entry.largest_id:,}, "
                    f"and the model knows the ids 0 to {vocab_size - 1:,}",
                    "prepare the text with the model's own tokenizer",
                )


class PartWriter:
    """Appends documents to the shards of one part; the document that reaches `shard_tokens` closes a shard."""

    def __init__(self, folder: Path, name: str, dtype: str, shard_tokens: int) -> None:
        self._folder = folder
        self._name = name
        self._dtype = dtype
        self._shard_tokens = shard_tokens
        self._entries: list[ShardEntry] = []
        self._file: BinaryIO | None = None
        self.tokens = self.documents = self.bytes = self.unknown = 0

    def add(self, ids: Array, *, size: int, unknown: int) -> None:
        """Write the ids [T] of one document of `size` bytes; one without ids is left out."""
        if not len(ids):
            return
        if self._file is None:
            self._file = (self._folder / f"{self._name}-{len(self._entries):05d}.tokens").open("wb")
            self._hash, self._starts, self._held, self._largest = hashlib.sha256(), array("L"), 0, 0
        self._starts.append(self._held)
        self._append(self._file, ids.astype(self._dtype, copy=False).tobytes())
        self._held += len(ids)
        self._largest = max(self._largest, int(ids.max()))
        self.tokens += len(ids)
        self.documents += 1
        self.bytes += size
        self.unknown += unknown
        if self._held >= self._shard_tokens:
            self._close_shard(self._file)

    def close(self) -> TokenPart:
        """Close the last shard and describe them all."""
        if self._file is not None:
            self._close_shard(self._file)
        numbers = (self.tokens, self.documents, self.bytes, self.unknown)
        return TokenPart(self._folder, self._dtype, *numbers, entries=tuple(self._entries))

    def _append(self, file: BinaryIO, data: bytes) -> None:
        file.write(data)
        self._hash.update(data)

    def _close_shard(self, file: BinaryIO) -> None:
        self._append(file, bytes(padding_after(self._held, self._dtype)))
        self._append(file, np.array(self._starts, "<u4").tobytes())
        file.close()
        self._file = None
        path = Path(file.name)
        found = path.stat()
        numbers = (self._held, len(self._starts), self._largest, found.st_size, found.st_mtime_ns)
        self._entries.append(ShardEntry(path.name, *numbers, sha256=self._hash.hexdigest()))


def write_index(
    folder: Path,
    *,
    tokenizer: Tokenizer,
    dtype: str,
    facts: dict[str, Any],
    parts: dict[str, TokenPart],
) -> None:
    """Write index.json and the tokenizer's files beside the shards of `parts`."""
    (folder / "tokenizer.json").write_text(tokenizer.to_json(), encoding="utf-8")
    files.write_json(folder / "tokenizer_config.json", tokenizer.config)
    content = {
        "format": FORMAT,
        "tokenizer": tokenizer.fingerprint,
        "vocab_size": tokenizer.vocab_size,
        "end_id": tokenizer.eos_id,
        "dtype": dtype,
        "facts": facts,
        "parts": {name: _described(part) for name, part in parts.items()},
    }
    files.write_json(folder / INDEX, content)


def dtype_for(vocab_size: int) -> str:
    """The narrowest type that holds every id."""
    return "<u2" if vocab_size <= 1 << 16 else "<u4"


def padding_after(tokens: int, dtype: str) -> int:
    """The zero bytes between a shard's ids and its document starts."""
    return -tokens * np.dtype(dtype).itemsize % 8


def _part(folder: Path, dtype: str, content: dict[str, Any]) -> TokenPart:
    entries = tuple(ShardEntry(**entry) for entry in content["shards"])
    if any(Path(entry.name).name != entry.name for entry in entries):
        raise ValueError("a shard lies outside the folder")
    tokens, read, size, unknown = (int(content[name]) for name in ("tokens", "documents", "bytes", "unknown"))
    return TokenPart(folder, np.dtype(dtype).str, tokens, read, size, unknown, entries)


def _described(part: TokenPart) -> dict[str, Any]:
    return {
        "tokens": part.tokens,
        "documents": part.documents,
        "bytes": part.bytes,
        "unknown": part.unknown,
        "shards": [asdict(entry) for entry in part.entries],
    }


def _mapped(path: Path, entry: ShardEntry, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    offset = entry.tokens * dtype.itemsize + padding_after(entry.tokens, dtype.str)
    with files.explained(path, doing="read"):
        try:
            ids = np.memmap(path, dtype, "r", shape=(entry.tokens,))
            starts = np.memmap(path, "<u4", "r", offset=offset, shape=(entry.documents,))
        except ValueError as error:  # numpy's word for a file that is too short
            raise GnomonError(f"{path} is shorter than its index says", _AGAIN) from error
    return np.asarray(ids), np.asarray(starts)
