"""How every kernel is compiled: once, without the GIL, and kept on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": True, "error_model": "numpy"}

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call and keep the machine code: beside the module, or in the user's cache folder.

    Where neither can be written (set NUMBA_CACHE_DIR to a place that can), each process compiles for itself. Numba
    watches only the file a kernel is in: after a change to a function that kernels of another file call, touch those.
    """
    try:
        return cast(F, njit(cache=True, **_OPTIONS)(function))
    except RuntimeError:  # numba found no folder that it may write to
        return cast(F, njit(**_OPTIONS)(function))
