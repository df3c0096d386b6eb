"""What the doctor finds: repeats, leaks, conflicts, imbalance, cut and unknown tokens; and when it stops a run."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from gnomon.text.corpus import read_examples
from gnomon.text.examples import BadRow, Example, ExampleSet
from gnomon.text.quality import Finding, QualityReport, inspect_data
from gnomon.text.scripts import script_shares
from gnomon.text.tokenizer import Tokenizer


def made(*rows: tuple[str, str | None]) -> ExampleSet:
    return ExampleSet("a.csv", tuple(Example(text, label, line) for line, (text, label) in enumerate(rows, 2)))


def found(report: QualityReport, words: str) -> Finding:
    matching = [finding for finding in report.findings if words in finding.what]
    assert len(matching) == 1, [finding.what for finding in report.findings]
    return matching[0]


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Tokenizer:
    return Tokenizer.from_dir(minilm_folder)


CLEAN = made(*((f"clean text number {number}", "ab"[number % 2]) for number in range(40)))


def test_clean_data_has_notes_alone(minilm: Tokenizer) -> None:
    report = inspect_data(CLEAN, tokenizer=minilm, max_length=16)
    assert {finding.severity for finding in report.findings} == {"note"}
    assert (report.stop, report.rows, report.labels) == (None, {"train": 40}, {"train": {"a": 20, "b": 20}})
    assert json.loads(json.dumps(report.to_dict()))["scripts"] == {"Latin": 1.0}


def test_repeats_and_conflicts() -> None:
    train = made(("x y", "a"), ("x y", "a"), ("x y", "b"), ("X, y!", "a"), (":)", "a"), (":(", "b"))
    report = inspect_data(train)
    assert found(report, "train repeats 1 row").examples == ("line 3: x y",)
    assert found(report, "under another label") == Finding(
        "warn", "train has 1 row whose text stands under another label before", 1, ("line 4: x y",)
    )
    assert found(report, "in case or punctuation alone").count == 4


def test_leaks() -> None:
    test = made(("clean text number 3", "b"), ("Clean text, number 4.", "a"), ("new", "a"), (":)", "a"))
    report = inspect_data(CLEAN, None, test)
    assert found(report, "test has 1 text of train (25.0%)").examples == ("line 2: clean text number 3",)
    assert found(report, "but for case or punctuation").examples == ("line 3: Clean text, number 4.",)
    both = inspect_data(CLEAN, test, test)
    assert found(both, "test has 4 texts of valid").severity == "warn"


def test_labels() -> None:
    rows = [("much", "common")] * 300 + [("few", "rare"), ("fewer", "Common "), ("few3", "odd")]
    train = made(*((f"{text} {number}", label) for number, (text, label) in enumerate(rows)))
    report = inspect_data(train, made(("v", "common"), ("w", "new")))
    assert "'common' (99.0%)" in found(report, "rare ones may never be predicted").what
    assert found(report, "fewer than 10 examples").count == 3
    assert found(report, "case or spaces alone").examples == ("'Common '", "'common'")
    assert found(report, "valid has no example of 3 labels").severity == "note"
    assert found(report, "valid has 1 label that train never has").examples == ("'new'",)
    ids = made(*((f"text {number}", f"id {number}") for number in range(60)))
    assert found(inspect_data(ids), "is this the label column?").severity == "warn"


def test_texts_without_labels() -> None:
    assert inspect_data(made(("a", None), ("b", None))).labels == {"train": {}}


def test_odd_texts_and_lost_rows() -> None:
    train = ExampleSet(
        "a.csv",
        tuple(
            Example(text, "x", line)
            for line, text in enumerate(["fine", " ", "y" * 100_001, "sister\ufffdcity", "cafÃ©", "itâ€™s"], 2)
        ),
        bad_rows=(BadRow(9, "the label is missing", "z"),),
    )
    report = inspect_data(train)
    assert found(report, "empty or above 100,000 characters").count == 2
    assert found(report, "wrong encoding").count == 3
    assert found(report, "lost 1 unusable row").examples == ("line 9: the label is missing",)


def test_truncation_and_unknown_tokens(minilm: Tokenizer) -> None:
    train = made(("one two three four five", "a"), ("one 😀", "b"), ("two", "a"))
    report = inspect_data(train, tokenizer=minilm, max_length=6)
    assert report.tokens is not None
    assert report.tokens.unknown_share == pytest.approx(1 / 8)
    assert report.tokens.truncated_share == pytest.approx(1 / 3)
    assert report.tokens.longest == 7
    assert found(report, "longer than 6 tokens (33.3%)").examples == ("line 2: one two three four five",)
    assert found(report, "unknown to the teacher").examples == ("line 3: one 😀",)
    assert report.stop is None


@pytest.mark.parametrize(
    ("text", "script", "teacher"),
    [
        ("我非常喜欢这个苹果", "90% Han", "bert-base-chinese"),
        ("😀😁 😂", "75% Emoji", "roberta-base"),
        ("ᚠᛇᚻ ᛒᛦᚦ", "86% other", "multilingual"),
    ],
)
def test_it_stops_when_the_teacher_cannot_read(minilm: Tokenizer, text: str, script: str, teacher: str) -> None:
    report = inspect_data(made((text, "a"), (f"{text} ok", "b")), tokenizer=minilm)
    assert report.stop is not None
    assert report.findings[0] == Finding("stop", report.stop)
    for words in (script, teacher, "of the tokens are unknown"):
        assert words in report.stop


def test_chinese_news_and_an_english_teacher(shared: Path, minilm: Tokenizer) -> None:
    report = inspect_data(read_examples(shared / "thucnews" / "train.csv"), tokenizer=minilm, max_length=64)
    assert report.tokens is not None
    assert 0.6 < report.tokens.unknown_share < 0.7
    assert report.stop is not None
    assert "96% Han, its vocabulary 99% Latin" in report.stop


def test_real_questions(demo_questions: Path, minilm: Tokenizer) -> None:
    report = inspect_data(read_examples(demo_questions), tokenizer=minilm, max_length=32)
    assert report.stop is None
    assert found(report, "train repeats 10,070 rows").severity == "warn"
    assert found(report, "under another label before").count == 1
    assert report.tokens is not None
    assert report.tokens.unknown_share == 0


def test_scripts() -> None:
    assert script_shares(["ab", "我你", "かな한글", "1, 2!"]) == {
        "Han": 0.25,
        "Hangul": 0.25,
        "Kana": 0.25,
        "Latin": 0.25,
    }
    assert script_shares(["é", "Я", "\ud83d", "𠀀"]) == pytest.approx({"Cyrillic": 1 / 3, "Han": 1 / 3, "Latin": 1 / 3})
    assert script_shares(["ᚠ x"]) == {"Latin": 0.5, "other": 0.5}
    assert script_shares(["12 ."]) == {} == script_shares([])


def test_a_hundred_thousand_rows_take_seconds() -> None:
    random = np.random.default_rng(0)
    words = random.choice([f"word{number}" for number in range(5000)], (100_000, 10))
    train = made(*((" ".join(row), "ab"[number % 2]) for number, row in enumerate(words.tolist())))
    started = time.perf_counter()
    inspect_data(train)
    assert time.perf_counter() - started < 10  # 0.6 s when nothing else runs
