"""Teachers: a live model and a store of what one said are the same type, so a student never knows which it has.

A teacher is asked about *texts*. It and its student tokenize them differently all the time, so ids are never handed
over; nor are label positions: a teacher is told the label order wanted and answers in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.distillation.store import Signal, SignalStore
from gnomon.errors import GnomonError
from gnomon.models.base import Model, evaluating
from gnomon.runtime.predictor import Predictor
from gnomon.text.batches import pad

Progress = Callable[[int, int], None]
"""Called with how many texts are done and how many there are."""


class Teacher(Protocol):
    """Anything that answers texts with a signal in the order of `labels`, and can be told apart from other teachers."""

    fingerprint: str
    labels: tuple[str, ...]

    def signal(self, texts: Sequence[str]) -> Signal:
        """What it says of each text."""
        ...


class LiveTeacher:
    """A model in memory; `predictor`, its deployed twin, answers instead where only logits are asked for.

    `labels` is the order wanted (None: the model's own), `hidden` asks for the vector under the last layer too.
    """

    def __init__(
        self,
        model: Model,
        *,
        labels: Sequence[str] | None = None,
        predictor: Predictor | None = None,
        hidden: bool = False,
        batch_size: int = 128,
    ) -> None:
        self.labels = model.labels if labels is None else tuple(labels)
        self.fingerprint = fingerprint(model)
        self.max_length = model.max_length
        self.hidden_size = model.pooled_size if hidden else 0
        self._columns = label_columns(model.labels, self.labels)
        self._model = model
        self._predictor = predictor
        self._batch_size = batch_size
        if predictor is not None and predictor.labels != model.labels:
            raise GnomonError(
                "the deployed teacher and the model name different labels",
                f"deployed: {', '.join(predictor.labels)}; model: {', '.join(model.labels)}",
            )

    def signal(self, texts: Sequence[str]) -> Signal:
        """Logits (and pooled vectors) of `texts`, in order; dropout off, batched by length."""
        if self._predictor is not None and not self.hidden_size:
            logits = self._predictor.logits(texts, batch_size=self._batch_size)
            return Signal(np.ascontiguousarray(logits[:, self._columns], dtype=np.float32))
        return self._ask(texts)

    def _ask(self, texts: Sequence[str]) -> Signal:
        model = self._model
        rows = token_ids(model, texts)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        logits = np.zeros((len(rows), len(self.labels)), np.float32)
        hidden = np.zeros((len(rows), self.hidden_size), np.float32)
        with evaluating(model), torch.inference_mode():
            for start in range(0, len(order), self._batch_size):
                chosen = order[start : start + self._batch_size]
                ids, mask = pad([rows[index] for index in chosen], pad_id=model.tokenizer.pad_id)
                output = model(torch.from_numpy(ids).to(model.device), torch.from_numpy(mask).to(model.device))
                logits[chosen] = output.logits.float().cpu().numpy()[:, self._columns]
                if self.hidden_size:
                    hidden[chosen] = output.pooled.float().cpu().numpy()
        return Signal(logits, hidden if self.hidden_size else None)


class StoredTeacher:
    """A teacher that remembers: texts it was asked about before are read from `root`, the rest are asked and kept."""

    def __init__(self, live: LiveTeacher, root: Path, *, shard_size: int = 4096) -> None:
        self.fingerprint = live.fingerprint
        self.labels = live.labels
        self.bytes_per_text = 32 + 2 * (len(live.labels) + live.hidden_size)
        self.store = SignalStore(
            root,
            fingerprint=live.fingerprint,
            settings={
                "labels": list(live.labels),
                "max_length": live.max_length,
                "hidden_size": live.hidden_size,
            },
            num_labels=len(live.labels),
        )
        self.live = live
        self._shard_size = shard_size

    def fill(self, texts: Sequence[str], *, progress: Progress | None = None) -> int:
        """Ask about the distinct texts not stored yet, a shard at a time; how many those were."""
        missing = self.store.missing(texts)
        for start in range(0, len(missing), self._shard_size):
            part = missing[start : start + self._shard_size]
            self.store.add(part, self.live.signal(part))
            if progress is not None:
                progress(start + len(part), len(missing))
        return len(missing)

    def signal(self, texts: Sequence[str]) -> Signal:
        """The stored signal, filled in first where it is missing."""
        self.fill(texts)
        return self.store.read(texts)


def label_columns(teacher_labels: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Which of the teacher's columns answers for each wanted label; matched by name, never by position."""
    if set(teacher_labels) != set(wanted) or len(teacher_labels) != len(wanted):
        only_teacher = sorted(set(teacher_labels) - set(wanted))
        only_data = sorted(set(wanted) - set(teacher_labels))
        raise GnomonError(
            "the teacher and the data name different labels: "
            f"only the teacher has {_listed(only_teacher)}; only the data have {_listed(only_data)}",
            "tune the teacher on these labels first (`gnomon tune`), or rename the labels of the data",
        )
    places = {name: index for index, name in enumerate(teacher_labels)}
    return np.array([places[name] for name in wanted], dtype=np.int64)


def token_ids(model: Model, texts: Sequence[str]) -> list[list[int]]:
    """`texts` in the model's own ids; a text that gives none counts as one unknown token, as it does when deployed."""
    tokenizer = model.tokenizer
    nothing = [tokenizer.pad_id if tokenizer.unk_id is None else tokenizer.unk_id]
    return [row.ids or nothing for row in tokenizer.encode_batch(list(texts), max_length=model.max_length)]


def fingerprint(model: Model) -> str:
    """SHA-256 over every weight, the configuration and the tokenizer: equal exactly when the answers are."""
    digest = hashlib.sha256()
    digest.update(json.dumps(model.folder_config(), sort_keys=True, default=str).encode())
    digest.update(model.tokenizer.fingerprint.encode())
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.view(torch.uint8).numpy().tobytes() if values.dim() else str(values.item()).encode())
    return digest.hexdigest()


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return (shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")) or "nothing of its own"
