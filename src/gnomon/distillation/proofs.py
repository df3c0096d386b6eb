"""What must hold before a distillation starts, shown on the user's own first batch rather than promised.

Four faults are common and silent: probabilities where log-probabilities belong, padding counted in the loss, a mean
divided twice, and labels matched by position. Each has a figure here; one that is off stops the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gnomon.distillation.objective import DistilledRow, DistillLabels
from gnomon.distillation.teacher import StoredTeacher, Teacher
from gnomon.distillation.terms import forward_kl
from gnomon.errors import GnomonError
from gnomon.models.base import Model, evaluating
from gnomon.objectives.base import Batch

_PADS = 7
_TOLERANCE = 1e-5
# What a stored score may differ from one asked for again: half a float16 step at 64, and another batch's rounding.
_STORED_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Proof:
    """One statement, the figure measured on the first batch, and the largest figure with which it holds."""

    name: str
    figure: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the figure is within the limit; a figure that is not a number is not."""
        return self.figure <= self.limit


def prove(
    objective: DistillLabels, student: Model, rows: Sequence[DistilledRow], texts: Sequence[str], teacher: StoredTeacher
) -> tuple[Proof, ...]:
    """All proofs on `rows`, the student's view of `texts`; `teacher`'s live model is asked about a few again.

    Raises GnomonError with the figure when one fails.
    """
    losses = _losses(objective, student, objective.collate(rows))
    doubled = _losses(objective, student, objective.collate([*rows, *rows]))
    # The shorter half, so that a student with a longest text has room for pads.
    short = objective.collate(sorted(rows, key=lambda row: len(row.ids))[: (len(rows) + 1) // 2])
    room = (student.backbone.max_positions or short.arrays["ids"].shape[1] + _PADS) - short.arrays["ids"].shape[1]
    pads = min(_PADS, room)
    padded = _losses(objective, student, _with_pads(short, pads, student.tokenizer.pad_id))
    stored = torch.from_numpy(np.stack([row.logits for row in rows]).astype(np.float32))
    equal = forward_kl(stored, stored, temperature=objective.temperature)
    proofs = (
        Proof("the divergence is zero on equal logits", equal.abs().max().item(), 0.0),
        Proof(
            f"{pads} more pads change no term", _largest_change(_losses(objective, student, short), padded), _TOLERANCE
        ),
        Proof("doubling the batch changes no term", _largest_change(losses, doubled), _TOLERANCE),
        Proof(
            "each text's stored scores are the teacher's own, label by name",
            _signal_gap(student, rows[:8], texts[:8], teacher.live),
            _STORED_TOLERANCE,
        ),
    )
    for proof in proofs:
        if not proof.passed:
            raise GnomonError(
                f"before training, on the first {len(rows)} texts: it does not hold that {proof.name} "
                f"(off by {proof.figure:.3g}, at most {proof.limit:g} is allowed)",
                "training on it would teach something else; remove the run's stored signal and start again, and "
                "report this if it stays",
            )
    return proofs


def _losses(objective: DistillLabels, student: Model, batch: Batch) -> dict[str, float]:
    """Each term's mean, dropout off."""
    tensors = {name: torch.from_numpy(array).to(student.device) for name, array in batch.arrays.items()}
    with evaluating(student), torch.no_grad():
        terms = objective.loss(student, tensors, batch.weights)
    return {name: term.sum.item() / term.weight for name, term in terms.items() if term.weight}


def _with_pads(batch: Batch, count: int, pad_id: int) -> Batch:
    ids, mask = batch.arrays["ids"], batch.arrays["mask"]
    pads = ((0, 0), (0, count))
    wider = {"ids": np.pad(ids, pads, constant_values=pad_id), "mask": np.pad(mask, pads, constant_values=False)}
    return Batch({**batch.arrays, **wider}, batch.weights)


def _largest_change(before: dict[str, float], after: dict[str, float]) -> float:
    """Relative to the term's size, absolutely where that is below 1."""
    changes = [abs(after[name] - value) / max(1.0, abs(value)) for name, value in before.items()]
    return max(changes, default=0.0)


def _signal_gap(student: Model, rows: Sequence[DistilledRow], texts: Sequence[str], teacher: Teacher) -> float:
    """The largest difference of log-probabilities between the rows and the teacher asked now, by label name."""
    places = {name: column for column, name in enumerate(teacher.labels)}
    columns = [places[name] for name in student.labels]
    asked = torch.from_numpy(teacher.signal(texts).logits[:, columns]).log_softmax(dim=-1)
    stored = torch.from_numpy(np.stack([row.logits for row in rows]).astype(np.float32)).log_softmax(dim=-1)
    return (asked - stored).abs().max().item()
