"""Tokenizers between GGUF metadata and tokenizer.json: byte-level BPE ("gpt2") and SentencePiece BPE ("llama")."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gnomon.errors import GnomonError, did_you_mean
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_training import WORDS

_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6  # ggml's kinds of tokens
_SPACE = "▁"
_ROLES = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}

_LLAMA_WORDS = WORDS.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


_PRE_TOKENIZERS: Mapping[str, list[dict[str, Any]]] = {
    "gpt-2": [_byte_level(use_regex=True)],
    "smollm": [{"type": "Digits", "individual_digits": True}, _byte_level(use_regex=True)],
    "qwen2": [_split(WORDS), _byte_level(use_regex=False)],
    "llama-bpe": [_split(_LLAMA_WORDS), _byte_level(use_regex=False)],
}
"""How text is cut into words, by the name llama.cpp has for it (`tokenizer.ggml.pre`)."""


def tokenizer_from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that a GGUF file's metadata describes. Raises GnomonError for kinds that are not read, by name."""
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise GnomonError("the GGUF file holds no tokenizer", "use a file with one, or give --tokenizer")
    kinds = metadata.get("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if kind == "gpt2":
        content = _byte_level_json(vocabulary, metadata)
    elif kind == "llama":
        content = _sentence_piece_json(vocabulary, kinds, metadata)
    else:
        raise GnomonError(f"the GGUF file's tokenizer is of the kind {kind!r}", 'read are "gpt2" and "llama"')
    content["added_tokens"] = [
        _added(number, token, special=kinds[number] in (_CONTROL, _UNKNOWN))
        for number, token in enumerate(tokens)
        if kinds[number] in (_CONTROL, _USER, _UNKNOWN)
    ]
    names = {
        role: tokens[number]
        for role, key in _ROLES.items()
        if (number := metadata.get(f"tokenizer.ggml.{key}_token_id")) is not None and number < len(tokens)
    }
    if "bos" in names and metadata.get("tokenizer.ggml.add_bos_token", kind == "llama"):
        content["post_processor"] = _begin(names["bos"], vocabulary[names["bos"]])
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **{f"{role}_token": name for role, name in names.items()}}
    if template := metadata.get("tokenizer.chat_template"):
        config["chat_template"] = template
    return Tokenizer.from_json(json.dumps(content), config)


def tokenizer_to_gguf(tokenizer: Tokenizer, *, vocab_size: int | None = None) -> dict[str, Any]:
    """The metadata of `tokenizer`, filled up with unused tokens to `vocab_size`, the rows of the model's embedding.

    Raises GnomonError for a tokenizer that llama.cpp has no counterpart of, saying what in it.
    """
    content = json.loads(tokenizer.to_json())
    model, names = content["model"], {number: token for token, number in tokenizer.vocabulary.items()}
    if model.get("type") != "BPE":
        raise GnomonError(
            f"llama.cpp has no counterpart of a {model.get('type')} tokenizer", "train one of the kind byte-bpe"
        )
    size = max(tokenizer.vocab_size, vocab_size or 0)
    tokens = [names.get(number, f"[UNUSED{number}]") for number in range(size)]
    added = {token["content"]: bool(token["special"]) for token in content["added_tokens"]}
    kinds = [_kind(token, added) if number in names else _UNUSED for number, token in enumerate(tokens)]
    metadata: dict[str, Any] = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}
    if model.get("byte_fallback"):
        metadata |= _sentence_piece_metadata(tokenizer, content, tokens, kinds)
    else:
        metadata |= {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": _pre_tokenizer_name(content)}
        metadata["tokenizer.ggml.merges"] = [" ".join(pair) for pair in _pairs(model["merges"])]
    for role, number in (("bos", tokenizer.bos_id), ("eos", tokenizer.eos_id), ("pad", tokenizer.pad_id)):
        if number is not None:
            metadata[f"tokenizer.ggml.{_ROLES[role]}_token_id"] = number
    metadata["tokenizer.ggml.add_bos_token"] = tokenizer.encode("").ids[:1] == [tokenizer.bos_id]
    if isinstance(template := tokenizer.config.get("chat_template"), str):
        metadata["tokenizer.chat_template"] = template
    return metadata


def _byte_level_json(vocabulary: Mapping[str, int], metadata: Mapping[str, Any]) -> dict[str, Any]:
    name = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if name not in _PRE_TOKENIZERS:
        raise GnomonError(
            f"the GGUF file cuts text into words by the rule {name!r}, which is not known here",
            did_you_mean(str(name), _PRE_TOKENIZERS),
        )
    merges = [merge.split(" ", 1) for merge in metadata.get("tokenizer.ggml.merges", [])]
    steps = _PRE_TOKENIZERS[name]
    return {
        "version": "1.0",
        "pre_tokenizer": steps[0] if len(steps) == 1 else {"type": "Sequence", "pretokenizers": steps},
        "decoder": _byte_level(use_regex=True),
        "model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
    }


def _sentence_piece_json(
    vocabulary: Mapping[str, int], kinds: Sequence[int], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    scores = metadata.get("tokenizer.ggml.scores") or [0.0] * len(vocabulary)
    scheme = "first" if metadata.get("tokenizer.ggml.add_space_prefix", True) else "never"
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if scheme == "first":
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {
        "version": "1.0",
        "pre_tokenizer": {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": False},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": _merges(vocabulary, kinds, scores),
            "unk_token": next((token for token, number in vocabulary.items() if kinds[number] == _UNKNOWN), None),
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


def _merges(vocabulary: Mapping[str, int], kinds: Sequence[int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours whose whole scores best: as BPE, every way to make a piece, by its score."""
    found = []
    for piece, number in vocabulary.items():
        if kinds[number] not in (_NORMAL, _USER):
            continue
        for place in range(1, len(piece)):
            left, right = piece[:place], piece[place:]
            if left in vocabulary and right in vocabulary:
                found.append((-scores[number], number, vocabulary[left], vocabulary[right], left, right))
    return [(left, right) for *_, left, right in sorted(found)]


def _sentence_piece_metadata(
    tokenizer: Tokenizer, content: Mapping[str, Any], tokens: Sequence[str], kinds: list[int]
) -> dict[str, Any]:
    metaspace = content.get("pre_tokenizer") or {}
    normalizers = (content.get("normalizer") or {}).get("normalizers", [])
    prepends = (
        metaspace.get("prepend_scheme", "never") != "never" or {"type": "Prepend", "prepend": _SPACE} in normalizers
    )
    if metaspace.get("type") != "Metaspace" and not any(step.get("type") == "Replace" for step in normalizers):
        raise GnomonError("the tokenizer spells spaces in a way llama.cpp does not know", "use a byte-bpe tokenizer")
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(_pairs(content["model"]["merges"])):
        ranks.setdefault(left + right, rank)
    lowest = len(ranks)  # single characters are never joined, so their score matters to no one
    scores = [
        float(-ranks.get(token, lowest)) if kind == _NORMAL else 0.0 for token, kind in zip(tokens, kinds, strict=True)
    ]
    metadata: dict[str, Any] = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default"}
    metadata |= {"tokenizer.ggml.scores": scores, "tokenizer.ggml.add_space_prefix": prepends}
    unknown = next((number for number, token in enumerate(tokens) if token == "<unk>"), tokenizer.unk_id)
    if unknown is not None:
        kinds[unknown] = _UNKNOWN
        metadata["tokenizer.ggml.unknown_token_id"] = unknown
    return metadata


def _pre_tokenizer_name(content: Mapping[str, Any]) -> str:
    """llama.cpp's name for how `content` cuts text into words."""
    found = content.get("pre_tokenizer") or {}
    steps = [_essence(step) for step in found.get("pretokenizers", [found])]
    name = next((name for name, known in _PRE_TOKENIZERS.items() if steps == [_essence(step) for step in known]), None)
    normalizer = (content.get("normalizer") or {}).get("type")
    if name is None or (normalizer, name) not in ((None, name), ("NFC", "qwen2")):
        what = "cuts text into words" if name is None else f"changes text ({normalizer})"
        raise GnomonError(
            f"the tokenizer {what} in a way llama.cpp has no name for",
            f"use a byte-bpe tokenizer that gnomon trained, or one of the kinds {', '.join(_PRE_TOKENIZERS)}",
        )
    return name


def _essence(step: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key != "trim_offsets"}  # which moves no token


def _kind(token: str, added: Mapping[str, bool]) -> int:
    if token in added:
        return _CONTROL if added[token] else _USER
    return _BYTE if len(token) == 6 and token.startswith("<0x") and token.endswith(">") else _NORMAL


def _pairs(merges: Iterable[Any]) -> list[tuple[str, str]]:
    """Merges as pairs; older files write them as one string with a space."""
    pairs = (merge.split(" ", 1) if isinstance(merge, str) else merge for merge in merges)
    return [(left, right) for left, right in pairs]


def _added(number: int, token: str, *, special: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, **flags, "special": special}


def _begin(name: str, number: int) -> dict[str, Any]:
    """A post-processor that puts one token before every text."""
    first, text = {"SpecialToken": {"id": name, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}
    second = {"Sequence": {"id": "B", "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [first, text],
        "pair": [first, text, second],
        "special_tokens": {name: {"id": name, "ids": [number], "tokens": [name]}},
    }
