"""What a student is trained on: each text in its own ids beside what the teacher said of it, paired by content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from gnomon.distillation.objective import DistilledRow
from gnomon.distillation.store import StoredSignals
from gnomon.distillation.teacher import StoredTeacher, token_ids
from gnomon.distillation.transfer import TransferSet
from gnomon.errors import GnomonError
from gnomon.models.base import Model


class DistilledRows(Sequence[DistilledRow]):
    """Rows made when asked for: ids lie packed in memory (4 bytes a token), signals in the store's files."""

    def __init__(
        self, ids: NDArray[np.int32], lengths: NDArray[np.int64], labels: NDArray[np.int64], signals: StoredSignals
    ) -> None:
        self._ids = ids
        self._ends = np.cumsum(lengths)
        self.lengths = lengths
        self.labels = labels
        self._signals = signals

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> DistilledRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[DistilledRow]: ...
    def __getitem__(self, index: int | slice) -> DistilledRow | Sequence[DistilledRow]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        end = self._ends[index]
        logits, hidden = self._signals[index]
        return DistilledRow(self._ids[end - self.lengths[index] : end], int(self.labels[index]), logits, hidden)


def transfer_rows(
    student: Model, transfer: TransferSet, teacher: StoredTeacher, *, gold: Sequence[str] = ()
) -> DistilledRows:
    """The transfer set for a student. `gold` are the training texts' labels (none: every row's is -1); a copy carries
    its source's."""
    # Index -1 is the last entry: "no label".
    known = np.append(_label_ids(student.labels, gold), -1)
    labels = known[transfer.sources if len(gold) else np.full(len(transfer.texts), -1)]
    return _rows(student, transfer.texts, labels, teacher)


def labelled_rows(
    student: Model, texts: Sequence[str], teacher: StoredTeacher, *, gold: Sequence[str]
) -> DistilledRows:
    """Rows of labelled texts as they are: what a student is validated on."""
    return _rows(student, texts, _label_ids(student.labels, gold), teacher)


def gold_rows(student: Model, transfer: TransferSet, teacher: StoredTeacher, *, gold: Sequence[str]) -> DistilledRows:
    """The twin's rows: those of the transfer set that carry a gold label; unlabelled texts are left out."""
    carrying = np.flatnonzero(transfer.sources >= 0)
    texts = tuple(transfer.texts[index] for index in carrying)
    return transfer_rows(student, TransferSet(texts, transfer.sources[carrying], 0), teacher, gold=gold)


def _rows(student: Model, texts: Sequence[str], labels: NDArray[np.int64], teacher: StoredTeacher) -> DistilledRows:
    if teacher.labels != student.labels:
        raise GnomonError(
            "the teacher answers in another order of labels than the student has",
            f"teacher: {', '.join(teacher.labels)}; student: {', '.join(student.labels)}",
        )
    teacher.fill(texts)
    ids = token_ids(student, texts)
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    packed = np.concatenate([np.asarray(row, np.int32) for row in ids]) if ids else np.zeros(0, np.int32)
    return DistilledRows(packed, lengths, labels, teacher.store.view(texts))


def _label_ids(names: Sequence[str], gold: Sequence[str]) -> NDArray[np.int64]:
    places = {name: index for index, name in enumerate(names)}
    return np.array([places[label] for label in gold], np.int64)
