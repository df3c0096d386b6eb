"""The transfer set: deterministic, nested, and aware of scripts without spaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.distillation.transfer import Augmentation, transfer_set, units

TRAIN = ["How far is it from Denver to Aspen ?", "What county is Modesto in ?", "Who was Galileo ?"]
UNLABELLED = ["Name a tiger that is extinct ."]


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.text(alphabet=st.sampled_from("ab 我喜欢你\t?\u3000ก"), max_size=20))
def test_units_give_the_text_back(text: str) -> None:
    assert "".join(space + unit for space, unit in units(text)) == text.rstrip()


def test_a_unit_is_a_word_or_one_character_of_a_script_without_spaces() -> None:
    assert [unit for _, unit in units("我非常喜欢 New York的 apple!")] == [*"我非常喜欢", "New", "York", "的", "apple!"]


def test_originals_come_first_and_sources_say_whose_gold_a_copy_carries() -> None:
    transfer = transfer_set(TRAIN, UNLABELLED, copies=3, seed=0, mask_token="[MASK]")
    assert list(transfer.texts[:4]) == TRAIN + UNLABELLED
    assert transfer.sources.tolist() == [0, 1, 2, -1] * 4
    assert len(transfer.texts) == 16
    assert all(text.strip() for text in transfer.texts)


def test_the_same_seed_gives_the_same_texts_and_fewer_copies_are_a_prefix() -> None:
    one = transfer_set(TRAIN, UNLABELLED, copies=5, seed=3, mask_token="[MASK]")
    two = transfer_set(TRAIN, UNLABELLED, copies=2, seed=3, mask_token="[MASK]")
    other = transfer_set(TRAIN, UNLABELLED, copies=2, seed=4, mask_token="[MASK]")
    assert one.first(2).texts == two.texts
    assert np.array_equal(one.first(2).sources, two.sources)
    assert one.first(9) is one
    assert two.texts != other.texts


def test_no_copies_is_the_texts_alone() -> None:
    assert transfer_set(TRAIN, copies=0, seed=0, mask_token=None).texts == tuple(TRAIN)


def test_a_copy_is_made_of_the_pool_and_the_mask_only() -> None:
    pool = {unit for text in TRAIN for _, unit in units(text)} | {"[MASK]"}
    transfer = transfer_set(TRAIN, copies=50, seed=0, mask_token="[MASK]", augmentation=Augmentation(join=0.3))
    assert {unit for text in transfer.texts for _, unit in units(text)} == pool


def test_without_a_mask_token_masked_words_are_left_out() -> None:
    always = Augmentation(mask=0.5, swap=0.0, crop=0.0)
    transfer = transfer_set(TRAIN, copies=20, seed=0, mask_token=None, augmentation=always)
    lengths = [len(text.split()) for text in transfer.texts[3:]]
    assert min(lengths) >= 1
    assert np.mean(lengths) == pytest.approx(np.mean([len(text.split()) for text in TRAIN]) / 2, rel=0.25)


@pytest.mark.parametrize(("name", "value"), [("mask", 0.4), ("swap", 0.4)])
def test_shares_are_kept(name: str, value: float) -> None:
    text = " ".join(f"w{i}" for i in range(200))
    quiet = {"mask": 0.0, "swap": 0.0, "crop": 0.0}
    transfer = transfer_set(
        [text], copies=20, seed=0, mask_token="[M]", augmentation=Augmentation(**quiet | {name: value})
    )
    changed = [
        sum(a != b for a, b in zip(text.split(), copy.split(), strict=True)) / 200 for copy in transfer.texts[1:]
    ]
    assert np.mean(changed) == pytest.approx(value, abs=0.05)


def test_a_crop_is_a_run_of_words_of_the_lengths_asked_for() -> None:
    text = " ".join(f"w{i:03d}" for i in range(100))
    crops = Augmentation(mask=0.0, swap=0.0, crop=1.0, crop_units=(2, 8))
    copies = transfer_set([text], copies=40, seed=0, mask_token=None, augmentation=crops).texts[1:]
    assert all(copy in text for copy in copies)
    assert {len(copy.split()) for copy in copies} == set(range(2, 9))


def test_chinese_is_swapped_character_by_character_and_cropped_in_spans() -> None:
    texts = ["同步股首秀港股缩量回调", "体验巅峰倚天屠龙记十大创新概览"]
    quiet = transfer_set(
        texts, copies=30, seed=0, mask_token="[MASK]", augmentation=Augmentation(mask=0.0, swap=0.2, crop=0.0)
    )
    assert all(len(copy) == len(quiet.texts[source]) for copy, source in zip(quiet.texts, quiet.sources, strict=True))
    crops = Augmentation(mask=0.0, swap=0.0, crop=1.0, crop_units=(2, 4))
    copies = transfer_set(texts, copies=30, seed=0, mask_token=None, augmentation=crops).texts[2:]
    assert {len(copy) for copy in copies} == {4, 5, 6, 7, 8}


def test_empty_texts_pass_through() -> None:
    assert transfer_set(["", "a b"], copies=2, seed=0, mask_token=None).texts[0] == ""
