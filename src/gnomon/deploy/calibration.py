"""The text that narrow weights are made and measured on: a user's, or the model's own and a sample of ours."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import numpy as np

from gnomon.decoding.loop import decode
from gnomon.decoding.sampling import Sampling
from gnomon.decoding.stepper import Stepper
from gnomon.text.tokenizer import Tokenizer

Rows = list[list[int]]

_ROW, _MOST = 128, 4096  # ids of a row, and of all rows


def in_rows(ids: Sequence[int]) -> Rows:
    """A text's ids as rows to measure on."""
    return [list(ids[start : start + _ROW]) for start in range(0, min(len(ids), _MOST), _ROW)]


def sample_rows(tokenizer: Tokenizer) -> Rows:
    """Sixteen short texts of different kinds, English and Chinese."""
    text = (resources.files("gnomon.deploy") / "sample.txt").read_text(encoding="utf-8")
    return in_rows(tokenizer.encode(text).ids)


def own_rows(stepper: Stepper, tokenizer: Tokenizer, count: int, *, seed: int, max_length: int) -> Rows:
    """`count` rows of what the model writes after one token each, drawn at its own probabilities.

    So (LLM-QAT, Liu et al. 2023) no text has to be brought to see what its matrices are multiplied with, and it is of
    the languages and kinds the model knows. Where the tokenizer has a token that begins a text, it comes first.
    """
    ordinary = [number for number in sorted(tokenizer.vocabulary.values()) if number not in tokenizer.special_ids]
    generator = np.random.default_rng(seed)
    opening = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    rows = [[*opening, int(first)] for first in generator.choice(ordinary, count)]
    sampling = Sampling(temperature=1.0, seed=seed)
    new = min(_ROW, max_length) - len(rows[0])
    if new < 1:  # a context that the beginnings fill
        return rows
    prompts = [list(row) for row in rows]
    for choices in decode(stepper, prompts, sampling=sampling, max_new_tokens=new, end_ids=(), pad_id=tokenizer.pad_id):
        for choice in choices:
            rows[choice.row].append(choice.id)
    stepper.trim(0)
    return rows
