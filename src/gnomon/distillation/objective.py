"""Learning a teacher's answers: the soft term, the gold term where there is a label, and the hidden term if wanted.

The gold-only twin of a student is the same objective with `alpha=0`: the same rows in the same order, of which the
teacher's part is not looked at. So the pair differ in the signal and in nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.distillation.terms import forward_kl, gold_cross_entropy, hidden_cosine, hidden_mse
from gnomon.errors import GnomonError, did_you_mean
from gnomon.measure.classification import accuracy, macro_f1, never_predicted
from gnomon.objectives.base import Batch, Objective, Term
from gnomon.text.batches import pad

if TYPE_CHECKING:
    from gnomon.models.base import Model

MODES = ("label",)
"""The ways of distilling: `label` hands over class logits, so any teacher can teach any student."""


@dataclass(frozen=True, slots=True)
class DistilledRow:
    """A text in the student's `ids`, its gold `label` (-1: none), and what the teacher says of it."""

    ids: Sequence[int] | NDArray[np.int32]
    label: int
    logits: NDArray[np.floating]
    hidden: NDArray[np.floating] | None = None


@dataclass(frozen=True, slots=True)
class HiddenMatch:
    """Match the teacher's pooled vector through a learned projection, as a third term of weight `coefficient`."""

    student_size: int
    teacher_size: int
    kind: Literal["cosine", "mse"] = "cosine"
    coefficient: float = 1.0


class DistillLabels(Objective):
    """loss = alpha · T² KL(teacher ‖ student) + (1 - alpha) · cross-entropy to gold [+ hidden], each a mean over the
    rows that have it (Hinton et al. 2015). `alpha` 1 needs no gold, `alpha` 0 no teacher."""

    def __init__(
        self,
        *,
        num_labels: int,
        pad_id: int,
        temperature: float = 2.0,
        alpha: float = 0.9,
        hidden: HiddenMatch | None = None,
    ) -> None:
        super().__init__()
        if not 0.01 <= temperature <= 100:
            raise GnomonError(f"temperature is {temperature:g}", "choose one between 0.01 and 100")
        if not 0 <= alpha <= 1:
            raise GnomonError(f"alpha is {alpha:g}", "choose a share between 0 (gold alone) and 1 (the teacher alone)")
        self.num_labels = num_labels
        self.pad_id = pad_id
        self.temperature = temperature
        self.alpha = alpha
        self.hidden = hidden
        self._never_predicted: tuple[str, ...] = ()
        self.projection = nn.Linear(hidden.student_size, hidden.teacher_size, bias=False) if hidden else None

    def collate(self, examples: Sequence[DistilledRow]) -> Batch:
        """ids int64 [B, T], mask bool [B, T], labels int64 [B], teacher float32 [B, C] and hidden float32 [B, D].

        A row without a single token has nothing to learn from: its label becomes -1 and it weighs nothing.
        """
        ids, mask = pad([row.ids for row in examples], pad_id=self.pad_id)
        real = mask.any(axis=1)
        labels = np.where(real, np.array([row.label for row in examples], np.int64), -1)
        arrays = {"ids": ids, "mask": mask, "labels": labels}
        weights: dict[str, float] = {}
        if self.alpha > 0:
            arrays["teacher"] = np.stack([row.logits for row in examples]).astype(np.float32)
            weights["soft"] = float(real.sum())
        if self.alpha < 1:
            weights["gold"] = float((labels >= 0).sum())
        if self.hidden is not None:
            arrays["hidden"] = _hidden(examples)
            weights["hidden"] = float(real.sum())
        return Batch(arrays, weights)

    def check(self, model: Model) -> None:
        """Refuse a student that answers with another number of labels, or another width to project from."""
        if len(model.labels) != self.num_labels:
            raise GnomonError(
                f"the student has {len(model.labels)} labels and the teacher's signal {self.num_labels}",
                "build the student for the labels of the data",
            )
        if self.hidden is not None and model.pooled_size != self.hidden.student_size:
            raise GnomonError(
                f"the student's pooled vector has {model.pooled_size} features, the projection expects "
                f"{self.hidden.student_size}",
                "build the projection for this student",
            )

    def loss(self, model: Model, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:
        """The terms of one micro-batch."""
        output = model(batch["ids"], batch["mask"])
        real = batch["mask"].any(dim=1)
        terms: dict[str, Term] = {}
        if "soft" in weights:
            soft = forward_kl(output.logits, batch["teacher"], temperature=self.temperature)
            terms["soft"] = Term(_total(soft, real), weights["soft"], self.alpha)
        if "gold" in weights:
            gold = gold_cross_entropy(output.logits, batch["labels"])
            terms["gold"] = Term(gold.sum(), weights["gold"], 1 - self.alpha)
        if self.hidden is not None and self.projection is not None:
            distance = hidden_cosine if self.hidden.kind == "cosine" else hidden_mse
            apart = distance(self.projection(output.pooled), batch["hidden"])
            terms["hidden"] = Term(_total(apart, real), weights["hidden"], self.hidden.coefficient)
        return terms

    def evaluate(self, model: Model, batches: Sequence[Sequence[DistilledRow]]) -> dict[str, float]:
        """accuracy and macro_f1 against gold, agreement with the teacher, and both losses per row in nats.

        Only one class a row is kept, so memory does not grow with the number of classes.
        """
        gold: list[int] = []
        answers: list[NDArray[np.int64]] = []
        taught: list[NDArray[np.int64]] = []
        losses = {"loss": 0.0, "divergence": 0.0}
        for rows in batches:
            ids, mask = pad([row.ids for row in rows], pad_id=self.pad_id)
            labels = torch.tensor([row.label for row in rows], device=model.device)
            teacher = torch.from_numpy(np.stack([row.logits for row in rows]).astype(np.float32)).to(model.device)
            logits = model.logits(torch.from_numpy(ids).to(model.device), torch.from_numpy(mask).to(model.device))
            losses["loss"] += F.cross_entropy(logits, labels, ignore_index=-1, reduction="sum").item()
            losses["divergence"] += forward_kl(logits, teacher).sum().item()
            answers.append(logits.argmax(dim=-1).cpu().numpy())
            taught.append(teacher.argmax(dim=-1).cpu().numpy())
            gold.extend(row.label for row in rows)
        answered, known = np.concatenate(answers), np.array(gold)
        labelled = known >= 0
        measured = {
            "agreement": accuracy(np.concatenate(taught), answered),
            "divergence": losses["divergence"] / len(known),
        }
        if labelled.any():
            never = never_predicted(known[labelled], answered[labelled])
            self._never_predicted = tuple(model.labels[index] for index in never)
            measured["accuracy"] = accuracy(known[labelled], answered[labelled])
            measured["macro_f1"] = macro_f1(known[labelled], answered[labelled])
            measured["loss"] = losses["loss"] / int(labelled.sum())
        return measured

    def warnings(self) -> tuple[str, ...]:
        """The classes that occurred in the last evaluation and were never predicted."""
        if not self._never_predicted:
            return ()
        return (f"never predicted: {', '.join(self._never_predicted)}; look at macro_f1, or add rows of these",)


def check_mode(mode: str) -> None:
    """Refuse, before anything is asked of the teacher, a way of distilling that would not work."""
    if mode not in MODES:
        raise GnomonError(f"there is no distillation mode {mode!r} for classifiers", did_you_mean(mode, MODES))


def _total(values: Tensor, real: Tensor) -> Tensor:
    return values.masked_fill(~real, 0.0).sum()


def _hidden(rows: Sequence[DistilledRow]) -> NDArray[np.float32]:
    vectors = [row.hidden for row in rows if row.hidden is not None]
    if len(vectors) < len(rows):
        raise GnomonError("the teacher's signal has no hidden vectors", "ask the teacher for them (hidden=True)")
    return np.stack(vectors).astype(np.float32)
