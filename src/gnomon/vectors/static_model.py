"""Word vectors as the start of a static model: a row for every token, and how much each counts in a text's mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.formats.modeldir import write_model_dir
from gnomon.text.tokenizer import Tokenizer
from gnomon.vectors.keyed import Floats, WordVectors
from gnomon.vectors.word_tokenizer import MASK, word_tokenizer

COMMON = 1e-3
"""Words with a larger share of the text count less in a mean: a / (a + share), Arora, Liang and Ma 2017."""
MAX_LENGTH = 512


@dataclass(frozen=True)
class TokenTable:
    """`vectors` float32 [V, D] and `scores` float32 [V], by the ids of `tokenizer`.

    A token's share of a text's mean is the exponential of its score. Tokens without a vector (special, unknown) have
    zeros.
    """

    tokenizer: Tokenizer
    vectors: Floats
    scores: Floats


def token_table(vectors: WordVectors, *, mask_token: str = MASK) -> TokenTable:
    """The vectors by the ids of the tokenizer they were learnt with, or else of one that knows their words."""
    if vectors.tokenizer_json is not None:
        tokenizer = Tokenizer.from_json(vectors.tokenizer_json)
    else:
        by_character = vectors.details.get("text") == "chars"
        tokenizer = word_tokenizer(vectors.words, by_character=by_character, mask_token=mask_token)
    ids = np.array([tokenizer.vocabulary[word] for word in vectors.words])
    rows = np.zeros((tokenizer.vocab_size, vectors.size), np.float32)
    rows[ids] = vectors.matrix()
    rows[tokenizer.pad_id] = 0
    scores = np.zeros(len(rows), np.float32)
    if vectors.counts is not None:
        scores[ids] = np.log(COMMON / (COMMON + vectors.counts / max(int(vectors.counts.sum()), 1)))
    return TokenTable(tokenizer, rows, scores)


def write_static_model(vectors: WordVectors, path: Path | str) -> None:
    """Write a model folder of the family static, without a head: `gnomon tune --teacher` gives it one."""
    table = token_table(vectors)
    fields: dict[str, Any] = {
        "vocab_size": len(table.vectors),
        "embedding_size": vectors.size,
        "num_ngram_buckets": 0,
        "ngram_sizes": [2],
        "dropout": 0.0,
        "pad_token_id": table.tokenizer.pad_id,
    }
    write_model_dir(
        path,
        config={
            "model_type": "gnomon_static",
            "gnomon": {"family": "static", "max_length": MAX_LENGTH, "config": fields},
        },
        arrays={"backbone.tokens.weight": table.vectors, "backbone.scores.weight": table.scores[:, None]},
        tokenizer_json=table.tokenizer.to_json(),
        tokenizer_config=table.tokenizer.config,
        card=f"# A static model without a head\n\n{len(vectors):,} words, {vectors.size} numbers each, from word "
        "vectors.\n\n    gnomon tune DATA --teacher THIS_FOLDER\n",
    )
