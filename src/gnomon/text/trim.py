"""A smaller vocabulary that segments the training texts exactly as the whole one does.

A student that reads questions needs 4,000 of BERT's 30,522 rows. What is kept: special and added tokens, every single
character and byte (so that new words still have pieces), what the texts use, and for BPE every merge on the way to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gnomon.errors import GnomonError
from gnomon.text.tokenizer import Tokenizer, iterate_ids


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The smaller tokenizer, and `kept_ids` int64 [new vocabulary]: its id i was kept_ids[i]."""

    tokenizer: Tokenizer
    kept_ids: np.ndarray


def trim(tokenizer: Tokenizer, texts: Iterable[str], *, minimum_count: int = 1) -> Trimmed:
    """Keep what `texts` use. With `minimum_count` above 1, pieces used fewer times go too, unless kept anyway, and the
    texts that used them segment into smaller ones; all others segment as before, which is checked here.

    Raises GnomonError for a kind of tokenizer that cannot be trimmed.
    """
    texts = list(texts)
    sequences = [np.asarray(ids, np.int32) for ids in iterate_ids(tokenizer, texts)]
    used = np.bincount(np.concatenate([*sequences, np.empty(0, np.int32)]), minlength=tokenizer.vocab_size)
    parsed = json.loads(tokenizer.to_json())
    model = parsed["model"]
    kept = _always_kept(parsed) | {
        token for token, index in tokenizer.vocabulary.items() if used[index] >= minimum_count
    }
    if model["type"] == "BPE":
        kept = _with_merge_closure(kept, model)
    old = _order(kept, _model_tokens(model), tokenizer.vocabulary)
    new_id = {token: index for index, token in enumerate(old)}
    _shrink(model, new_id)
    parsed["added_tokens"] = [{**added, "id": new_id[added["content"]]} for added in parsed["added_tokens"]]
    _renumber_post_processor(parsed["post_processor"], new_id)
    trimmed = Tokenizer.from_json(json.dumps(parsed, ensure_ascii=False), _renumbered(tokenizer.config, new_id))
    kept_ids = np.asarray([tokenizer.vocabulary[token] for token in old], np.int64)
    _verify(trimmed, new_id, kept_ids, texts, sequences)
    return Trimmed(trimmed, kept_ids)


def _model_tokens(model: Mapping[str, Any]) -> list[str]:
    """The model's own tokens in the order of their ids."""
    if model["type"] == "Unigram":
        return [piece for piece, _ in model["vocab"]]
    if model["type"] in ("WordPiece", "WordLevel", "BPE"):
        return sorted(model["vocab"], key=model["vocab"].__getitem__)
    raise GnomonError(f"a tokenizer of type {model['type']} cannot be trimmed", "keep its whole vocabulary")


def _always_kept(parsed: Mapping[str, Any]) -> set[str]:
    """Added tokens, the unknown token, single characters (after a prefix or before a suffix too) and bytes."""
    model = parsed["model"]
    prefix = model.get("continuing_subword_prefix") or ""
    suffix = model.get("end_of_word_suffix") or ""
    tokens = _model_tokens(model)
    kept = {added["content"] for added in parsed["added_tokens"]}
    kept |= {token for token in tokens if len(token.removeprefix(prefix).removesuffix(suffix)) <= 1}
    kept |= {f"<0x{byte:02X}>" for byte in range(256)}.intersection(tokens) if model.get("byte_fallback") else set()
    if model["type"] == "Unigram":
        # The price of an unknown character is reckoned from the lowest score, so that one has to stay as it is.
        kept.add(min(model["vocab"], key=lambda pair: pair[1])[0])
        if model.get("unk_id") is not None:
            kept.add(tokens[model["unk_id"]])
    elif model.get("unk_token") in model["vocab"]:
        kept.add(model["unk_token"])
    return kept


def _with_merge_closure(kept: set[str], model: Mapping[str, Any]) -> set[str]:
    """`kept` and every token from which, merge by merge, one of them is made."""
    parts: dict[str, list[str]] = {}
    for left, right in _merges(model):
        parts.setdefault(_merged(left, right, model), []).extend((left, right))
    waiting = list(kept)
    closed = set(kept)
    while waiting:
        fresh = [part for part in parts.get(waiting.pop(), ()) if part not in closed]
        closed.update(fresh)
        waiting.extend(fresh)
    return closed


def _merges(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs; older files write them as one string with a space."""
    pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
    return [(left, right) for left, right in pairs]


def _merged(left: str, right: str, model: Mapping[str, Any]) -> str:
    return left + right.removeprefix(model.get("continuing_subword_prefix") or "")


def _order(kept: set[str], model_tokens: list[str], vocabulary: Mapping[str, int]) -> list[str]:
    """Kept tokens in their new order: the model's by their old id, then the added ones that only stand beside it, which
    the library numbers after the model's."""
    own = [token for token in model_tokens if token in kept]
    return own + sorted(kept.difference(own), key=vocabulary.__getitem__)


def _shrink(model: dict[str, Any], new_id: Mapping[str, int]) -> None:
    if model["type"] == "Unigram":
        unknown = None if model.get("unk_id") is None else model["vocab"][model["unk_id"]][0]
        model["vocab"] = [pair for pair in model["vocab"] if pair[0] in new_id]
        model["unk_id"] = None if unknown is None else new_id[unknown]
        return
    model["vocab"] = {token: new_id[token] for token in _model_tokens(model) if token in new_id}
    if model["type"] == "BPE":
        vocabulary = model["vocab"]
        model["merges"] = [
            (left, right)
            for left, right in _merges(model)
            if left in vocabulary and right in vocabulary and _merged(left, right, model) in vocabulary
        ]


def _renumber_post_processor(processor: Any, new_id: Mapping[str, int]) -> None:
    if not isinstance(processor, dict):
        return
    for nested in processor.get("processors") or ():
        _renumber_post_processor(nested, new_id)
    if processor["type"] in ("BertProcessing", "RobertaProcessing"):
        for role in ("sep", "cls"):
            token = processor[role][0]
            processor[role] = [token, new_id[token]]
    if processor["type"] == "TemplateProcessing":
        for special in processor["special_tokens"].values():
            special["ids"] = [new_id[token] for token in special["tokens"]]


def _renumbered(config: Mapping[str, Any], new_id: Mapping[str, int]) -> dict[str, Any]:
    """tokenizer_config.json may list added tokens by id."""
    if "added_tokens_decoder" not in config:
        return dict(config)
    added = config["added_tokens_decoder"].values()
    listed = {str(new_id[token["content"]]): token for token in added if token["content"] in new_id}
    return {**config, "added_tokens_decoder": listed}


def _verify(
    trimmed: Tokenizer, new_id: Mapping[str, int], kept_ids: np.ndarray, texts: list[str], sequences: list[np.ndarray]
) -> None:
    """The promise itself: every text whose pieces were all kept has the same pieces."""
    if trimmed.vocabulary != new_id:
        raise RuntimeError("the trimmed tokenizer numbers its tokens otherwise than planned")
    kept = set(kept_ids.tolist())
    for text, before, after in zip(texts, sequences, iterate_ids(trimmed, texts), strict=True):
        if not np.array_equal(kept_ids[after], before) and kept.issuperset(before.tolist()):
            raise RuntimeError(f"the trimmed tokenizer segments a training text otherwise than before: {text!r:.200}")
