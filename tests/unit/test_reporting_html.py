"""The report is one file that needs nothing else, says the verdict first, and escapes what people wrote."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from gnomon.measure.classification import confusion, per_class
from gnomon.measure.uncertainty import Interval, paired
from gnomon.reporting.html import Disagreement, ReportExtras, report_html
from made_up_frontier import candidate, frontier

pytest.importorskip("matplotlib")

GOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1])
ANSWERS = np.array([0, 1, 1, 0, 1, 1, 0, 0])
LABELS = ("abbreviation", "数量", "<script>alert(1)</script>")


class Page(HTMLParser):
    """Checks that tags are balanced and gathers words, tags and addresses."""

    EMPTY = frozenset({"meta", "br", "path", "use", "image", "rect"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def _extras(**changed: object) -> ReportExtras:
    made = frontier()
    test = paired(GOLD, ANSWERS, GOLD, resamples=100)
    everything: dict[str, object] = {
        "title": "questions & more.csv",
        "labels": LABELS,
        "curves": {"static": [{"step": 1.0, "accuracy": 0.5}, {"step": 2.0, "accuracy": 0.8}]},
        "confusion": {one.name: confusion(GOLD, ANSWERS, num_labels=3) for one in made.candidates},
        "per_class": {made.pick: per_class(GOLD, ANSWERS, num_labels=3)},
        "against_teacher": {made.pick: test},
        "against_twin": {made.pick: test},
        "mean_against_twins": Interval(0.015, 0.002, 0.03),
        "disagreements": [
            Disagreement("what <img src=x onerror=alert(2)> 何 \ud800?", "数量", "数量", 0.9, "other", 0.6)
        ],
        "doctor": {
            "rows": {"train": 4882, "test": 500},
            "tokens": None,
            "findings": [{"severity": "warn", "what": "test has <3> texts", "count": 3, "examples": ["line 7: <b>"]}],
        },
        "stage_seconds": {"tune": 142.0, "measure": 3.2},
        "proofs": {
            "static": [{"name": "pads change nothing", "figure": 3e-7, "limit": 1e-5}],
            "encoder": [{"name": "pads change nothing", "figure": 8e-7, "limit": 1e-5}],
        },
        "decisions": ["the label is in the column 'label'"],
        **changed,
    }
    return ReportExtras(**everything)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def page() -> str:
    return report_html(frontier(), _extras())


def test_the_page_is_whole_and_needs_nothing_else(page: str) -> None:
    parsed = Page(page)
    assert not parsed.tags & {"script", "link", "img", "iframe"}
    assert all(address.startswith("#") for address in parsed.addresses)
    for outside in ("@import", "src=", "url(http"):
        assert outside not in page.replace("&lt;img src=x", "")
    assert page.encode("utf-8")


def test_the_verdict_comes_first_and_every_part_is_there(page: str) -> None:
    text = Page(page).text
    parts = [
        "Serve convolutional: it keeps 97.5 % of the teacher's accuracy",
        "Every model that was measured",
        "Quality against cost",
        "What the teacher brought",
        "Learning curves",
        "Where it errs",
        "disagree most",
        "What the doctor found",
        "Where the time went",
        "What was proved before training",
        "How this was made",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    for fact in ("encoder gold", "control", "2 min 22 s", "8.0e-07", "temperature", "+1.5 points", "never answered"):
        assert fact in text


def test_what_people_wrote_is_shown_as_they_wrote_it(page: str) -> None:
    parsed = Page(page)
    assert "<script>alert(1)</script>" in parsed.text
    assert "what <img src=x onerror=alert(2)> 何 ??" in parsed.text
    assert "questions & more.csv" in parsed.text


def test_parts_without_figures_are_left_out() -> None:
    made = frontier()
    text = Page(report_html(made)).text
    for part in ("Learning curves", "Where it errs", "disagree most", "doctor", "time went", "proved"):
        assert part not in text
    alone = type(made).of([candidate("t", "teacher", 0.9, 9.0)], data={}, host={}, settings={})
    assert "Serve the teacher: there is no student" in Page(report_html(alone)).text


def test_only_the_teachers_and_the_picks_confusions_are_drawn(page: str) -> None:
    description = re.search(r'<desc id="confusion-description">([^<]*)', page)
    assert description is not None
    assert description.group(1) == "teacher: 5 of 8 right; convolutional: 5 of 8 right."


def test_many_classes_become_a_table_of_confusions() -> None:
    labels = [f"class {index}" for index in range(30)]
    gold = np.arange(30).repeat(3)
    answers = gold.copy()
    answers[:3] = 4
    extras = _extras(
        labels=labels,
        confusion={"convolutional": confusion(gold, answers, num_labels=30)},
        per_class={"convolutional": per_class(gold, answers, num_labels=30)},
    )
    text = Page(report_html(frontier(), extras)).text
    assert "What convolutional mistakes most often" in text
    assert "class 0 class 4 3 3" in text


def test_the_same_run_gives_the_same_page(page: str) -> None:
    assert report_html(frontier(), _extras()) == page
