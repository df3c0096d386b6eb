"""A thin typed wrapper of the `tokenizers` library: text to ids, counting what was cut or unknown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from gnomon.errors import GnomonError
from gnomon.text.encodings import mend_surrogates
from gnomon.text.special_tokens import SpecialTokens, find_special_tokens
from gnomon.text.tokenizer_files import casing_disagreement, read_tokenizer_folder

_PROBES = ("a", "the", "中", "0", "hello world")
_SELF_TEST = "Hello world, 2 naïve cafés - 我喜欢你 😀\n\tend"
_BATCH = 1024  # texts in one call of the library, which holds every offset of them while it runs
# Paths of the machine that wrote the folder, and names of code in it: neither is kept.
_NOT_KEPT = ("auto_map", "name_or_path", "tokenizer_file", "special_tokens_map_file", "_commit_hash")


@dataclass(frozen=True, slots=True)
class Encoded:
    """One text as ids, special tokens included. `unknown` counts the unknown ids among them."""

    ids: list[int]
    truncated: bool
    unknown: int


class Tokenizer:
    """Immutable, so it may be shared by any number of threads: nothing of the library's object is set after loading.

    Padding and truncation settings inside a tokenizer.json are ignored: batches are padded to their longest row, and
    truncation happens here, where what is cut can be reported. `decisions` are sentences on what the files left open.
    """

    config: dict[str, Any]
    decisions: tuple[str, ...]

    def __init__(self, json_text: str, config: Mapping[str, Any], decisions: Sequence[str] = ()) -> None:
        try:
            self._backend = tokenizers.Tokenizer.from_str(json_text)
        except Exception as error:  # the library raises bare Exception
            raise GnomonError(
                f"the tokenizer cannot be read: {error}",
                "restore tokenizer.json from where it came, or upgrade the package tokenizers",
            ) from error
        self._backend.no_truncation()
        self._backend.no_padding()
        parsed = json.loads(json_text)
        self._special = find_special_tokens(parsed, config, self.vocabulary)
        self.decisions = (*decisions, *casing_disagreement(parsed, config), *self._special.decisions)
        self.config = _kept_config(config, self._special)
        self._unk_id = self.unk_id
        self._prefix, self._suffix = self._template()

    @classmethod
    def from_dir(cls, path: Path | str) -> Tokenizer:
        """Read a model folder: tokenizer.json, vocab.txt (WordPiece) or vocab.json + merges.txt (byte-level BPE).

        Raises GnomonError when the folder or all of these are missing, or when a file is malformed.
        """
        files = read_tokenizer_folder(Path(path))
        return cls(files.json_text, files.config, files.decisions)

    @classmethod
    def from_json(cls, json_text: str, config: Mapping[str, Any] | None = None) -> Tokenizer:
        """From the text of a tokenizer.json and the content of a tokenizer_config.json."""
        return cls(json_text, config or {})

    def encode(self, text: str, *, max_length: int | None = None) -> Encoded:
        """Ids of one text. Longer than `max_length` tokens, its end is cut and the special tokens of both ends stay."""
        try:
            ids = self._backend.encode(text).ids
        except TypeError:
            ids = self._backend.encode(_mended(text)).ids
        return self._limited(ids, max_length)

    def encode_batch(self, texts: Sequence[str], *, max_length: int | None = None) -> list[Encoded]:
        """As `encode`, for many texts, in the library's own threads (TOKENIZERS_PARALLELISM=false forbids them)."""
        return [self._limited(ids, max_length) for ids in self._batch_ids(texts)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        return self._backend.decode(list(ids))

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        """Every token and its id, added tokens included. Treat as read-only."""
        return self._backend.get_vocab(with_added_tokens=True)

    @cached_property
    def vocab_size(self) -> int:
        """Rows an embedding table needs: the highest id + 1."""
        return max(self.vocabulary.values(), default=-1) + 1

    @property
    def pad_id(self) -> int:
        """The id that fills padded places; a token of its own wherever the tokenizer has one (see `decisions`)."""
        return self._special.pad_id

    @property
    def unk_id(self) -> int | None:
        """The id of what the vocabulary cannot express; None when everything can be (byte-level)."""
        return self._special.ids.get("unk")

    @property
    def cls_id(self) -> int | None:
        """The id of the token that stands for the whole text ([CLS], or <s> of a RoBERTa)."""
        return self._special.ids.get("cls")

    @property
    def sep_id(self) -> int | None:
        """The id of the token that ends a text or parts two ([SEP], or </s> of a RoBERTa)."""
        return self._special.ids.get("sep")

    @property
    def mask_id(self) -> int | None:
        """The id of the token that hides another ([MASK])."""
        return self._special.ids.get("mask")

    @property
    def mask_token(self) -> str | None:
        """The text of the mask token, as it is written in a text; None where there is none."""
        return None if self.mask_id is None else self._backend.id_to_token(self.mask_id)

    @property
    def bos_id(self) -> int | None:
        """The id that a language model reads first."""
        return self._special.ids.get("bos")

    @property
    def eos_id(self) -> int | None:
        """The id by which a language model ends a text."""
        return self._special.ids.get("eos")

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The token by which a text ends, alone: `eos_id`, or else `sep_id`; empty where the tokenizer has neither."""
        return next(((token,) for token in (self.eos_id, self.sep_id) if token is not None), ())

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of all special tokens, the unknown token among them."""
        return self._special.special_ids

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON: equal when two tokenizers give every text the same ids."""
        canonical = json.dumps(json.loads(self.to_json()), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def to_json(self) -> str:
        """The text of a tokenizer.json, without padding and truncation settings."""
        return self._backend.to_str()

    def self_test(self) -> None:
        """Called before saving: what `to_json` writes must load and give the same ids, special tokens included."""
        again = Tokenizer.from_json(self.to_json(), self.config)
        same = again.encode(_SELF_TEST) == self.encode(_SELF_TEST) and again.vocabulary == self.vocabulary
        if not same or (again.pad_id, again.special_ids) != (self.pad_id, self.special_ids):
            raise RuntimeError("the tokenizer does not survive being written and read again")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tokenizer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self.to_json(), self.config, self.decisions)

    def _batch_ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        if isinstance(texts, str):
            raise GnomonError("a list of texts is expected, not one string", "write [text]")
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            # The library reads a pair of strings as two texts, so only strings may reach it.
            mended = [text if type(text) is str else _mended(text) for text in batch]
            try:
                encodings = self._backend.encode_batch_fast(mended)
            except TypeError:
                encodings = self._backend.encode_batch_fast([_mended(text) for text in mended])
            yield from (encoding.ids for encoding in encodings)

    def _limited(self, ids: list[int], max_length: int | None) -> Encoded:
        truncated = max_length is not None and len(ids) > max_length
        if max_length is not None and truncated:
            if max_length <= len(self._prefix) + len(self._suffix):
                raise GnomonError(
                    f"max_length is {max_length}, and the special tokens alone take "
                    f"{len(self._prefix) + len(self._suffix)}",
                    "give a larger max_length",
                )
            ids = ids[: max_length - len(self._suffix)] + self._suffix
        return Encoded(ids, truncated, 0 if self._unk_id is None else ids.count(self._unk_id))

    def _template(self) -> tuple[list[int], list[int]]:
        """The special ids put before and after every text."""
        for probe in _PROBES:
            bare = self._backend.encode(probe, add_special_tokens=False).ids
            whole = self._backend.encode(probe).ids
            for start in range(len(whole) - len(bare) + 1):
                if bare and whole[start : start + len(bare)] == bare:
                    return whole[:start], whole[start + len(bare) :]
        return self._backend.encode("").ids, []


def iterate_ids(tokenizer: Tokenizer, texts: Iterable[str]) -> Iterator[list[int]]:
    """Ids of a stream of texts, in order, encoded in batches: memory stays bounded."""
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH:
            yield from (encoded.ids for encoded in tokenizer.encode_batch(batch))
            batch.clear()
    yield from (encoded.ids for encoded in tokenizer.encode_batch(batch))


def _mended(text: Any) -> str:
    if not isinstance(text, str):
        raise GnomonError(f"a text must be a string, not {type(text).__name__}: {text!r:.60}", "join words with spaces")
    return mend_surrogates(str(text))[0]


def _kept_config(config: Mapping[str, Any], special: SpecialTokens) -> dict[str, Any]:
    """What goes in tokenizer_config.json: the source's own entries, the roles that were found filled in."""
    kept = {key: value for key, value in config.items() if key not in _NOT_KEPT}
    kept.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
    for role, name in special.names.items():
        kept.setdefault(f"{role}_token", name)
    return kept
