"""How well a model predicts text: perplexity and bits per byte with intervals, and windows over text of any length.

Perplexity depends on the tokenizer; bits per byte do not, so models with different vocabularies compare by them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.measure.uncertainty import RESAMPLES, Interval

Floats = npt.NDArray[np.float64]
ScoreRow = Callable[[Sequence[int]], Floats]
"""Ids [T] -> the log-probability in nats [T - 1] of each but the first, given those before it."""

_AT_ONCE = 4_000_000  # drawn rows in memory


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of text that was scored: its summed log-probability in nats, its scored tokens, its bytes of UTF-8."""

    log_probability: float
    tokens: int
    bytes: float


@dataclass(frozen=True, slots=True)
class LanguageQuality:
    """Perplexity a token and bits a byte of one model on one text, with 95 % intervals over its passages."""

    perplexity: Interval
    bits_per_byte: Interval
    tokens: int
    bytes: int
    passages: int


@dataclass(frozen=True, slots=True)
class Span:
    """Tokens [start, stop) are read, and those from `scored` on are scored."""

    start: int
    scored: int
    stop: int


def sliding_windows(length: int, *, context: int, stride: int) -> Iterator[Span]:
    """Spans of at most `context` tokens over a text of `length`, so that every token but the first is scored once.

    Each token but those of the first span is read with at least `context - stride` tokens before it: a small stride
    measures better and costs more (a stride of `context` is the cheapest, and tells the model least).
    """
    if context < 2 or not 1 <= stride < context:
        raise ValueError(f"a context of 2 or more and a stride from 1 to below it are needed, not {context}, {stride}")
    start, scored = 0, 1
    while scored < length:
        stop = min(start + context, length)
        yield Span(start, scored, stop)
        scored = stop
        start += stride


def score_long(ids: Sequence[int], score: ScoreRow, *, context: int, stride: int) -> Floats:
    """The log-probabilities [T - 1] of a text of any length, by sliding windows over `score`."""
    pieces = [
        score(ids[span.start : span.stop])[span.scored - span.start - 1 :]
        for span in sliding_windows(len(ids), context=context, stride=stride)
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0)


def passages(log_probabilities: Floats, *, size: int, text_bytes: int) -> list[Passage]:
    """One text's log-probabilities [T] in passages of `size` tokens, its bytes shared out evenly among its tokens.

    Neighbouring tokens are alike in difficulty, so passages, not tokens, are what an interval is drawn over.
    """
    share = text_bytes / max(1, len(log_probabilities))
    parts = (log_probabilities[start : start + size] for start in range(0, len(log_probabilities), size))
    return [Passage(float(part.sum()), len(part), share * len(part)) for part in parts]


def language_quality(scored: Sequence[Passage], *, resamples: int = RESAMPLES, seed: int = 0) -> LanguageQuality:
    """Perplexity and bits per byte over all passages (documents, or what `passages` made), each weighing by its size.

    The intervals are percentile bootstraps over passages. Raises ValueError when no token was scored, or one as no
    number: a softmax gives no token a probability of 0.
    """
    table = np.array([(passage.log_probability, passage.tokens, passage.bytes) for passage in scored], np.float64)
    if not len(table) or table[:, 1].sum() == 0 or table[:, 2].sum() == 0:
        raise ValueError("no token was scored")
    if not np.isfinite(table).all():
        raise ValueError("a log-probability is no finite number")
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // len(table))
    sizes = [min(at_once, resamples - done) for done in range(0, resamples, at_once)]
    even = np.full(len(table), 1 / len(table))
    drawn = np.concatenate([generator.multinomial(len(table), even, size=size) @ table for size in sizes])
    drawn = drawn[(drawn[:, 1] > 0) & (drawn[:, 2] > 0)]
    total = table.sum(axis=0)
    return LanguageQuality(
        Interval.of_samples(float(np.exp(-total[0] / total[1])), np.exp(-drawn[:, 0] / drawn[:, 1])),
        Interval.of_samples(float(-total[0] / total[2] / math.log(2)), -drawn[:, 0] / drawn[:, 2] / math.log(2)),
        tokens=int(total[1]),
        bytes=round(total[2]),
        passages=len(table),
    )
