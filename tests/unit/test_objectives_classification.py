"""Classification: exact sums, refusals before step 1, streamed figures equal to scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from gnomon.errors import GnomonError
from gnomon.objectives.classification import Classification, LabelledRow, balanced_weights

NAMES = ("地点", "human", "number")


class Scores(nn.Module):
    """A model whose logits are the mean of rows of a table: enough to be scored."""

    def __init__(self, labels: tuple[str, ...] = NAMES) -> None:
        super().__init__()
        self.labels = labels
        self.table = nn.Embedding(30, len(labels))

    @property
    def device(self) -> torch.device:
        return self.table.weight.device

    def logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        weights = mask.unsqueeze(-1).float()
        return (self.table(ids) * weights).sum(1) / weights.sum(1).clamp_min(1)


def _rows(count: int, seed: int, classes: int = 3) -> list[LabelledRow]:
    generator = np.random.default_rng(seed)
    return [
        LabelledRow(
            generator.integers(1, 30, size=int(generator.integers(1, 9))).tolist(), int(generator.integers(classes))
        )
        for _ in range(count)
    ]


def test_collate_pads_and_counts() -> None:
    batch = Classification(NAMES, pad_id=7).collate([LabelledRow([1, 2, 3], 2), LabelledRow([4], 0)])
    assert batch.arrays["ids"].tolist() == [[1, 2, 3], [4, 7, 7]]
    assert batch.arrays["mask"].tolist() == [[True, True, True], [True, False, False]]
    assert batch.arrays["labels"].tolist() == [2, 0]
    assert batch.weights == {"gold": 2.0}


@pytest.mark.parametrize("weights", [None, [1.0, 4.0, 0.5]])
def test_loss_is_torchs_weighted_mean(weights: list[float] | None) -> None:
    torch.manual_seed(0)
    model, rows = Scores(), _rows(20, 0)
    objective = Classification(NAMES, pad_id=0, class_weights=weights)
    batch = objective.collate(rows)
    tensors = batch.to(model.device)
    term = objective.loss(model, tensors, batch.weights)["gold"]  # type: ignore[arg-type]
    expected = F.cross_entropy(
        model.logits(tensors["ids"], tensors["mask"]),
        tensors["labels"],
        weight=None if weights is None else torch.tensor(weights),
    )
    assert term.weight == batch.weights["gold"]
    assert (term.sum / term.weight).item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_out_of_range_is_refused(label: int) -> None:
    with pytest.raises(GnomonError, match=f"label number {label}"):
        Classification(NAMES, pad_id=0).collate([LabelledRow([1], 0), LabelledRow([1], label)])


@pytest.mark.parametrize(
    ("names", "head", "weights", "says"),
    [
        (("only",), ("only",), None, "nothing to tell apart"),
        ((), (), None, "nothing to tell apart"),
        (NAMES, NAMES[:2], None, "head knows the labels"),
        (NAMES, tuple(reversed(NAMES)), None, "head knows the labels"),
        (NAMES, NAMES, [1.0, 2.0], "class_weights"),
        (NAMES, NAMES, [1.0, 2.0, 0.0], "class_weights"),
    ],
)
def test_refused_before_the_first_step(
    names: tuple[str, ...], head: tuple[str, ...], weights: list[float] | None, says: str
) -> None:
    with pytest.raises(GnomonError, match=says):
        Classification(names, pad_id=0, class_weights=weights).check(Scores(head))  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(1, 17), st.integers(0, 50))
@settings(deadline=None, derandomize=True, max_examples=30)
def test_streamed_figures_equal_scikit_learns_whatever_the_batches(count: int, size: int, seed: int) -> None:
    from sklearn.metrics import accuracy_score, f1_score

    torch.manual_seed(seed)
    model, rows = Scores(), _rows(count, seed)
    objective = Classification(NAMES, pad_id=0)
    with torch.no_grad():
        found = objective.evaluate(model, [rows[i : i + size] for i in range(0, count, size)])  # type: ignore[arg-type]
        whole = objective.collate(rows)
        logits = model.logits(*(torch.from_numpy(whole.arrays[name]) for name in ("ids", "mask")))
    gold, answers = whole.arrays["labels"], logits.argmax(1).numpy()
    assert found["accuracy"] == pytest.approx(accuracy_score(gold, answers))
    assert found["macro_f1"] == pytest.approx(f1_score(gold, answers, average="macro", zero_division=0))
    assert found["loss"] == pytest.approx(F.cross_entropy(logits, torch.from_numpy(gold)).item(), abs=1e-5)


def test_a_class_that_is_never_predicted_is_told() -> None:
    model, objective = Scores(), Classification(NAMES, pad_id=0)
    with torch.no_grad():
        model.table.weight.copy_(torch.tensor([1.0, 0.0, -1.0]).expand(30, 3))
    assert objective.warnings() == ()
    objective.evaluate(model, [[LabelledRow([1], 0), LabelledRow([2], 1)]])  # type: ignore[arg-type]
    (warning,) = objective.warnings()
    assert warning.startswith("never predicted: human;")  # number did not occur, so nothing is said of it
    objective.evaluate(model, [[LabelledRow([1], 0)]])  # type: ignore[arg-type]
    assert objective.warnings() == ()


def test_balanced_weights_are_scikit_learns() -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = np.repeat([0, 1, 2], [50, 5, 1])
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert balanced_weights([50, 5, 1]) == pytest.approx(expected.tolist())
    assert balanced_weights([5, 0])[1] == 1.0
