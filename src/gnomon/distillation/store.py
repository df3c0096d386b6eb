"""What a teacher said, kept on disk: addressed by content, so that it can be paired with any order of any texts.

    ROOT/<address>/store.json            the teacher, the settings, the sizes
    ROOT/<address>/shard-00000/keys.npy  SHA-256 of each text, uint8 [n, 32]
                               logits.npy  float16 [n, C]
                               hidden.npy  float16 [n, D], where asked for

The address is a hash of the teacher's fingerprint and the settings. A shard is written under a temporary name and
renamed, so a killed run leaves whole shards only; one that was damaged afterwards is dropped and asked for again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import GnomonError
from gnomon.formats.files import explained, new_directory, write_json

_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class Signal:
    """What a teacher says of N texts: `logits` float32 [N, C] and, where asked for, `hidden` float32 [N, D]."""

    logits: NDArray[np.float32]
    hidden: NDArray[np.float32] | None = None


Shard = tuple[NDArray[np.float16], NDArray[np.float16] | None]


@dataclass(slots=True)
class Rounding:
    """What float16 cost: the largest change of a logit, and how many values were beyond ±65504 and so clipped."""

    largest_error: float = 0.0
    clipped: int = 0


class StoredSignals(Sequence[Shard]):
    """One (logits [C], hidden [D] or None) a text, float16, read from the memory-mapped shards when asked for."""

    def __init__(self, shards: Sequence[Shard], places: NDArray[np.int32]) -> None:
        self._shards = shards
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Shard: ...
    @overload
    def __getitem__(self, index: slice) -> StoredSignals: ...
    def __getitem__(self, index: int | slice) -> Shard | StoredSignals:
        if isinstance(index, slice):
            return StoredSignals(self._shards, self._places[index])
        shard, line = self._places[index]
        logits, hidden = self._shards[shard]
        return logits[line], None if hidden is None else hidden[line]


class SignalStore:
    """A growing, content-addressed table of one teacher's signals. One process writes; any number read."""

    def __init__(self, root: Path, *, fingerprint: str, settings: Mapping[str, Any], num_labels: int) -> None:
        described = {"teacher": fingerprint, "settings": dict(settings), "num_labels": num_labels}
        address = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]
        self.folder = root / address
        self.num_labels = num_labels
        self.rounding = Rounding()
        self._shards: list[Shard] = []
        self._places: dict[bytes, tuple[int, int]] = {}
        self._next = 0
        if not (self.folder / "store.json").exists():
            write_json(self.folder / "store.json", described)
        self._open()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, text: str) -> bool:
        return text_key(text) in self._places

    def missing(self, texts: Iterable[str]) -> list[str]:
        """The distinct texts that are not stored yet, in order of first appearance."""
        return [text for key, text in {text_key(text): text for text in texts}.items() if key not in self._places]

    def add(self, texts: Sequence[str], signal: Signal) -> None:
        """Write one shard of texts that were missing. A value that is not a number is refused, naming the text."""
        broken = ~np.isfinite(signal.logits).all(axis=1)
        if broken.any():
            text = texts[int(broken.argmax())]
            raise GnomonError(
                f"the teacher's scores are not finite for {int(broken.sum())} texts; the first is {text[:80]!r}",
                "check the teacher with `gnomon info` and `gnomon evaluate`",
            )
        logits = self._halve(signal.logits)
        path = self.folder / f"shard-{self._next:05d}"
        with new_directory(path) as temporary:
            np.save(temporary / "keys.npy", np.frombuffer(b"".join(map(text_key, texts)), np.uint8).reshape(-1, 32))
            np.save(temporary / "logits.npy", logits)
            if signal.hidden is not None:
                np.save(temporary / "hidden.npy", self._halve(signal.hidden))
        if not self._read(path):
            raise GnomonError(f"{path} cannot be read back after it was written", "check the disk")

    def view(self, texts: Sequence[str]) -> StoredSignals:
        """The signals of `texts` as a lazy sequence: only places are in memory, the values stay in their files."""
        return StoredSignals(self._shards, np.array([self._place(text) for text in texts], np.int32).reshape(-1, 2))

    def read(self, texts: Sequence[str]) -> Signal:
        """The stored signal of `texts`, in their order, widened to float32; a text not stored is a GnomonError."""
        rows = [*self.view(texts)]
        logits = np.array([logits for logits, _ in rows], np.float32).reshape(-1, self.num_labels)
        vectors = [hidden for _, hidden in rows if hidden is not None]
        return Signal(logits, np.array(vectors, np.float32) if vectors else None)

    def _place(self, text: str) -> tuple[int, int]:
        place = self._places.get(text_key(text))
        if place is None:
            raise GnomonError(f"the teacher has not been asked about {text[:80]!r}", "fill the store first")
        return place

    def _halve(self, values: NDArray[np.float32]) -> NDArray[np.float16]:
        halved = np.clip(values, -_LARGEST, _LARGEST).astype(np.float16)
        if values.size:
            self.rounding.clipped += int((np.abs(values) > _LARGEST).sum())
            error = float(np.abs(halved.astype(np.float32) - values).max())
            self.rounding.largest_error = max(self.rounding.largest_error, error)
        return halved

    def _open(self) -> None:
        with explained(self.folder, doing="read"):
            for leftover in self.folder.glob(".shard-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            for path in sorted(self.folder.glob("shard-*")):
                if not self._read(path):
                    shutil.rmtree(path)

    def _read(self, path: Path) -> bool:
        """Take in a shard; False when it is cut short, altered in shape, or not of this store."""
        try:
            keys = np.load(path / "keys.npy", allow_pickle=False)
            logits = np.load(path / "logits.npy", mmap_mode="r", allow_pickle=False)
            with_hidden = (path / "hidden.npy").exists()
            hidden = np.load(path / "hidden.npy", mmap_mode="r", allow_pickle=False) if with_hidden else None
        except (OSError, ValueError, EOFError):
            return False
        whole = keys.dtype == np.uint8 and keys.shape == (len(logits), 32) and logits.shape[1:] == (self.num_labels,)
        if not whole or (hidden is not None and len(hidden) != len(logits)):
            return False
        shard = len(self._shards)
        self._shards.append((logits, hidden))
        for line, key in enumerate(keys):
            self._places[key.tobytes()] = (shard, line)
        self._next = int(path.name.removeprefix("shard-")) + 1
        return True


def text_key(text: str) -> bytes:
    """The SHA-256 of a text, 32 bytes; two texts share it only when they are the same, lone surrogates included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
