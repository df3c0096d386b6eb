"""Beam search: the likeliest continuations found by keeping the best few open at every step."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from gnomon.decoding.loop import likeliest, log_softmax
from gnomon.decoding.sampling import Processor
from gnomon.decoding.stepper import Floats, Stepper, read_prompts
from gnomon.errors import GnomonError


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One continuation: its ids (an end token included), their summed log-probability, and that sum divided by the
    number of ids to the power of the length penalty: the score that ranks it."""

    ids: tuple[int, ...]
    log_probability: float
    score: float


@dataclass(slots=True)
class _Search:
    """The open beams of one prompt, best first, and its best finished continuations."""

    beams: list[tuple[tuple[int, ...], float]] = field(default_factory=lambda: [((), 0.0)])
    finished: list[Hypothesis] = field(default_factory=list)
    done: bool = False


def beam_search(
    stepper: Stepper,
    prompts: Sequence[Sequence[int]],
    *,
    num_beams: int,
    max_new_tokens: int,
    end_ids: Collection[int],
    pad_id: int,
    length_penalty: float = 1.0,
    processors: Sequence[Processor] = (),
    prefill_chunk: int | None = None,
) -> list[list[Hypothesis]]:
    """The best `num_beams` continuations found for each prompt, best first.

    A prompt is done when it has as many finished continuations and the best open one, scored at its present length,
    is no better than the worst of them: exact with a length penalty of 0, otherwise a heuristic, the default one of
    the `transformers` library. `processors` change log-probabilities. Raises GnomonError as `read_prompts` does.
    """
    if num_beams < 1 or max_new_tokens < 1:
        raise GnomonError(f"num_beams is {num_beams} and max_new_tokens is {max_new_tokens}", "give 1 or more of each")
    if not prompts:
        return []
    logits = read_prompts(stepper, prompts, pad_id=pad_id, max_new_tokens=max_new_tokens, chunk=prefill_chunk)
    searches = [_Search() for _ in prompts]
    for length in range(1, max_new_tokens + 1):
        sources: list[int] = []
        place = 0
        for search in searches:
            if search.done:
                continue
            scores = _log_probabilities(logits[place : place + len(search.beams)], search, processors)
            last = length == max_new_tokens
            parents = _advance(search, scores, num_beams, end_ids, length, length_penalty, last=last)
            sources += [] if search.done else [place + parent for parent in parents]
            place += len(scores)
        if not sources:
            break
        if sources != list(range(place)):
            stepper.reorder(np.array(sources, np.int64))
        open_beams = [ids for search in searches if not search.done for ids, _ in search.beams]
        logits = stepper.step(np.array([ids[-1] for ids in open_beams], np.int64))
    return [search.finished for search in searches]


def _log_probabilities(logits: Floats, search: _Search, processors: Sequence[Processor]) -> Floats:
    """Log-probabilities [beams, V] of the next tokens; -inf for what processors exclude."""
    scores = log_softmax(logits)
    if not np.isfinite(scores.max()):
        raise GnomonError(
            "the model's scores are no numbers (NaN or infinite)",
            "its weights are damaged, or training diverged: use an earlier checkpoint",
        )
    for processor in processors:
        scores = np.stack([processor(row, ids) for row, (ids, _) in zip(scores, search.beams, strict=True)])
    return scores


def _advance(
    search: _Search,
    scores: Floats,
    num_beams: int,
    end_ids: Collection[int],
    length: int,
    length_penalty: float,
    *,
    last: bool,
) -> list[int]:
    """Choose the next beams of one prompt from scores [beams, V]; the number of the beam each one continues."""
    vocab_size = scores.shape[1]
    totals = (scores + np.array([total for _, total in search.beams])[:, None]).ravel()
    beams: list[tuple[tuple[int, ...], float]] = []
    parents: list[int] = []
    # Enough candidates that num_beams stay open even when every beam's end tokens are among the best.
    for rank, candidate in enumerate(likeliest(totals, num_beams * (1 + max(1, len(end_ids))))):
        parent, token = divmod(candidate, vocab_size)
        total = float(totals[candidate])
        if total == -np.inf:
            break
        ids = (*search.beams[parent][0], token)
        if last or token in end_ids:
            if rank < num_beams:
                search.finished.append(Hypothesis(ids, total, total / length**length_penalty))
        elif len(beams) < num_beams:
            beams.append((ids, total))
            parents.append(parent)
    search.finished = sorted(search.finished, key=lambda hypothesis: -hypothesis.score)[:num_beams]
    search.beams = beams
    full = len(search.finished) == num_beams
    search.done = not beams or (full and beams[0][1] / length**length_penalty <= search.finished[-1].score)
    return parents
