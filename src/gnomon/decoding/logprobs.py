"""How likely a model holds given text: the log-probability of each token, or each with what it might have been."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gnomon.decoding.generate import Token
from gnomon.decoding.loop import describe
from gnomon.decoding.stepper import Floats, Stepper, read_prompts
from gnomon.decoding.text_stream import token_text
from gnomon.errors import GnomonError
from gnomon.text.batches import length_sorted_batches, pad
from gnomon.text.tokenizer import Tokenizer


def score_rows(stepper: Stepper, rows: Sequence[Sequence[int]], *, pad_id: int, batch_size: int = 8) -> list[Floats]:
    """The log-probability in nats, float64 [len - 1], of each id of each row but its first, which nothing precedes.

    Raises GnomonError for a row longer than the context.
    """
    limit = stepper.max_length
    longest = max(map(len, rows), default=0)
    if limit is not None and longest > limit:
        raise GnomonError(
            f"a text has {longest:,} tokens, more than the {limit:,} of the model's context",
            "score it in windows (measure.language.sliding_windows), as `gnomon evaluate` does",
        )
    scored: list[Floats] = [np.zeros(0)] * len(rows)
    for batch in length_sorted_batches([len(row) for row in rows], batch_size=batch_size):
        numbers = batch.tolist()
        ids, mask = pad([rows[number] for number in numbers], pad_id=pad_id)
        values = stepper.score(ids, mask)
        for number, row in zip(numbers, values, strict=True):
            scored[number] = row[1 : len(rows[number])].astype(np.float64)
    return scored


def explain(stepper: Stepper, tokenizer: Tokenizer, ids: Sequence[int], *, runners_up: int = 5) -> list[Token]:
    """Each of `ids` but the first with its probability and the likeliest others: one step of the model a token."""
    if len(ids) < 2:
        return []
    logits = read_prompts(stepper, [ids[:1]], pad_id=tokenizer.pad_id, max_new_tokens=len(ids) - 1)
    tokens = []
    for place, token in enumerate(ids[1:], 1):
        probability, others = describe(logits[0], token, runners_up)
        named = tuple((token_text(tokenizer, other), share) for other, share in others)
        tokens.append(Token(token, token_text(tokenizer, token), probability, named))
        if place + 1 < len(ids):
            logits = stepper.step(np.array([token], np.int64))
    return tokens
