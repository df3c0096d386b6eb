"""Small models of every family for the shared suite: one line here tests an architecture everywhere."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from gnomon.models.base import HeadConfig, Model
from gnomon.models.families import FAMILIES
from gnomon.text.batches import pad
from gnomon.text.tokenizer import Tokenizer

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz?", "what", "who", "is", "where")
TEXTS = ("what is a b c ?", "who is d", "where", "", "x", "a a a a a a a", "unheard-of é", "b c d e f g h i j k l m")
LABELS = ("place", "person", "thing")

_SIZES: dict[str, Any] = {"vocab_size": len(WORDS)}
_ENCODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64} | _SIZES
_ENCODER |= {"max_position_embeddings": 40}

_DECODER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48} | _SIZES
_DECODER |= {"max_position_embeddings": 40}

CASES: dict[str, tuple[str, dict[str, Any], HeadConfig | None]] = {
    "bert": ("encoder", _ENCODER, None),
    "distilbert": (
        "encoder",
        _ENCODER | {"model_type": "distilbert", "type_vocab_size": 0},
        HeadConfig("first", 32, "relu"),
    ),
    "roberta": (
        "encoder",
        _ENCODER | {"model_type": "roberta", "type_vocab_size": 1, "position_offset": 1},
        HeadConfig("first", 32, "tanh", input_dropout=0.1),
    ),
    "encoder-pre-mean": (
        "encoder",
        _ENCODER | {"norm_position": "pre", "hidden_act": "relu", "model_type": "gnomon_encoder"},
        HeadConfig("mean"),
    ),
    "modernbert": ("modern_encoder", _ENCODER | {"num_hidden_layers": 3, "local_attention": 4}, None),
    "llama": ("decoder", _DECODER | {"num_key_value_heads": 2}, None),
    "qwen3-mean": ("decoder", _DECODER | {"qk_norm": True, "head_dim": 6}, HeadConfig("mean")),
    "gpt2": (
        "decoder",
        _DECODER
        | {"position_embedding_type": "learned", "norm": "layer", "gated": False, "hidden_act": "gelu_new"}
        | {"attention_bias": True, "attention_output_bias": True, "mlp_bias": True},
        HeadConfig("last", 20, "tanh"),
    ),
    "decoder-alibi-post-ngrams": (
        "decoder",
        _DECODER
        | {"position_embedding_type": "alibi", "norm_position": "post", "gated": False, "hidden_act": "relu2"}
        | {"num_ngram_buckets": 97, "ngram_sizes": (2, 3), "embedding_norm": True},
        None,
    ),
    "lstm": ("recurrent", _SIZES | {"embedding_size": 12, "hidden_size": 16}, None),
    "gru-2-attention": (
        "recurrent",
        _SIZES | {"embedding_size": 12, "hidden_size": 16, "cell": "gru", "num_hidden_layers": 2},
        HeadConfig("attention", 20, "relu"),
    ),
    "rnn-forward-last": (
        "recurrent",
        _SIZES | {"embedding_size": 12, "hidden_size": 16, "cell": "rnn", "bidirectional": False},
        HeadConfig("last"),
    ),
    "convolutional": ("convolutional", _SIZES | {"embedding_size": 12, "channels": 8}, None),
    "convolutional-deep": (
        "convolutional",
        _SIZES | {"embedding_size": 12, "channels": 8, "kernel_sizes": (1, 3, 6), "num_hidden_layers": 3},
        None,
    ),
    "convolutional-causal": ("convolutional", _SIZES | {"embedding_size": 12, "channels": 8, "causal": True}, None),
    "static": ("static", _SIZES | {"embedding_size": 24}, None),
    "static-ngrams": (
        "static",
        _SIZES | {"embedding_size": 24, "num_ngram_buckets": 101, "ngram_sizes": (2, 3), "dropout": 0.1},
        None,
    ),
}
"""Name -> family, config fields, head (None: the family's own)."""

each_family = pytest.mark.parametrize("name", CASES)
DEPLOYABLE = tuple(
    name
    for name, (family, _, _) in CASES.items()
    if family not in ("decoder", "modern_encoder") and name != "convolutional-causal"
)
"""The cases that have a runtime without torch."""

each_deployable = pytest.mark.parametrize("name", DEPLOYABLE)


def small_tokenizer() -> Tokenizer:
    """Words of `WORDS`, lower-cased, with [CLS] and [SEP]."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    special = [
        {"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for word, i in vocabulary.items()
        if word.startswith("[")
    ]  # fmt: skip
    parts = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    content = {
        "version": "1.0",
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*parts, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [*parts, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "special_tokens": {
                word: {"id": word, "ids": [vocabulary[word]], "tokens": [word]} for word in ("[CLS]", "[SEP]")
            },
        },
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return Tokenizer.from_json(json.dumps(content), {**names, "mask_token": "[MASK]"})


def small_model(name: str, *, seed: int = 0, spread: bool = True) -> Model:
    """The case called `name`, in evaluation mode; `spread` redraws every weight wide enough for each to matter."""
    family_name, fields, head = CASES[name]
    family = FAMILIES[family_name]
    torch.manual_seed(seed)
    config = family.config(**fields)
    model = Model(
        family.backbone(config),
        head or family.head(config),
        tokenizer=small_tokenizer(),
        labels=LABELS,
        max_length=32,
    )
    if spread:
        with torch.no_grad():
            for name_of, parameter in model.named_parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
                if name_of.endswith("ngrams.table.weight"):
                    parameter[0] = 0.0
    return model.eval()


def small_batch(model: Model, texts: tuple[str, ...] = TEXTS) -> tuple[torch.Tensor, torch.Tensor]:
    """ids [B, T] and mask [B, T] of `texts`."""
    rows = [item.ids for item in model.tokenizer.encode_batch(list(texts), max_length=model.max_length)]
    ids, mask = pad(rows, pad_id=model.tokenizer.pad_id)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def wider(ids: torch.Tensor, mask: torch.Tensor, by: int, *, fill: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same texts with `by` more padded places, which hold `fill`."""
    ids, mask = np.pad(ids.numpy(), ((0, 0), (0, by)), constant_values=fill), np.pad(mask.numpy(), ((0, 0), (0, by)))
    return torch.from_numpy(ids), torch.from_numpy(mask)
