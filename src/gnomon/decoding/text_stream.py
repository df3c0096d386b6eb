"""Ids to text as they come: never half a character, never the beginning of a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.text.tokenizer import Tokenizer

_INCOMPLETE = "\ufffd"
_PROMPT_TAIL = 8  # ids of the prompt that are decoded along, so that the first new token keeps its leading space


class TextStream:
    """The text of one row's generated ids, piece by piece.

    The pieces joined are `decode(prompt + ids)` less the prompt's part, cut before the first stop string to be
    completed, character by character, however the characters fall into tokens. `stopped` turns true when one was.
    """

    def __init__(self, tokenizer: Tokenizer, *, prompt: Sequence[int] = (), stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(text for text in stop if text)
        self._bytes = byte_fallback_ids(tokenizer)
        self._in_bytes = False
        tail = list(prompt[-_PROMPT_TAIL:])
        if tail and (tail[-1] in self._bytes or tokenizer.decode(tail).endswith(_INCOMPLETE)):
            tail = []  # a prompt that ends inside a character cannot be told from what completes it
        self._ids = tail  # the window: what is still needed to decode the next id as it stands in the whole
        self._read = len(tail)
        self._read_text = tokenizer.decode(tail) if tail else ""
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Take one id; give the text that is certain now, often empty."""
        self._ids.append(token)
        if token not in self._tokenizer.special_ids:
            self._in_bytes = token in self._bytes
        if self._in_bytes:  # a run of byte tokens is decoded as one, when it is complete
            return ""
        text = self._tokenizer.decode(self._ids)
        if text.endswith(_INCOMPLETE):
            return ""
        return self._release(self._advance(text))

    def finish(self) -> str:
        """What was held back, when no more ids come."""
        if self.stopped:
            return ""
        released = self._release(self._advance(self._tokenizer.decode(self._ids)) if self._ids else "")
        rest, self._held = self._held, ""
        return released + rest

    def _advance(self, text: str) -> str:
        """The part of the window's `text` that is new. The window then starts at the last id that made any text."""
        new = text[len(self._read_text) :]
        if new:
            self._ids = self._ids[self._read :]
            self._read = len(self._ids)
            self._read_text = self._tokenizer.decode(self._ids)
        return new

    def _release(self, new: str) -> str:
        if self.stopped:
            return ""
        seen = len(self._held)
        text = self._held + new
        ends = [
            (end, -len(stop))
            for stop in self._stop
            if (end := text.find(stop, max(0, seen - len(stop) + 1)) + len(stop)) >= len(stop)
        ]
        if ends:
            self.stopped = True
            self._held = ""
            end, length = min(ends)
            return text[: end + length]
        kept = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def byte_fallback_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The ids of the tokens <0x00> to <0xFF>, by which SentencePiece spells what has no token; often none."""
    names = (f"<0x{byte:02X}>" for byte in range(256))
    return frozenset(tokenizer.vocabulary[name] for name in names if name in tokenizer.vocabulary)


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """What an id adds to a text that it stands in the middle of: leading space kept; a special token gives its name."""
    alone = tokenizer.decode([token])
    added = tokenizer.decode([token, token])[len(alone) :]
    if added:
        return added
    return next((name for name, number in tokenizer.vocabulary.items() if number == token), "")


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that begins `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)
