"""Learn a tokenizer from raw text: byte-level BPE, BPE over characters, WordPiece, Unigram, or characters alone.

Text is streamed through the trainers of the `tokenizers` library, which keep a count of words, not the text. All kinds
but WordPiece give back exactly the text they read, as long as nothing in it is unknown; byte-level BPE knows all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from gnomon.errors import GnomonError, did_you_mean
from gnomon.formats import files
from gnomon.text.documents import documents, text_size
from gnomon.text.tokenizer import Tokenizer

KINDS = ("byte-bpe", "bpe", "wordpiece", "unigram", "characters")
LIMIT = 300_000_000
"""Characters that are learnt from at most, spread over the whole text: more costs memory (for every distinct word) and
changes the vocabulary little."""
LIMITS = {"unigram": 100_000_000}  # whose trainer holds the pieces of every distinct word as well

_SPREAD = 0.6180339887498949  # multiples of the golden ratio fill [0, 1) evenly: any share of texts, from everywhere
_LONGEST_WORD = 16  # characters of a Unigram piece
# Words with the space before them, runs of signs, single digits, line ends apart: that of Qwen2, which llama.cpp knows.
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# BERT's pre-tokenizer leaves emoji on their word, which would make "hello😀" one unknown token.
_SYMBOLS = r"[\p{So}\p{Sk}\p{Cs}\p{Co}\x{200D}\x{FE0F}\x{1F3FB}-\x{1F3FF}]"
_STEP = 0.0001
_START = "▁"
_ROLES = {
    "pad": "<|pad|>",
    "unk": "<unk>",
    "bos": "<|begin_of_text|>",
    "eos": "<|end_of_text|>",
    "mask": "<mask>",
}
_BERT_ROLES = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


@dataclass(frozen=True)
class Trained:
    """A tokenizer, the number of characters it was learnt from, and sentences on what was decided."""

    tokenizer: Tokenizer
    characters: int
    decisions: tuple[str, ...]


def train(
    paths: Sequence[Path | str],
    *,
    kind: str = "byte-bpe",
    size: int = 16_384,
    separator: str | None = None,
    text_field: str = "text",
    encoding: str | None = None,
    lowercase: bool = False,
    limit: int | None = None,
) -> Trained:
    """Learn a vocabulary of at most `size` tokens from files, folders or standard input (see `documents`).

    Of more than `limit` characters (default LIMITS and LIMIT) an even share of the text is read, not its beginning.
    `lowercase` is for WordPiece alone. Raises GnomonError for an unknown kind, a size too small and empty text.
    """
    limit = LIMITS.get(kind, LIMIT) if limit is None else limit
    total = text_size(paths)
    share = 1.0 if total is None else min(1.0, limit / max(1, total))
    texts = documents(paths, separator=separator, text_field=text_field, encoding=encoding)
    return train_on(_spread(texts, share), kind=kind, size=size, lowercase=lowercase, limit=limit)


def train_on(
    texts: Iterable[str], *, kind: str = "byte-bpe", size: int = 16_384, lowercase: bool = False, limit: int = LIMIT
) -> Trained:
    """As `train`, from a stream of texts, of which the first `limit` characters are used."""
    if kind not in KINDS:
        raise GnomonError(f"there is no kind of tokenizer called {kind!r}", did_you_mean(kind, KINDS))
    roles = _roles(kind)
    least = len(roles) + (len(pre_tokenizers.ByteLevel.alphabet()) if kind == "byte-bpe" else 1)
    if size < least:
        raise GnomonError(f"a {kind} vocabulary of {size} tokens is too small", f"give {least} or more")
    stream = _Stream(texts, limit)
    if not stream.first:
        raise GnomonError("there is no text to learn a tokenizer from", "give files that hold some text")
    backend = _untrained(kind, roles, lowercase=lowercase)
    try:
        backend.train_from_iterator(stream, _trainer(kind, size, list(roles.values())))
    except GnomonError:
        raise
    except Exception as error:  # the library raises bare Exception, such as for more characters than Unigram may hold
        raise GnomonError(
            f"no {kind} vocabulary of {size:,} tokens can be learnt: {error}", "give a larger size, or use byte-bpe"
        ) from error
    if kind == "wordpiece":
        backend = _as_wordpiece(backend, roles, size, lowercase=lowercase)
    if kind == "unigram":
        _settle(backend, roles)
    backend.post_processor = _template(backend, roles)
    config = {f"{role}_token": name for role, name in roles.items()}
    if kind == "wordpiece":
        config |= {"bos_token": roles["cls"], "eos_token": roles["sep"]}
    tokenizer = Tokenizer.from_json(backend.to_str(), {"tokenizer_class": "PreTrainedTokenizerFast", **config})
    return Trained(tokenizer, stream.characters, _decisions(tokenizer, kind, size, stream))


def save(tokenizer: Tokenizer, path: Path | str) -> None:
    """Write tokenizer.json and tokenizer_config.json into a folder, after a test that they read back the same.

    Raises GnomonError when the tokenizer cannot end a text, or pads with the token that ends one.
    """
    end = tokenizer.eos_id if tokenizer.eos_id is not None else tokenizer.sep_id
    if end is None or tokenizer.pad_id == end:
        fault = "has no token that ends a text" if end is None else "pads with the token that ends a text"
        raise GnomonError(
            f"the tokenizer {fault}, so a model could never learn to end", "add one to its special tokens"
        )
    tokenizer.self_test()
    files.write_text(Path(path) / "tokenizer.json", tokenizer.to_json())
    files.write_json(Path(path) / "tokenizer_config.json", tokenizer.config)


class _Stream:
    """Texts for a trainer, in lists, with what was taken of them counted."""

    def __init__(self, texts: Iterable[str], limit: int) -> None:
        texts = (text for text in texts if text)
        self.first = next(texts, "")
        self.characters = 0
        self.cut = False
        self._texts = chain([self.first], texts)
        self._limit = limit

    def __iter__(self) -> Iterator[list[str]]:
        for text in self._texts:
            if self.characters >= self._limit:
                self.cut = True
                return
            self.characters += len(text)
            yield [text]


def _spread(texts: Iterable[str], share: float) -> Iterator[str]:
    """About `share` of the texts, from all over the stream, the first always."""
    return (text for number, text in enumerate(texts) if share >= 1 or number * _SPREAD % 1 < share)


def _roles(kind: str) -> dict[str, str]:
    if kind == "wordpiece":
        return _BERT_ROLES
    return {role: name for role, name in _ROLES.items() if not (role == "unk" and kind == "byte-bpe")}


def _untrained(kind: str, roles: dict[str, str], *, lowercase: bool) -> tokenizers.Tokenizer:
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    if kind == "byte-bpe":
        backend = tokenizers.Tokenizer(models.BPE())
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([words, byte_level])
        backend.decoder = decoders.ByteLevel()
        return backend
    if kind == "wordpiece":
        backend = tokenizers.Tokenizer(models.BPE(unk_token=roles["unk"]))
        backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        mark = pre_tokenizers.Metaspace(replacement=_START, prepend_scheme="always", split=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*_bert_words(), mark])
        return backend
    backend = tokenizers.Tokenizer(models.Unigram() if kind == "unigram" else models.BPE(unk_token=roles["unk"]))
    backend.pre_tokenizer = words
    backend.decoder = decoders.Fuse()
    return backend


def _trainer(kind: str, size: int, special: list[str]) -> Any:
    alphabet = size - len(special)
    if kind == "unigram":
        return trainers.UnigramTrainer(
            vocab_size=size,
            special_tokens=special,
            unk_token=_ROLES["unk"],
            max_piece_length=_LONGEST_WORD,
            show_progress=False,
        )
    if kind == "byte-bpe":
        return trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
    if kind == "wordpiece":  # which needs each character twice, and the mark is one more
        alphabet = alphabet // 2 + 1
    merged = 0 if kind == "characters" else size
    return trainers.BpeTrainer(vocab_size=merged, special_tokens=special, limit_alphabet=alphabet, show_progress=False)


def _bert_words() -> list[Any]:
    return [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(Regex(_SYMBOLS), "isolated")]


def _as_wordpiece(
    trained: tokenizers.Tokenizer, roles: dict[str, str], size: int, *, lowercase: bool
) -> tokenizers.Tokenizer:
    """WordPiece with the pieces of a BPE whose words begin with a mark: marked pieces begin a word, others go on.

    The library's own WordPiece trainer gives another vocabulary each time (its hash order shows), BPE's does not.
    """
    learnt = sorted(trained.get_vocab().items(), key=lambda item: item[1])
    ordinary = [piece for piece, _ in learnt if piece not in roles.values() and piece != _START]
    letters = [piece for piece in ordinary if len(piece) == 1]
    merged = (
        piece.removeprefix(_START) if piece[0] == _START else f"##{piece}" for piece in ordinary if len(piece) > 1
    )
    pieces = dict.fromkeys([*roles.values(), *letters, *(f"##{letter}" for letter in letters), *merged])
    vocabulary = {piece: number for number, piece in enumerate(list(pieces)[:size])}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=roles["unk"]))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.Sequence(_bert_words())
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(list(roles.values()))
    return backend


def _settle(backend: tokenizers.Tokenizer, roles: dict[str, str]) -> None:
    """Make a Unigram vocabulary the same in every run of the trainer.

    Its sums differ in their last digits, and characters that earned no score of their own get the lowest one and, in
    hash order, steps of 0.0001 above it: scores are rounded, and those characters all get the lowest.
    """
    model = json.loads(backend.to_str())["model"]
    special = set(roles.values())
    scored = sorted((round(score, 6), piece) for piece, score in model["vocab"] if piece not in special)
    lowest = reached = scored[0][0]
    settled = []
    for score, piece in scored:
        if len(piece) == 1 and score < reached + 1.5 * _STEP:
            reached, score = score, lowest
        settled.append((-score, piece))
    vocabulary = [(name, 0.0) for name in roles.values()] + [(piece, -score) for score, piece in sorted(settled)]
    backend.model = models.Unigram(vocabulary, unk_id=list(roles).index("unk"))


def _template(backend: tokenizers.Tokenizer, roles: dict[str, str]) -> processors.TemplateProcessing:
    """BERT's frame, or a begin token; the end token is left to `prepare`, for a prompt has no end."""
    first, last = roles.get("cls", roles.get("bos", "")), roles.get("sep")
    single = f"{first} $A {last}" if last else f"{first} $A"
    pair = f"{first} $A {last} $B:1 {last}:1" if last else f"{first} $A $B:1"
    ids = [(name, backend.token_to_id(name)) for name in (first, last) if name]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def _decisions(tokenizer: Tokenizer, kind: str, size: int, stream: _Stream) -> tuple[str, ...]:
    decisions = []
    if stream.cut:
        decisions.append(f"learnt from {stream.characters:,} characters of the text, the limit")
    if tokenizer.vocab_size < size and kind != "characters":
        decisions.append(f"the text gave {tokenizer.vocab_size:,} tokens, fewer than the {size:,} asked for")
    return tuple(decisions)
