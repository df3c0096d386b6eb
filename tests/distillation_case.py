"""A small teacher over a small WordPiece vocabulary, and labelled questions: what the distillation tests share."""

from __future__ import annotations

import json

import torch

from gnomon.models.base import HeadConfig, Model
from gnomon.models.encoder import EncoderBackbone, EncoderConfig
from gnomon.text.tokenizer import Tokenizer

LABELS = ("number", "person", "place")
_SUBJECTS = ("tiger", "river", "king", "city", "book", "planet", "song", "war", "queen", "river")
TEXTS = tuple(
    f"{start} {subject} {end}"
    for start, end in (("how many", "are there"), ("who made the", "first"), ("where is the", "now"))
    for subject in _SUBJECTS
)
GOLD = tuple(label for label in LABELS for _ in _SUBJECTS)
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_tokenizer() -> Tokenizer:
    """A BERT tokenizer whose vocabulary has more words than the texts use."""
    words = sorted({word for text in TEXTS for word in text.split()} | {"unused", "neverseen"})
    vocabulary = [*_SPECIAL, *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"), *words]
    ids = {token: index for index, token in enumerate(vocabulary)}
    parsed = {
        "version": "1.0",
        "added_tokens": [
            {
                "id": ids[token],
                "content": token,
                "special": True,
                **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
            }
            for token in _SPECIAL
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "BertProcessing",
            "sep": ["[SEP]", ids["[SEP]"]],
            "cls": ["[CLS]", ids["[CLS]"]],
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": ids,
        },
    }
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return Tokenizer.from_json(json.dumps(parsed), {"tokenizer_class": "BertTokenizer", **names})


def tiny_teacher(*, labels: tuple[str, ...] = LABELS, seed: int = 0) -> Model:
    """A 4-layer encoder of random weights, large enough to disagree with itself from text to text."""
    tokenizer = tiny_tokenizer()
    config = EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=24,
        initializer_range=0.3,
        pad_token_id=tokenizer.pad_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = HeadConfig("first", 32, "tanh")
        model = Model(EncoderBackbone(config), head, tokenizer=tokenizer, labels=labels, max_length=16)
        torch.nn.init.normal_(model.head.out.weight, std=0.5)
    return model.eval()
