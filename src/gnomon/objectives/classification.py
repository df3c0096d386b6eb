"""Cross-entropy to given labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from gnomon.errors import GnomonError
from gnomon.measure.classification import macro_f1_of_counts
from gnomon.models.base import Model
from gnomon.objectives.base import Batch, Objective, Term
from gnomon.text.batches import pad

TERM = "gold"


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """The token ids of a text and the number of its label."""

    ids: Sequence[int]
    label: int


class Classification(Objective):
    """Cross-entropy to the gold label, one term ("gold"), weighted by row or by `class_weights`.

    `class_weights` [C] lets a rare class count more: a row weighs what its label does, as in torch's weighted mean.
    """

    class_weights: Tensor | None

    def __init__(
        self,
        label_names: Sequence[str],
        *,
        pad_id: int,
        class_weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.label_names = tuple(label_names)
        self.pad_id = pad_id
        self._given_weights = None if class_weights is None else np.asarray(class_weights, dtype=np.float64)
        self.register_buffer(
            "class_weights",
            None if class_weights is None else torch.tensor(class_weights, dtype=torch.float32),
            persistent=False,
        )
        self._never_predicted: tuple[str, ...] = ()

    def collate(self, examples: Sequence[LabelledRow]) -> Batch:
        """ids int64 [B, T], mask bool [B, T], labels int64 [B]; a label out of range is a GnomonError."""
        ids, mask = pad([row.ids for row in examples], pad_id=self.pad_id)
        labels = np.array([row.label for row in examples], dtype=np.int64)
        if labels.min() < 0 or labels.max() >= len(self.label_names):
            raise GnomonError(
                f"a row has label number {labels.min() if labels.min() < 0 else labels.max()}, "
                f"but there are {len(self.label_names)} labels, numbered from 0",
                "number the labels by their place in the label names",
            )
        weight = float(len(labels) if self._given_weights is None else self._given_weights[labels].sum())
        return Batch({"ids": ids, "mask": mask, "labels": labels}, {TERM: weight})

    def check(self, model: Model) -> None:
        """Refuse a single class, a head of other labels, and class weights that do not fit."""
        if len(self.label_names) < 2:
            raise GnomonError(
                f"there is nothing to tell apart: the only label is {', '.join(self.label_names) or 'missing'}",
                "give rows of at least two labels",
            )
        if model.labels != self.label_names:
            raise GnomonError(
                f"the model's head knows the labels {_some(model.labels)}, the data has {_some(self.label_names)}",
                "load the model with the labels of the data: load_model(path, labels=...)",
            )
        weights = self._given_weights
        if weights is not None and (len(weights) != len(self.label_names) or not (weights > 0).all()):
            raise GnomonError(
                f"class_weights {weights.tolist()[:8]} do not fit {len(self.label_names)} labels",
                "give one number above 0 for each label",
            )

    def loss(self, model: Model, batch: Mapping[str, Tensor], weights: Mapping[str, float]) -> dict[str, Term]:
        """The summed cross-entropy."""
        logits = model.logits(batch["ids"], batch["mask"])
        return {TERM: Term(self._cross_entropy(logits, batch["labels"]), weights[TERM])}

    def evaluate(self, model: Model, batches: Sequence[Sequence[Any]]) -> dict[str, float]:
        """`loss`, `accuracy` and `macro_f1` (over the classes that occur or are predicted); only counts are kept."""
        num_labels = len(self.label_names)
        loss, weight = 0.0, 0.0
        hits, gold, predicted = (np.zeros(num_labels, dtype=np.int64) for _ in range(3))
        for examples in batches:
            batch = self.collate(examples)
            tensors = batch.to(model.device)
            logits = model.logits(tensors["ids"], tensors["mask"])
            loss += self._cross_entropy(logits, tensors["labels"]).item()
            weight += batch.weights[TERM]
            labels, answers = batch.arrays["labels"], logits.argmax(dim=1).cpu().numpy()
            hits += np.bincount(labels[labels == answers], minlength=num_labels)
            gold += np.bincount(labels, minlength=num_labels)
            predicted += np.bincount(answers, minlength=num_labels)
        self._never_predicted = tuple(self.label_names[i] for i in np.flatnonzero((gold > 0) & (predicted == 0)))
        return {
            "loss": loss / weight,
            "accuracy": float(hits.sum() / gold.sum()),
            "macro_f1": float(macro_f1_of_counts(hits, gold, predicted)),
        }

    def warnings(self) -> tuple[str, ...]:
        """The classes that occurred in the last evaluation and were never predicted."""
        if not self._never_predicted:
            return ()
        advice = "look at macro_f1; weigh the classes, or add rows of these"
        return (f"never predicted: {_some(self._never_predicted)}; {advice}",)

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), labels, weight=self.class_weights, reduction="sum")


def balanced_weights(counts: Sequence[int]) -> list[float]:
    """Weights [C] by which every class counts alike: rows / (classes * rows of the class), scikit-learn's "balanced".

    A class without rows weighs 1.
    """
    total = sum(counts)
    return [total / (len(counts) * count) if count else 1.0 for count in counts]


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown
