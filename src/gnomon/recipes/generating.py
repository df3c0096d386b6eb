"""The settings that `generate` and `chat` share, and what they mean for the decoding loops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import KW_ONLY, dataclass

from gnomon.decoding.generate import Settings
from gnomon.decoding.sampling import Sampling
from gnomon.runtime.generator import LanguageModel

_NEW_TOKENS = 256


@dataclass(frozen=True)
class GenerationSettings:
    """How the next token is chosen, and when a text ends."""

    _: KW_ONLY
    max_new_tokens: int | None = None
    """Tokens to generate at most. Default: 256, or what the context leaves."""
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
    stop: tuple[str, ...] = ()
    """Strings that end a text."""
    threads: int | None = None
    """Threads of the model. Default: as measured when it was exported."""

    def sampling(self) -> Sampling:
        """How tokens are chosen. Raises GnomonError for a value out of its range."""
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            seed=self.seed,
        )


def settings_for(
    given: GenerationSettings,
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    runners_up: int | None = None,
    batch_size: int = 8,
) -> Settings:
    """The settings of the decoding loops for these prompts."""
    return Settings(
        max_new_tokens=new_tokens(given, model, prompts),
        sampling=given.sampling(),
        stop=given.stop,
        end_ids=end_ids(model),
        runners_up=runners_up,
        batch_size=batch_size,
    )


def end_ids(model: LanguageModel) -> Collection[int] | None:
    """The tokens that end a text: the model's, None for the tokenizer's own."""
    return frozenset(model.end_ids) or None


def new_tokens(given: GenerationSettings, model: LanguageModel, prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens to generate: as asked; else 256, or fewer where the longest prompt leaves less of the context.

    A prompt that fills the context gets 1, which the decoding loop then refuses, saying why.
    """
    if given.max_new_tokens is not None:
        return given.max_new_tokens
    limit = model.stepper.max_length
    room = _NEW_TOKENS if limit is None else limit - max(map(len, prompts), default=0)
    return max(1, min(_NEW_TOKENS, room))
