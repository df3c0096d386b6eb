"""The TF-IDF control learns real questions and Chinese, and says what it cannot learn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gnomon.errors import GnomonError
from gnomon.measure.controls import STRENGTHS, Control, fit_control

pytest.importorskip("sklearn")


def _questions(path: Path, rows: int) -> tuple[list[str], np.ndarray, list[str]]:
    lines = dict.fromkeys(path.read_text(encoding="utf-8", errors="replace").split("\n"))
    pairs = [line.split(maxsplit=1) for line in lines if len(line.split(maxsplit=1)) == 2][:rows]
    labels = [label.split(":")[0] for label, _ in pairs]
    names = sorted(set(labels))
    return [text for _, text in pairs], np.array([names.index(label) for label in labels]), names


def _fit(texts: list[str], classes: np.ndarray, *, cut: int, num_labels: int) -> Control:
    return fit_control(texts[:cut], classes[:cut], texts[cut:], classes[cut:], num_labels=num_labels)


def test_real_questions_are_learnt_and_the_answers_are_distributions(demo_questions: Path) -> None:
    texts, classes, names = _questions(demo_questions, 1500)
    control = _fit(texts, classes, cut=1200, num_labels=len(names))
    probabilities = control.probabilities(texts[1200:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    found = float(np.mean(probabilities.argmax(axis=1) == classes[1200:]))
    assert found == control.valid_accuracy == max(control.tried.values())
    assert found > 0.75
    assert control.strength in STRENGTHS
    assert {3.0, 10.0, 30.0} <= set(control.tried)
    assert control.parameters > 10_000
    assert 0.05 < control.size_mb < 20


def test_one_text_is_answered_as_among_others_and_a_second_fit_alike(demo_questions: Path) -> None:
    texts, classes, names = _questions(demo_questions, 400)
    first, second = (_fit(texts, classes, cut=300, num_labels=len(names)) for _ in range(2))
    together = first.probabilities(texts[300:320])
    np.testing.assert_allclose(together[7], first.probabilities([texts[307]])[0], atol=1e-9)
    np.testing.assert_array_equal(together, second.probabilities(texts[300:320]))


def test_chinese_is_read_character_by_character() -> None:
    texts = [
        f"{word}{tail}" for tail in ("很好看", "不错呀", "在这里", "怎么样") for word in ("足球赛事", "股票市场")
    ] * 3
    classes = np.array([0, 1] * 12)
    control = _fit(texts, classes, cut=16, num_labels=2)
    assert control.probabilities(["昨天的足球", "今天的股票"]).argmax(axis=1).tolist() == [0, 1]


def test_more_classes_than_one_against_rest_takes() -> None:
    texts = [f"word{index} again {again}" for again in range(4) for index in range(25)]
    control = _fit(texts, np.array(list(range(25)) * 4), cut=75, num_labels=25)
    assert control.valid_accuracy > 0.9


def test_a_class_never_seen_gets_no_probability() -> None:
    control = _fit(["red apple", "blue sky", "red rose", "blue sea"] * 3, np.array([0, 2] * 6), cut=8, num_labels=4)
    probabilities = control.probabilities(["red", "", "完全不同"])
    assert (probabilities[:, [1, 3]] == 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)


def test_what_cannot_be_learnt_from_is_said() -> None:
    with pytest.raises(GnomonError, match="one class only"):
        _fit(["a", "b", "c"], np.array([1, 1, 1]), cut=2, num_labels=2)
    with pytest.raises(GnomonError, match="every training text is empty"):
        _fit(["", " ", "x"], np.array([0, 1, 1]), cut=2, num_labels=2)
