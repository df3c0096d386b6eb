"""Figures are valid SVG with words in them, the same each time, and may stand beside each other on a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from gnomon.measure.frontier import Frontier
from gnomon.reporting.drawing import COLOURS, shortened, words_width
from gnomon.reporting.figures import confusion_matrices, learning_curves, quality_against
from made_up_frontier import candidate, frontier

pytest.importorskip("matplotlib")

CHINESE = {"static": "静态词向量", "convolutional": "a $x^2$ <b>&"}


def _words(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


def _curves(made: Frontier) -> dict[str, list[dict[str, float]]]:
    trained = [one for one in made.candidates if one.role != "control"]
    return {
        one.name: [{"step": 10.0 * n, "accuracy": one.valid.accuracy.value * (1 - 0.5**n)} for n in range(1, 5)]
        for one in trained
    }


def test_every_offered_model_is_labelled_in_words_whatever_its_script() -> None:
    words = _words(quality_against(frontier(names=CHINESE), "latency"))
    for name in ("teacher", "静态词向量", "a $x^2$ <b>& (pick)", "recurrent", "encoder", "control"):
        assert name in words


def test_the_same_figures_give_the_same_bytes() -> None:
    assert quality_against(frontier(), "size") == quality_against(frontier(), "size")


def test_ids_are_unique_over_all_figures_of_a_page_and_references_hold() -> None:
    made = frontier()
    matrix = np.arange(9).reshape(3, 3)
    page = "".join(
        [
            quality_against(made, "latency"),
            quality_against(made, "size"),
            learning_curves(_curves(made), made),
            confusion_matrices({"teacher": matrix, "static": matrix}, ["a", "b", "c"]),
        ]
    )
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^")]+)', page)) <= set(ids)
    for svg in page.split("<svg")[1:]:
        assert 'role="img"' in svg
        assert "<title id=" in svg
        assert "<desc id=" in svg
    assert "<style" not in page  # one would rule the whole page
    assert "DejaVu" not in page


def test_colours_follow_the_page_and_words_are_left_as_they_are() -> None:
    svg = quality_against(frontier(names={"static": 'id="x" #0072b2'}), "latency")
    assert f"var(--encoder, {COLOURS['encoder']})" in svg
    assert 'id="x" #0072b2' in _words(svg)


def test_labels_neither_overlap_nor_leave_the_canvas() -> None:
    made = Frontier.of(
        [candidate("teacher", "teacher", 0.95, 9.0)]
        + [candidate(f"student-number-{n}", "student", 0.9 + 0.004 * n, 0.3 + 0.1 * n) for n in range(6)],
        data={},
        host={},
        settings={},
    )
    root = ElementTree.fromstring(quality_against(made, "latency"))
    _, _, width, height = (float(value) for value in root.attrib["viewBox"].split())
    boxes = []
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        words = "".join(element.itertext())
        if words.startswith(("student", "teacher")):
            x, y = float(element.attrib["x"]), float(element.attrib["y"])
            length = words_width(words, size=10.5)
            anchor = re.search(r"text-anchor: (\w+)", element.attrib["style"])
            left = x - {"middle": length / 2, "end": length}.get(anchor.group(1) if anchor else "", 0.0)
            boxes.append((left, y - 8, left + length, y))
    assert len(boxes) == 7
    for index, (left, top, right, bottom) in enumerate(boxes):
        assert left >= -1
        assert right <= width + 1
        assert 0 <= top <= bottom <= height
        for other in boxes[:index]:
            apart = right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
            assert apart, (boxes[index], other)


def test_a_student_without_a_curve_or_a_twin_is_left_out() -> None:
    made = frontier()
    curves = {"static": [{"step": 5.0, "accuracy": 0.8}], "recurrent": []}
    words = _words(learning_curves(curves, made))
    assert "static" in words
    assert "recurrent" not in words


@pytest.mark.parametrize("classes", [2, 12, 20])
def test_matrices_of_any_drawn_size(classes: int) -> None:
    labels = [f"a rather long label {index}" for index in range(classes)]
    words = _words(confusion_matrices({"teacher": np.eye(classes, dtype=np.int64) * 7}, labels))
    assert words.count("7") == (classes if classes <= 12 else 0)
    assert shortened(labels[0]) in words


def test_one_lonely_teacher_can_be_drawn() -> None:
    alone = Frontier.of([candidate("t", "teacher", 0.0, 9.0)], data={}, host={}, settings={})
    assert "t (pick)" in _words(quality_against(alone, "latency"))


def test_widths_of_wide_characters() -> None:
    assert words_width("静态", size=10) == 20
    assert shortened("静态词向量", 4) == "静态词…"
