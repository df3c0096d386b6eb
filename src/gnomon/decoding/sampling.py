"""From scores to the next token: penalties, temperature, top-k, top-p, min-p, and the draw.

A processor is a plain callable on one row's scores. Their order is that of the `transformers` library: penalties,
temperature, top-k, top-p, min-p. Penalties look at the tokens generated so far and never at the prompt, with sampling
and without. Whatever is filtered, the best token survives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gnomon.decoding.stepper import Floats
from gnomon.errors import GnomonError

Processor = Callable[[Floats, Sequence[int]], Floats]
"""Takes one row's scores [V], which it may change, and the ids generated so far; gives scores [V], -inf = excluded."""

_COLDEST = 1e-6  # colder than this nothing but the best token has a chance that float32 can tell from none
_FIRST_NUCLEUS = 256


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen; all but the likeliest is off by default.

    `repetition_penalty` divides positive scores of generated tokens and multiplies negative ones (Keskar et al. 2019,
    CTRL); `frequency_penalty` is subtracted once for each time a token was generated, `presence_penalty` once if at
    all. `top_k` 0 keeps all; `top_p` keeps the fewest tokens that hold that probability (Holtzman et al. 2020), `min_p`
    those at least so likely as this share of the best (Nguyen et al. 2024). The same seed gives the same text.
    """

    temperature: float = 0.0
    """0 takes the likeliest token (greedy); 1 draws by the model's own probabilities, more is wilder."""
    top_k: int = 0
    """Draw from so many of the likeliest tokens; 0: all."""
    top_p: float = 1.0
    """Draw from the fewest tokens that together have this probability."""
    min_p: float = 0.0
    """Draw from tokens at least this share as likely as the likeliest."""
    repetition_penalty: float = 1.0
    """Above 1: tokens that were generated before become less likely (the prompt does not count)."""
    frequency_penalty: float = 0.0
    """Taken from a token's score for each time it was generated."""
    presence_penalty: float = 0.0
    """Taken from a token's score once it was generated."""
    seed: int = 0
    """The same seed gives the same text."""

    def __post_init__(self) -> None:
        for name, good, expected in (
            ("temperature", self.temperature >= 0, "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 <= self.top_p <= 1, "between 0 and 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "more than 0 (1 changes nothing)"),
            ("seed", self.seed >= 0, "0 or more"),
        ):
            if not good:
                raise GnomonError(f"{name} is {getattr(self, name)}", f"give {expected}")

    def processors(self) -> tuple[Processor, ...]:
        """What these settings do to a row's scores, in order; empty for plain greedy decoding."""
        chosen = []
        if (self.repetition_penalty, self.frequency_penalty, self.presence_penalty) != (1.0, 0.0, 0.0):
            chosen.append(penalties(self.repetition_penalty, self.frequency_penalty, self.presence_penalty))
        if self.temperature == 0:
            return tuple(chosen)
        if self.temperature != 1:
            chosen.append(temperature(self.temperature))
        if self.top_k > 0:
            chosen.append(top_k(self.top_k))
        if self.top_p < 1:
            chosen.append(top_p(self.top_p))
        if self.min_p > 0:
            chosen.append(min_p(self.min_p))
        return tuple(chosen)


class Sampler:
    """Chooses tokens for the rows of a batch; row i draws from a random generator of its own, number `streams[i]`."""

    def __init__(self, sampling: Sampling, streams: Sequence[int], *, processors: Sequence[Processor] = ()) -> None:
        self._greedy = sampling.temperature == 0
        self._processors = (*processors, *sampling.processors())
        self._generators = [np.random.Generator(np.random.PCG64([sampling.seed, stream])) for stream in streams]

    def choose(self, scores: Floats, *, row: int, generated: Sequence[int]) -> int:
        """The next token of `row`, given the model's scores [V] and what the row has generated so far."""
        if self._processors:
            scores = scores.copy()
            for processor in self._processors:
                scores = processor(scores, generated)
        if self._greedy:
            return int(scores.argmax())
        return draw(scores, self._generators[row])


def streams_of(prompts: Sequence[Sequence[int]]) -> list[int]:
    """For each prompt, how many before it are equal to it: the number of its random stream.

    So a prompt gets the same text alone and in any batch, and a prompt given several times gets several samples.
    """
    seen: Counter[tuple[int, ...]] = Counter()
    streams = []
    for prompt in map(tuple, prompts):
        streams.append(seen[prompt])
        seen[prompt] += 1
    return streams


def draw(scores: Floats, generator: np.random.Generator) -> int:
    """One id, drawn from softmax(scores) with one uniform number of `generator`."""
    kept = np.flatnonzero(scores > -np.inf)
    reach = np.cumsum(np.exp(scores[kept].astype(np.float64) - float(scores[kept].max())))
    place = int(np.searchsorted(reach, generator.random() * reach[-1], side="right"))
    return int(kept[min(place, len(kept) - 1)])


def penalties(repetition: float, frequency: float, presence: float) -> Processor:
    """Lower the scores of tokens generated before (see `Sampling`)."""

    def apply(scores: Floats, generated: Sequence[int]) -> Floats:
        ids, counts = np.unique(np.asarray(generated, np.int64), return_counts=True)
        found = scores[ids]
        scores[ids] = np.where(found > 0, found / repetition, found * repetition) - frequency * counts - presence
        return scores

    return apply


def temperature(value: float) -> Processor:
    """Divide the scores, taken from the best one downwards so that no temperature overflows."""

    def apply(scores: Floats, generated: Sequence[int]) -> Floats:
        scores -= scores.max()
        scores /= max(value, _COLDEST)
        return scores

    return apply


def top_k(count: int) -> Processor:
    """Keep the `count` best scores, and what equals the last of them."""

    def apply(scores: Floats, generated: Sequence[int]) -> Floats:
        if count < len(scores):
            scores[scores < np.partition(scores, -count)[-count]] = -np.inf
        return scores

    return apply


def top_p(share: float) -> Processor:
    """Keep the fewest best tokens whose probabilities reach `share`."""

    def apply(scores: Floats, generated: Sequence[int]) -> Floats:
        weights = np.exp(scores - scores.max())
        target = share * float(weights.sum(dtype=np.float64))
        width = min(_FIRST_NUCLEUS, len(scores))
        while True:  # the best few nearly always hold the share: sort those, and more only when they do not
            best = np.argpartition(scores, -width)[-width:]
            best = best[np.lexsort((best, -scores[best]))]
            reach = np.cumsum(weights[best], dtype=np.float64)
            if reach[-1] >= target or width == len(scores):
                break
            width = min(8 * width, len(scores))
        kept = best[: int(np.searchsorted(reach, target)) + 1]
        filtered = np.full_like(scores, -np.inf)
        filtered[kept] = scores[kept]
        return filtered

    return apply


def min_p(share: float) -> Processor:
    """Keep the tokens at least `share` times as likely as the best."""

    def apply(scores: Floats, generated: Sequence[int]) -> Floats:
        scores[scores < scores.max() + np.log(share)] = -np.inf
        return scores

    return apply
