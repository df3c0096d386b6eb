"""A training small enough for a test and real in its parts: words that tell a label, dropout, a sparse table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gnomon.models.base import Backbone, Model
from gnomon.models.convolutional import ConvolutionalBackbone, ConvolutionalConfig
from gnomon.models.encoder import EncoderBackbone, EncoderConfig
from gnomon.models.families import FAMILIES
from gnomon.models.recurrent import RecurrentBackbone, RecurrentConfig
from gnomon.models.static import StaticBackbone, StaticConfig
from gnomon.objectives.classification import Classification, LabelledRow
from gnomon.text.batches import Batches
from gnomon.text.tokenizer import Tokenizer
from gnomon.train.plan import Plan

LABELS = ("animal", "colour", "number")
WORDS = 40


def tokenizer() -> Tokenizer:
    """Words w0 .. w37 and two special tokens."""
    vocabulary = {"[PAD]": 0, "[UNK]": 1, **{f"w{n}": n + 2 for n in range(WORDS - 2)}}
    added = [
        {
            "id": i,
            "content": t,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i, t in enumerate(("[PAD]", "[UNK]"))
    ]
    return Tokenizer.from_json(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": added,
                "normalizer": None,
                "pre_tokenizer": {"type": "Whitespace"},
                "post_processor": None,
                "decoder": None,
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
            }
        ),
        {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    )


def tiny_model(family: str = "static", *, seed: int = 0) -> Model:
    """A model of some thousand numbers with dropout; the static one has a sparse table of n-grams."""
    torch.manual_seed(seed)
    backbone: Backbone
    if family == "static":
        backbone = StaticBackbone(StaticConfig(WORDS, 8, num_ngram_buckets=64, dropout=0.2))
    elif family == "recurrent":
        backbone = RecurrentBackbone(RecurrentConfig(WORDS, 8, 6, dropout=0.2))
    elif family == "convolutional":
        backbone = ConvolutionalBackbone(ConvolutionalConfig(WORDS, 8, 6, kernel_sizes=(2, 3), dropout=0.2))
    else:
        backbone = EncoderBackbone(EncoderConfig(WORDS, 8, 2, 2, 16, max_position_embeddings=16))
    head = FAMILIES[family].head(backbone.config)
    return Model(backbone, head, tokenizer=tokenizer(), labels=LABELS, max_length=16)


def without_dropout(model: Model) -> Model:
    """The same model, exact from pass to pass."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.backbone.config = replace(model.backbone.config, dropout=0.0)
    return model


def rows(count: int, seed: int = 0) -> list[LabelledRow]:
    """Texts of 2 to 9 words; the label is that of most of them, with a little noise."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        label = int(generator.integers(3))
        words = generator.integers(2, WORDS, size=int(generator.integers(2, 10)))
        words[generator.random(len(words)) < 0.6] = 3 * int(generator.integers(1, 5)) + 2 + label
        made.append(LabelledRow(words.tolist(), label if generator.random() < 0.9 else int(generator.integers(3))))
    return made


def batches(count: int, *, seed: int = 0, batch_size: int = 8, shuffle: bool = True) -> Batches[LabelledRow]:
    """So many rows in batches."""
    made = rows(count, seed)
    return Batches(made, [len(row.ids) for row in made], batch_size=batch_size, seed=seed, shuffle=shuffle)


def objective() -> Classification:
    """Cross-entropy on the three labels."""
    return Classification(LABELS, pad_id=0)


def plan(**changes: Any) -> Plan:
    """Three epochs with accumulation; `changes` override."""
    return Plan(**{"epochs": 3, "learning_rate": 0.02, "accumulation": 2, "log_every": 3, **changes})


def weights(model: Model) -> dict[str, Tensor]:
    """A copy of the model's tensors."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def without_clock(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records as they are in every run of the same seed."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


def folder(path: Path) -> set[str]:
    """Names in a folder."""
    return {item.name for item in path.iterdir()}
