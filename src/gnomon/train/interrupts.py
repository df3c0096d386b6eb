"""Ctrl-C and SIGTERM as a request that the training loop answers between two steps."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class StopRequest:
    """`name` is the signal that asked to stop; empty while none has."""

    name: str = ""


@contextlib.contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Note the first signal; a second one acts as it would without us. Signals that are ignored stay so.

    Outside the main thread, where Python hands out no signals, nothing is ever requested.
    """
    request = StopRequest()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    caught = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def put_back() -> None:
        for number in caught:
            signal.signal(number, before[number])

    def note(number: int, frame: FrameType | None) -> None:
        request.name = signal.Signals(number).name
        put_back()

    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    for number in caught:
        signal.signal(number, note)
    try:
        yield request
    finally:
        put_back()
