"""The settings that `generate` and `chat` share, and what they mean for the decoding loops."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from gnomon.decoding.generate import Settings
from gnomon.decoding.sampling import Sampling
from gnomon.runtime.generator import LanguageModel

_NEW_TOKENS = 256


@dataclass(frozen=True, kw_only=True)
class GenerationSettings(Sampling):
    """How the next token is chosen, and when a text ends. Raises GnomonError for a value out of its range."""

    max_new_tokens: int | None = None
    """Tokens to generate at most. Default: 256, or what the context leaves."""
    stop: tuple[str, ...] = ()
    """Strings that end a text."""
    threads: int | None = None
    """Threads of the model. Default: as measured when it was exported."""


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
        sampling=given,
        stop=given.stop,
        end_ids=end_ids(model),
        runners_up=runners_up,
        batch_size=batch_size,
    )


def end_ids(model: LanguageModel) -> Collection[int]:
    """The tokens that end a text: the model's, or else the tokenizer's own."""
    return model.end_ids or model.tokenizer.end_ids


def new_tokens(given: GenerationSettings, model: LanguageModel, prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens to generate: as asked; else 256, or fewer where the longest prompt leaves less of the context.

    A prompt that fills the context gets 1, which the decoding loop then refuses, saying why.
    """
    if given.max_new_tokens is not None:
        return given.max_new_tokens
    limit = model.stepper.max_length
    room = _NEW_TOKENS if limit is None else limit - max(map(len, prompts), default=0)
    return max(1, min(_NEW_TOKENS, room))
