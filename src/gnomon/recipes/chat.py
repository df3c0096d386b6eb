"""`gnomon chat MODEL`: a conversation with a model that was tuned to talk."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from gnomon.decoding.generate import prompt_ids, stream
from gnomon.decoding.resuming import ResumingStepper
from gnomon.errors import GnomonError
from gnomon.recipes.generating import GenerationSettings, settings_for
from gnomon.recipes.language_models import open_model
from gnomon.reporting.console import Console
from gnomon.runtime.generator import LanguageModel
from gnomon.text.chat import ChatTemplate, chat_template
from gnomon.text.encodings import mend_surrogates

_ANSWER_ROOM = 64  # tokens that the oldest turns are dropped for
_LEAVE, _FORGET = ("/exit", "/quit"), "/clear"


@dataclass(frozen=True)
class Config(GenerationSettings):
    """Talk with a model: a line is a turn; /clear begins anew, /exit or the end of input leaves.

    When the conversation outgrows the model's context, its oldest turns are dropped, and that is said.
    """

    model: str
    """A model folder, exported or not, a run, a .gguf file, or "smollm2"."""
    _: KW_ONLY
    system: str | None = None
    """What the model is told first. Default: what its template says."""
    message: tuple[str, ...] = ()
    """Messages to send in turn, instead of reading them from standard input."""


@dataclass(frozen=True)
class ChatResult:
    """The conversation: `messages` with role and content."""

    messages: tuple[dict[str, str], ...]
    printed: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"messages": list(self.messages)}

    def shown(self) -> RenderableType:
        """Nothing that was not printed already."""
        if self.printed:
            return Text("")
        return Text("\n".join(one["content"] for one in self.messages if one["role"] == "assistant"))


def run(config: Config, console: Console | None = None) -> ChatResult:
    """Hold the conversation. Raises GnomonError without a chat template, and for a message beyond the context."""
    console = console or Console(quiet=True)
    opened = open_model(config.model, threads=config.threads, console=console)
    model = replace(opened, stepper=ResumingStepper(opened.stepper))
    template = chat_template(model.tokenizer, model.path)
    first = [] if config.system is None else [{"role": "system", "content": config.system}]
    messages = list(first)
    for text in config.message or _lines(console):
        if text == _FORGET:
            messages = list(first)
            continue
        messages.append({"role": "user", "content": text})
        answer = _answer(model, template, messages, config, console)
        messages.append({"role": "assistant", "content": answer})
    return ChatResult(tuple(messages), printed=not console.quiet)


def _lines(console: Console) -> Iterator[str]:
    """The user's messages, a prompt before each where a person types them."""
    typed = sys.stdin.isatty()
    if typed:
        console.say("a line is a message; /clear begins anew, /exit leaves")
    while True:
        if typed:
            print("\n> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() in _LEAVE:
            return
        if line.strip():
            yield mend_surrogates(line.strip())[0]


def _answer(
    model: LanguageModel, template: ChatTemplate, messages: list[dict[str, str]], config: Config, console: Console
) -> str:
    """The model's answer to `messages`, of which the oldest are dropped where they do not fit."""
    prompt = _fitting(model, template, messages, config, console)
    parts = []
    for piece in stream(model.stepper, model.tokenizer, [prompt], settings_for(config, model, [prompt])):
        parts.append(piece.text)
        if not console.quiet:
            print(piece.text, end="", flush=True)
    if not console.quiet:
        print(flush=True)
    return "".join(parts).strip()


def _fitting(
    model: LanguageModel, template: ChatTemplate, messages: list[dict[str, str]], config: Config, console: Console
) -> list[int]:
    """The ids of the conversation with room for an answer; drops the oldest exchanges from `messages` to get there."""
    limit = model.stepper.max_length
    dropped = 0
    while True:
        ids = prompt_ids(model.tokenizer, template.render(messages))
        if limit is None or len(ids) + (config.max_new_tokens or _ANSWER_ROOM) <= limit:
            break
        oldest = next((place for place, one in enumerate(messages) if one["role"] == "user"), 0)
        if oldest + 2 >= len(messages):
            raise GnomonError(
                f"the message has {len(ids):,} tokens, and the model's context {limit:,}", "send a shorter one"
            )
        del messages[oldest : oldest + 2]
        dropped += 2
    if dropped:
        console.warn(f"the conversation outgrew the model's context: its {dropped} oldest turns were dropped")
    return ids
