"""The one decoding loop: prompts in, one chosen token per unfinished row and step out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gnomon.decoding.sampling import Processor, Sampler, Sampling, streams_of
from gnomon.decoding.stepper import Floats, Stepper, read_prompts
from gnomon.errors import GnomonError

Finish = Literal["end", "stop", "length"]
"""Why a row is finished: it chose an end token, `stopped` said so, or `max_new_tokens` were generated."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One generated token of one row; `finish` is set on the row's last.

    `probability` and `runners_up` (other ids and their probabilities, likeliest first) are the model's own: before
    penalties, temperature and filters. Without being asked for they are NaN and empty.
    """

    row: int
    id: int
    finish: Finish | None
    probability: float = float("nan")
    runners_up: tuple[tuple[int, float], ...] = ()


def decode(
    stepper: Stepper,
    prompts: Sequence[Sequence[int]],
    *,
    sampling: Sampling,
    max_new_tokens: int,
    end_ids: Collection[int],
    pad_id: int,
    stopped: Callable[[int, int], bool] = lambda row, token: False,
    runners_up: int | None = None,
    processors: Sequence[Processor] = (),
    prefill_chunk: int | None = None,
    streams: Sequence[int] | None = None,
) -> Iterator[list[Choice]]:
    """Continue the prompts (rows of ids), yielding the choices of each step until every row is finished.

    `stopped(row, id)` is asked after each token that is no end token. A finished row is only fed `pad_id`, and leaves
    the batch as soon as half of it has finished. `runners_up` asks for that many, and for probabilities; `processors`
    run before those of `sampling`; `streams` number the rows' random streams (see `streams_of`). Raises GnomonError as
    `read_prompts` does, and for scores that are no numbers.
    """
    if max_new_tokens < 1:
        raise GnomonError(f"max_new_tokens is {max_new_tokens}", "give 1 or more")
    if not prompts:
        return
    logits = read_prompts(stepper, prompts, pad_id=pad_id, max_new_tokens=max_new_tokens, chunk=prefill_chunk)
    sampler = Sampler(sampling, streams_of(prompts) if streams is None else streams, processors=processors)
    generated: list[list[int]] = [[] for _ in prompts]
    slots = list(range(len(prompts)))  # the row that stands in each place of the batch
    live = set(slots)
    while True:
        choices = []
        following = np.full(len(slots), pad_id, np.int64)
        for slot, row in enumerate(slots):
            if row not in live:
                continue
            scores = logits[slot]
            if not np.isfinite(scores.max()):
                raise _no_number(row, scores)
            token = sampler.choose(scores, row=row, generated=generated[row])
            generated[row].append(token)
            following[slot] = token
            finish: Finish | None = "length" if len(generated[row]) == max_new_tokens else None
            if token in end_ids:
                finish = "end"
            elif stopped(row, token):
                finish = "stop"
            if finish is not None:
                live.discard(row)
                following[slot] = pad_id
            choices.append(_choice(row, token, finish, scores, runners_up))
        yield choices
        if not live:
            return
        if 2 * len(live) <= len(slots):
            kept = np.array([slot for slot, row in enumerate(slots) if row in live], np.int64)
            stepper.reorder(kept)
            slots, following = [slots[slot] for slot in kept.tolist()], following[kept]
        logits = stepper.step(following)


def log_softmax(scores: Floats) -> Floats:
    """Log-probabilities float64 over the last axis of `scores`."""
    shifted: Floats = scores.astype(np.float64) - scores.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def likeliest(log_probabilities: Floats, count: int) -> list[int]:
    """The ids of the `count` largest of `log_probabilities` [V], likeliest first, equal ones by id."""
    count = min(count, len(log_probabilities))
    best = np.argpartition(log_probabilities, -count)[-count:] if count else np.zeros(0, np.int64)
    return [int(token) for token in best[np.lexsort((best, -log_probabilities[best]))]]


def describe(scores: Floats, token: int, runners_up: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The probability of `token` under scores [V], and the likeliest other ids with theirs."""
    log_probabilities = log_softmax(scores)
    others = [other for other in likeliest(log_probabilities, runners_up + 1) if other != token][:runners_up]
    probability = float(np.exp(log_probabilities[token]))
    return probability, tuple((other, float(np.exp(log_probabilities[other]))) for other in others)


def _choice(row: int, token: int, finish: Finish | None, scores: Floats, runners_up: int | None) -> Choice:
    if runners_up is None:
        return Choice(row, token, finish)
    return Choice(row, token, finish, *describe(scores, token, runners_up))


def _no_number(row: int, scores: Floats) -> GnomonError:
    bad = int((~np.isfinite(scores)).sum())
    return GnomonError(
        f"the model's scores for prompt {row} hold {bad:,} values that are no numbers (NaN or infinite)",
        "its weights are damaged, or training diverged: use an earlier checkpoint",
    )
