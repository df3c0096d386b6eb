"""What a model must be able to do for the decoding loops: read a prompt, read one token more, forget, reorder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError

Floats = npt.NDArray[np.floating]
Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Stepper(Protocol):
    """A language model with a state, numpy in and numpy out; a torch model and an onnx session both are one.

    The state holds B rows of so many columns, padding included. It remembers which columns are padding, so that a row
    left-padded among longer ones gives the same scores as alone.
    """

    @property
    def max_length(self) -> int | None:
        """The most columns the state can hold (the context); None where nothing limits it."""
        ...

    def start(self, source_ids: Ids, mask: Mask) -> None:
        """Encoder-decoders only: read the source texts [B, S], `mask` true on real tokens; `trim(0)` keeps them."""
        ...

    def prefill(self, ids: Ids, mask: Mask) -> Floats:
        """Append ids [B, T] to the state and give the scores after the last column, [B, V] before any softmax.

        `mask` [B, T] is true on real tokens; padding stands only before the first real token of a row. On an empty
        state B may be anything; after that a call appends more of the same rows' text, so a long prompt may come in
        pieces, of which the first may be nothing but padding for a row.
        """
        ...

    def step(self, ids: Ids) -> Floats:
        """Append one token to each row, ids [B], and give the scores [B, V] of the next. As a prefill of one column."""
        ...

    def score(self, ids: Ids, mask: Mask) -> Floats:
        """The log-probability [B, T] of each given token after those before it in its row; the state is left alone.

        Padding stands after a row's text here. The first token of a row has nothing before it: it and padding give 0.
        """
        ...

    def reorder(self, rows: Ids) -> None:
        """Row i of the state becomes what row `rows[i]` was: beams that win twice, finished rows left out."""
        ...

    def trim(self, length: int) -> None:
        """Keep the first `length` columns; `trim(0)` empties the state, after which new rows may be read."""
        ...


def left_pad(rows: Sequence[Sequence[int]], *, pad_id: int) -> tuple[Ids, Mask]:
    """ids int64 [B, T] with `pad_id` before the shorter rows, and mask bool [B, T], true on real tokens."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    longest = int(lengths.max(initial=0))
    mask = np.arange(longest) >= longest - lengths[:, None]
    ids = np.full(mask.shape, pad_id, np.int64)
    ids[mask] = np.fromiter((token for row in rows for token in row), np.int64, int(lengths.sum()))
    return ids, mask


def read_prompts(
    stepper: Stepper,
    prompts: Sequence[Sequence[int]],
    *,
    pad_id: int,
    max_new_tokens: int,
    chunk: int | None = None,
) -> Floats:
    """Empty the state, read the prompts, `chunk` columns at a time where given, and give the next scores [B, V].

    Raises GnomonError for an empty prompt and for prompts that leave no room for `max_new_tokens` in the context.
    """
    if not all(len(prompt) for prompt in prompts):
        raise GnomonError("a prompt is empty, and there is nothing to continue", "give at least one token")
    longest = max(map(len, prompts))
    if stepper.max_length is not None and longest + max_new_tokens > stepper.max_length:
        raise GnomonError(
            f"the prompt has {longest:,} tokens and {max_new_tokens:,} are to follow: "
            f"more than the {stepper.max_length:,} of the model's context",
            "shorten the prompt or ask for fewer new tokens",
        )
    stepper.trim(0)
    ids, mask = left_pad(prompts, pad_id=pad_id)
    for columns in _pieces(longest, chunk or longest):
        logits = stepper.prefill(ids[:, columns], mask[:, columns])
    return logits


def _pieces(length: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, length, size))
