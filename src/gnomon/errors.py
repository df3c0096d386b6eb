"""The one exception a user ever sees, and the two helpers that word it."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class GnomonError(Exception):
    """A mistake the user can mend: what was found, where, what was expected; `hint` says what to do.

    The command line prints it without a traceback and exits with `exit_code` (2).
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class Interrupted(GnomonError):  # noqa: N818
    """Ctrl-C or SIGTERM, answered by saving; `hint` is how to go on."""

    exit_code = 130


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or raise a GnomonError that names the extra to install and why it is needed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise GnomonError(
            f"{purpose} needs the package {module.split('.')[0]}, which is not installed",
            hint=f"pip install 'gnomon[{extra}]'",
        ) from error


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A hint that names the closest of `choices`, or lists them (at most 20) when none is close."""
    options = sorted(choices)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(options[:20]) + (", ..." if len(options) > 20 else "")
    return f"expected one of: {shown}"
