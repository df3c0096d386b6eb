"""Tokenizers compared by kind of text."""

from __future__ import annotations

import pytest

from gnomon.text.tokenizer_compare import SAMPLES, compare, kind_of
from gnomon.text.tokenizer_training import train_on


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("The end, she said (twice).", "Latin"),
        ("今天 is 很好的一天", "Chinese"),
        ("x = [f(i) for i in range(10)]", "code"),
        ("ok 👍", "emoji"),
        ("Привет, мир", "Cyrillic"),
        ("1234", "other"),
    ],
)
def test_a_line_has_a_kind(line, kind):
    assert kind_of(line) == kind


def test_the_samples_hold_every_kind_and_bytes_know_them_all():
    names = ("byte-bpe", "wordpiece")
    english = ["the quick brown fox and the lazy dog in a house by the sea"] * 9
    found = compare({kind: train_on(english, kind=kind, size=300).tokenizer for kind in names})
    assert [compared.name for compared in found] == ["byte-bpe", "wordpiece"]
    byte_level, wordpiece = (compared.kinds for compared in found)
    assert set(byte_level) == set(wordpiece) == {"Latin", "Chinese", "code", "emoji"}
    assert {kind: counts.lines for kind, counts in byte_level.items()} == {
        "Latin": 3, "Chinese": 3, "code": 4, "emoji": 2,
    }  # fmt: skip
    assert all(counts.unknown == 0 and counts.restored == counts.lines for counts in byte_level.values())
    assert all(counts.unknown > 0 for counts in wordpiece.values())
    assert byte_level["Latin"].bytes_per_token > byte_level["Chinese"].bytes_per_token
    assert byte_level["Chinese"].tokens_per_character > 2
    assert found[0].total.lines == len(SAMPLES)


def test_a_users_text_is_counted_exactly():
    tokenizer = train_on(["ab"], kind="characters", size=9).tokenizer
    counts = compare({"c": tokenizer}, ["ab\n\nabé", "b"])[0].kinds["Latin"]
    assert (counts.lines, counts.restored, counts.bytes, counts.characters) == (3, 2, 7, 6)
    assert (counts.tokens, counts.unknown) == (6, 1)
    assert counts.unknown_share == pytest.approx(1 / 6)
    assert compare({"c": tokenizer}, ["ab\nb"] * 9, limit=6)[0].total.lines == 4


def test_no_text_divides_by_nothing():
    tokenizer = train_on(["ab"], kind="characters", size=9).tokenizer
    total = compare({"c": tokenizer}, [" \n"])[0].total
    assert (total.bytes_per_token, total.tokens_per_character, total.unknown_share) == (0, 0, 0)
