"""Which token plays which part (padding, unknown, first, last, mask): read from the files, else from known names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")

_KNOWN_NAMES: Mapping[str, tuple[str, ...]] = {
    "pad": ("[PAD]", "<pad>", "<PAD>", "<|pad|>", "<|padding|>", "<|finetune_right_pad_id|>"),
    "unk": ("[UNK]", "<unk>", "<UNK>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("[BOS]", "<bos>", "<s>", "<|begin_of_text|>"),
    "eos": ("[EOS]", "<eos>", "</s>", "<|end_of_text|>", "<|endoftext|>"),
}


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Ids by role; None where the tokenizer has no such token. `names` are the tokens themselves."""

    ids: Mapping[str, int]
    names: Mapping[str, str]
    pad_id: int
    special_ids: frozenset[int]
    decisions: tuple[str, ...]


def find_special_tokens(
    tokenizer: Mapping[str, Any], config: Mapping[str, Any], vocabulary: Mapping[str, int]
) -> SpecialTokens:
    """The special tokens of a parsed tokenizer.json and its tokenizer_config.json.

    What the configuration declares wins, except that the unknown token is what the model itself emits.
    """
    names = {role: name for role in ROLES if (name := _declared(config.get(f"{role}_token"))) in vocabulary}
    for role in ROLES:
        for name in _KNOWN_NAMES[role]:
            if role not in names and name in vocabulary:
                names[role] = name
    names |= _from_template(tokenizer.get("post_processor"), names, vocabulary)
    unknown = _emitted_unknown(tokenizer.get("model", {}))
    if unknown is not None and unknown in vocabulary:
        names["unk"] = unknown
    elif names.get("unk") is not None and names["unk"] in (names.get("eos"), names.get("bos")):
        del names["unk"]  # GPT-2 declares its end of text as "unknown" too, but a byte-level model never emits it
    ids = {role: vocabulary[name] for role, name in names.items()}
    pad_id, decisions = _padding(ids, names, vocabulary)
    added = [token for token in tokenizer.get("added_tokens") or () if token.get("special")]
    special = {*ids.values(), *(vocabulary[token["content"]] for token in added if token["content"] in vocabulary)}
    return SpecialTokens(ids, names, pad_id, frozenset(special), decisions)


def _declared(value: Any) -> str:
    """A token in a configuration is a string, or a dictionary of an AddedToken."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""


def _from_template(processor: Any, names: Mapping[str, str], vocabulary: Mapping[str, int]) -> dict[str, str]:
    """The `cls` and `sep` that a BERT or RoBERTa post-processor itself names."""
    if not isinstance(processor, Mapping):
        return {}
    found: dict[str, str] = {}
    for nested in processor.get("processors") or ():
        found |= _from_template(nested, names, vocabulary)
    if processor.get("type") in ("BertProcessing", "RobertaProcessing"):
        found |= {role: processor[role][0] for role in ("cls", "sep") if role in processor}
    return {role: name for role, name in found.items() if role not in names and name in vocabulary}


def _emitted_unknown(model: Mapping[str, Any]) -> str | None:
    if model.get("type") == "Unigram":
        unk_id = model.get("unk_id")
        return str(model["vocab"][unk_id][0]) if unk_id is not None else None
    unknown = model.get("unk_token")
    return unknown if isinstance(unknown, str) else None


def _padding(
    ids: Mapping[str, int], names: Mapping[str, str], vocabulary: Mapping[str, int]
) -> tuple[int, tuple[str, ...]]:
    """The id that fills padded places. The mask hides them, so any id does; it is only never the end in silence."""
    if "pad" in ids:
        if ids["pad"] == ids.get("eos"):
            return ids["pad"], (
                f"{names['pad']!r} both pads and ends a text: padded places are told by the mask alone",
            )
        return ids["pad"], ()
    token, pad_id = min(
        ((token, index) for token, index in vocabulary.items() if index != ids.get("eos")),
        key=lambda pair: pair[1],
        default=("", 0),
    )
    return pad_id, (
        f"the tokenizer has no padding token: id {pad_id} ({token!r}) fills padded places, hidden by the mask",
    )
