"""Raw text to token shards: read, find duplicates, split by hash, encode on every core, write; in bounded memory."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.text.documents import documents
from gnomon.text.shards import INDEX, PARTS, Array, PartWriter, TokenData, TokenPart, dtype_for, write_index
from gnomon.text.tokenizer import Tokenizer

SHARD_TOKENS = 1 << 26
_BATCH_CHARACTERS = 1 << 20  # encoded in one call; the library needs some 30 bytes of memory for each while it runs
_BATCH_DOCUMENTS = 1024
_IN_FLIGHT = 3  # batches read ahead of the one that is being written

Hashes = npt.NDArray[np.uint64]
Progress = Callable[[int, int], None]
"""Told, after each batch, the bytes of text and the tokens written so far."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How text is read (see `documents`) and divided. `valid_share` of the documents, by a hash of each, validate."""

    separator: str | None = None
    text_field: str = "text"
    encoding: str | None = None
    valid_share: float = 0.05
    drop_duplicates: bool = False
    shard_tokens: int = SHARD_TOKENS


def prepare(
    paths: Sequence[Path | str],
    out: Path | str,
    *,
    tokenizer: Tokenizer,
    valid: Sequence[Path | str] = (),
    layout: Layout | None = None,
    overwrite: bool = False,
    progress: Progress = lambda text, tokens: None,
) -> TokenData:
    """Encode the documents of `paths` into a new folder `out`, whole or not at all, and open it.

    Each document's ids are what the tokenizer gives for it, begin token included, and its end token. With `valid`, the
    documents of those files validate instead of a share. `facts` of the result count "duplicates", documents seen
    before, and "in_both", those among them that validation holds too; `drop_duplicates` leaves both out. A split by
    hash never puts equal documents on both sides. Memory grows by 8 bytes a document, for their hashes. Raises
    GnomonError for text that cannot be read or split, and for an `out` that holds tokens already, or anything else.
    """
    layout = layout or Layout()
    out = Path(out)
    _check(out, layout, overwrite=overwrite)
    with files.new_directory(out) as folder:
        writer = _Writer(folder, tokenizer, layout, progress)
        if valid:
            writer.write_all(_documents(valid, layout), part="valid")
        writer.write_all(_documents(paths, layout), part="train" if valid else None)
        parts = writer.close()
        write_index(folder, tokenizer=tokenizer, dtype=dtype_for(tokenizer.vocab_size), facts=writer.facts, parts=parts)
    return TokenData.open(out)


def _check(out: Path, layout: Layout, *, overwrite: bool) -> None:
    if not 0 <= layout.valid_share < 1:
        raise GnomonError(f"valid_share is {layout.valid_share}", "give a share from 0 to below 1, such as 0.05")
    if not 1 <= layout.shard_tokens < 1 << 32:
        raise GnomonError(f"shard_tokens is {layout.shard_tokens}", "give a number from 1 to below 2**32")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / INDEX).is_file():
        raise GnomonError(f"{out} exists and holds something else than prepared tokens", "choose another --out")
    if not overwrite:
        raise GnomonError(f"{out} holds prepared tokens already", "choose another --out, or say --overwrite")


def _documents(paths: Sequence[Path | str], layout: Layout) -> Iterator[str]:
    return documents(paths, separator=layout.separator, text_field=layout.text_field, encoding=layout.encoding)


@dataclass(frozen=True, slots=True)
class _Document:
    ids: Array
    bytes: int
    unknown: int


@dataclass(slots=True)
class _Batch:
    """Texts, the bytes of each in UTF-8, and a 64-bit hash of each without the white space around it."""

    texts: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    hashes: list[int] = field(default_factory=list)


class _Writer:
    """Takes documents, and puts the ids of each into the shards of one part."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, layout: Layout, progress: Progress) -> None:
        self._tokenizer = tokenizer
        self._layout = layout
        self._progress = progress
        self._dtype = dtype_for(tokenizer.vocab_size)
        self._parts = {name: PartWriter(folder, name, self._dtype, layout.shard_tokens) for name in PARTS}
        self._seen, self._in_valid = HashSet(), HashSet()
        # Until a document falls to validation, those with the lowest hash wait: the last resort of a small text.
        self._waiting: list[_Document] = []
        self._lowest = 2**64
        self.facts: dict[str, Any] = {"duplicates": 0, "in_both": 0, "dropped": layout.drop_duplicates}

    def write_all(self, texts: Iterable[str], *, part: str | None) -> None:
        """Encode and write; all into `part`, or by hash where it is None."""
        pending: deque[tuple[_Batch, Future[list[_Document]]]] = deque()
        with ThreadPoolExecutor(max_workers=2) as pool:
            try:
                for batch in _batches(texts):
                    kept = self._without_duplicates(batch, part)
                    pending.append((kept, pool.submit(self._encode, kept)))
                    if len(pending) > _IN_FLIGHT:
                        self._write(*pending.popleft(), part)
                while pending:
                    self._write(*pending.popleft(), part)
            finally:
                for _, future in pending:
                    future.cancel()

    def close(self) -> dict[str, TokenPart]:
        """Finish the last shards. Raises GnomonError when there was no text, or too little to validate on."""
        train, valid = self._parts["train"], self._parts["valid"]
        last = train if valid.documents or not train.documents else valid
        for document in self._waiting:
            _put(last, document)
        self._report()
        if not train.documents:
            raise GnomonError("there is no text to train on: every document is empty", "check the paths and the format")
        if not valid.documents and self._layout.valid_share > 0:
            raise GnomonError(
                "the text is a single document: nothing is left to validate on",
                "name a file with --valid, part the text with --separator, or give --valid-share 0",
            )
        return {name: part.close() for name, part in self._parts.items()}

    def _without_duplicates(self, batch: _Batch, part: str | None) -> _Batch:
        hashes = np.array(batch.hashes, np.uint64)
        if part == "train":
            self.facts["in_both"] += int(self._in_valid.contains(hashes).sum())
        if part == "valid":
            self._in_valid.add(hashes)
        new = self._seen.add(hashes)
        self.facts["duplicates"] += int((~new).sum())
        if not self._layout.drop_duplicates or new.all():
            return batch
        kept = np.flatnonzero(new).tolist()
        texts, sizes = [batch.texts[row] for row in kept], [batch.sizes[row] for row in kept]
        return _Batch(texts, sizes, [batch.hashes[row] for row in kept])

    def _encode(self, batch: _Batch) -> list[_Document]:
        end = self._tokenizer.eos_id
        encoded = []
        for item, size in zip(self._tokenizer.encode_batch(batch.texts), batch.sizes, strict=True):
            if end is not None and item.ids[-1:] != [end]:
                item.ids.append(end)
            encoded.append(_Document(np.array(item.ids, self._dtype), size, item.unknown))
        return encoded

    def _write(self, batch: _Batch, future: Future[list[_Document]], part: str | None) -> None:
        for document, place in zip(future.result(), batch.hashes, strict=True):
            if part is not None:
                _put(self._parts[part], document)
            else:
                self._split(document, place)
        self._report()

    def _report(self) -> None:
        parts = self._parts.values()
        self._progress(sum(part.bytes for part in parts), sum(part.tokens for part in parts))

    def _split(self, document: _Document, place: int) -> None:
        train, valid, share = self._parts["train"], self._parts["valid"], self._layout.valid_share
        if place < share * 2**64:
            _put(valid, document)
        elif share == 0 or valid.documents or place > self._lowest:
            _put(train, document)
        else:
            if place < self._lowest:
                for waiting in self._waiting:
                    _put(train, waiting)
                self._waiting, self._lowest = [], place
            self._waiting.append(document)


def _put(part: PartWriter, document: _Document) -> None:
    part.add(document.ids, size=document.bytes, unknown=document.unknown)


class HashSet:
    """A growing set of 64-bit numbers in 8 bytes each: sorted runs, merged when there are several of a size."""

    def __init__(self) -> None:
        self._runs: list[Hashes] = []

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Which of `hashes` [N] are in the set."""
        found = np.zeros(len(hashes), bool)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[places] == hashes
        return found

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Add `hashes` [N]; which of them were new, a repeated one only the first time."""
        new = np.zeros(len(hashes), bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        new &= ~self.contains(hashes)
        if new.any():
            self._runs.append(np.sort(hashes[new]))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]))]
        return new


def _batches(texts: Iterable[str]) -> Iterator[_Batch]:
    batch, characters = _Batch(), 0
    for text in texts:
        data = text.encode("utf-8")
        batch.texts.append(text)
        batch.sizes.append(len(data))
        batch.hashes.append(int.from_bytes(hashlib.blake2b(data.strip(), digest_size=8).digest()))
        characters += len(text)
        if characters >= _BATCH_CHARACTERS or len(batch.texts) == _BATCH_DOCUMENTS:
            yield batch
            batch, characters = _Batch(), 0
    if batch.texts:
        yield batch
