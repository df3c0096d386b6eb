"""Reading plain JSON data field by field, each complaint naming the place: `frontier.json: candidates[2].size_mb`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from gnomon.errors import GnomonError, did_you_mean

T = TypeVar("T")
Choice = TypeVar("Choice", bound=str)


class Fields:
    """A JSON object at `place` of the file `source`; every reader returns the field's value or raises a GnomonError."""

    def __init__(self, value: object, source: str, place: str = "") -> None:
        self._source, self._place = source, place
        if not isinstance(value, dict):
            raise self._error("", "an object", value)
        self._values: dict[str, object] = value

    def text(self, name: str) -> str:
        return self._typed(name, str, "a text")

    def number(self, name: str) -> float:
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self._error(name, "a number", value)
        return float(value)

    def whole(self, name: str) -> int:
        value = self._typed(name, int, "a whole number")
        if isinstance(value, bool):
            raise self._error(name, "a whole number", value)
        return value

    def choice(self, name: str, choices: Sequence[Choice]) -> Choice:
        value = self.text(name)
        if value not in choices:
            raise GnomonError(f"{self._source}: {self._at(name)} is {value!r}", did_you_mean(value, choices))
        return cast(Choice, value)

    def optional_text(self, name: str) -> str | None:
        return None if self._values.get(name) is None else self.text(name)

    def optional_number(self, name: str) -> float | None:
        return None if self._values.get(name) is None else self.number(name)

    def mapping(self, name: str) -> dict[str, Any]:
        return self._typed(name, dict, "an object")

    def texts(self, name: str) -> list[str]:
        values = self._typed(name, list, "a list")
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self._error(f"{name}[{index}]", "a text", value)
        return values

    def inner(self, name: str) -> Fields:
        return Fields(self._value(name), self._source, self._at(name))

    def entries(self, name: str) -> list[Fields]:
        values = self._typed(name, list, "a list")
        return [Fields(value, self._source, f"{self._at(name)}[{index}]") for index, value in enumerate(values)]

    def _value(self, name: str) -> object:
        if name not in self._values:
            raise GnomonError(
                f"{self._source}: {self._at(name)} is missing", "write the file again with gnomon frontier"
            )
        return self._values[name]

    def _typed(self, name: str, kind: type[T], expected: str) -> T:
        value = self._value(name)
        if not isinstance(value, kind):
            raise self._error(name, expected, value)
        return value

    def _at(self, name: str) -> str:
        return ".".join(part for part in (self._place, name) if part)

    def _error(self, name: str, expected: str, value: object) -> GnomonError:
        shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:60]}..."
        return GnomonError(f"{self._source}: {self._at(name) or 'the file'} must be {expected}, found {shown}")
