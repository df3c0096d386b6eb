"""Conversations as the text a model was tuned on: chat templates, rendered in a sandbox.

A template is a program that came with a model, so it runs in jinja2's immutable sandbox: it can read the messages it
is given, and nothing else. The names it may use are those of the `transformers` library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gnomon.errors import GnomonError
from gnomon.text.tokenizer import Tokenizer

FILE = "chat_template.jinja"

Message = Mapping[str, str]
"""`role` ("system", "user" or "assistant") and `content`."""


class ChatTemplate:
    """Messages to the text that the model continues."""

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        """`special` are the texts of special tokens by name (bos_token ...). Raises GnomonError for bad syntax."""
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self._special = dict(special)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise GnomonError(f"the model's chat template cannot be read: {error}", "restore it") from error

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation so far and the beginning of the assistant's turn.

        Raises GnomonError when the template refuses the messages (an unknown role, two turns of one side).
        """
        from jinja2 import TemplateError

        try:
            return self._template.render(messages=[*messages], add_generation_prompt=True, **self._special)
        except (TemplateError, TypeError, ValueError) as error:
            raise GnomonError(
                f"the model's chat template does not take this conversation: {error}",
                "let user and assistant speak in turns, a system message first if at all",
            ) from error


def chat_template(tokenizer: Tokenizer, folder: Path | None = None) -> ChatTemplate:
    """The template of a model: of its tokenizer_config.json, or a file chat_template.jinja in its `folder`.

    Raises GnomonError for a model without one: it was never tuned to talk.
    """
    source = tokenizer.config.get("chat_template")
    if isinstance(source, list):  # several by name, as some models have them
        named = {str(one.get("name")): one.get("template") for one in source if isinstance(one, Mapping)}
        source = named.get("default")
    if folder is not None and (folder / FILE).is_file():
        source = (folder / FILE).read_text(encoding="utf-8")
    if not isinstance(source, str):
        raise GnomonError(
            "the model has no chat template: it was not tuned to hold conversations",
            "continue a text with it: gnomon generate MODEL 'Once upon a time'",
        )
    special = {key: _content(value) for key, value in tokenizer.config.items() if key.endswith("_token")}
    return ChatTemplate(source, {key: text for key, text in special.items() if text is not None})


def _content(value: Any) -> str | None:
    """A special token's text, which some files wrap into an object."""
    found = value.get("content") if isinstance(value, Mapping) else value
    return found if isinstance(found, str) else None


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise ValueError(message)
