"""Reading only what is new of a text that grows: a conversation is not read from its start at every turn."""

from __future__ import annotations

import numpy as np

from gnomon.decoding.stepper import Floats, Ids, Mask, Stepper


class ResumingStepper:
    """A Stepper of one row that keeps what was read when it is emptied, and goes on from where the next text differs.

    `trim(0)` forgets nothing until the next text is known; the columns that it shares with the last one stay.
    """

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._read: list[int] = []
        self._emptied = False

    @property
    def max_length(self) -> int | None:
        """The model's context in tokens."""
        return self._stepper.max_length

    def start(self, source_ids: Ids, mask: Mask) -> None:
        """As the stepper's."""
        self._stepper.start(source_ids, mask)

    def prefill(self, ids: Ids, mask: Mask) -> Floats:
        """As the stepper's; of an emptied state's first text [1, T] only what differs from the last one is read."""
        if self._emptied:
            self._emptied = False
            if len(ids) == 1 and mask.all():
                kept = self._shared(ids[0])
                self._stepper.trim(kept)
                self._read = self._read[:kept]
                ids, mask = ids[:, kept:], mask[:, kept:]
            else:
                self._forget()
        self._remember(ids)
        return self._stepper.prefill(ids, mask)

    def step(self, ids: Ids) -> Floats:
        """As the stepper's."""
        self._remember(ids[:, None])
        return self._stepper.step(ids)

    def score(self, ids: Ids, mask: Mask) -> Floats:
        """As the stepper's."""
        return self._stepper.score(ids, mask)

    def reorder(self, rows: Ids) -> None:
        """As the stepper's; what was read counts for nothing more when rows change places."""
        self._read = []
        self._stepper.reorder(rows)

    def trim(self, length: int) -> None:
        """Keep the first `length` columns; 0 keeps what the next text may share."""
        if length == 0 and self._read:
            self._emptied = True
            return
        self._read = self._read[:length]
        self._stepper.trim(length)

    def _shared(self, ids: Ids) -> int:
        """Columns that `ids` and what was read have in common, one less than all of `ids`: some token must be read."""
        length = min(len(self._read), len(ids) - 1)
        same = np.array(self._read[:length]) == ids[:length]
        return length if same.all() else int(same.argmin())

    def _remember(self, ids: Ids) -> None:
        if len(ids) == 1:
            self._read.extend(ids[0].tolist())
        else:
            self._read = []

    def _forget(self) -> None:
        self._read = []
        self._stepper.trim(0)
