"""Splitting by hash, de-duplicating, checking labels."""

from __future__ import annotations

import pytest

from gnomon.errors import GnomonError
from gnomon.text.examples import Example, ExampleSet, check_label_names, deduplicate, split_by_hash


def made(*rows: tuple[str, str | None], source: str = "a.csv") -> ExampleSet:
    return ExampleSet(source, tuple(Example(text, label, line) for line, (text, label) in enumerate(rows, 2)))


def many(number: int) -> ExampleSet:
    return made(*((f"text {index}", "ab"[index % 2]) for index in range(number)))


class TestSplit:
    def test_shares_and_every_row_once(self) -> None:
        splits = split_by_hash(many(5000), valid=0.1, test=0.2)
        assert 420 < len(splits.valid) < 580
        assert 900 < len(splits.test) < 1100
        together = [*splits.train.examples, *splits.valid.examples, *splits.test.examples]
        assert sorted(together, key=lambda example: example.line) == list(many(5000).examples)
        assert f"{len(splits.train):,} texts to train" in splits.decisions[0]

    def test_it_never_changes(self) -> None:
        """A text's part follows from the text alone, in any file, on any machine, in any version."""
        splits = split_by_hash(many(40), valid=0.1, test=0.1)
        assert splits.test.texts == ("text 12", "text 13", "text 19", "text 20", "text 26", "text 30")
        assert splits.valid.texts == ("text 6", "text 14", "text 17", "text 28", "text 34")
        more = split_by_hash(many(400), valid=0.1, test=0.1)
        assert set(splits.test.texts) <= set(more.test.texts)
        assert set(splits.valid.texts) <= set(more.valid.texts)

    def test_equal_texts_land_together(self) -> None:
        rows = [(f"{space}caf\u00e9 {index}", "a") for index in range(300) for space in ("", " ", "  ")]
        rows += [(f"cafe\u0301 {index}\n", "b") for index in range(300)]
        splits = split_by_hash(made(*rows), valid=0.2, test=0.2)
        numbers = [{text.split()[1] for text in part.texts} for part in (splits.train, splits.valid, splits.test)]
        assert sum(map(len, numbers)) == 300

    def test_rare_labels_stay_in_training(self) -> None:
        rows = [(f"text {index}", f"label {index // 2}") for index in range(200)]
        splits = split_by_hash(made(*rows), valid=0.3, test=0.3)
        assert set(splits.train.label_names) == {label for _, label in rows}
        assert "too rare to be held out" in splits.decisions[1]

    def test_no_share_is_an_empty_part(self) -> None:
        splits = split_by_hash(many(100), valid=0.2, test=0.0)
        assert len(splits.test) == 0
        assert split_by_hash(many(9), valid=0.0, test=0.0).train == many(9)

    def test_too_small(self) -> None:
        with pytest.raises(GnomonError, match="too small to split: of its 2 texts none falls to") as caught:
            split_by_hash(many(2), valid=0.1, test=0.1)
        assert "--valid" in caught.value.hint

    def test_texts_without_labels(self) -> None:
        assert len(split_by_hash(made(*((str(n), None) for n in range(100))), valid=0.2, test=0.2).train) > 40


class TestDeduplicate:
    def test_repeated_and_conflicting(self) -> None:
        found = deduplicate(made(("x", "a"), ("y", "b"), ("x", "a"), ("x", "c"), ("x ", "a"), ("x", "a")))
        assert [(example.text, example.label, example.line) for example in found.examples] == [
            ("x", "a", 2),
            ("y", "b", 3),
            ("x ", "a", 6),
        ]
        assert found.decisions[0] == "left out of a.csv: 2 repeated rows"
        assert "1 row with the text of an earlier one and another label" in found.decisions[1]
        assert "line 5: 'x' is 'c', and 'a' in line 2" in found.decisions[1]

    def test_nothing_to_do(self) -> None:
        assert deduplicate(many(9)) == many(9)


def test_label_names_are_sorted_text() -> None:
    assert made(("x", "10"), ("y", "9"), ("z", "10")).label_names == ("10", "9")


def test_labels_of_a_model() -> None:
    with pytest.raises(GnomonError, match=r"a\.csv:3 has the label 'b', which the teacher never has"):
        check_label_names(("a", "c"), made(("x", "a"), ("y", "b")), origin="the teacher")
    check_label_names(("a", "b"), made(("x", "a"), ("y", None)), origin="the teacher")
