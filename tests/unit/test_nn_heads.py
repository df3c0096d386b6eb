"""Pooling and the label head."""

from __future__ import annotations

import pytest
import torch

from gnomon.errors import GnomonError
from gnomon.nn.heads import POOLINGS, LabelHead, Pool


@pytest.mark.parametrize("kind", POOLINGS)
def test_pooling_sees_real_positions_only(kind: str) -> None:
    torch.manual_seed(0)
    pool = Pool(kind, 4)
    hidden = torch.randn(3, 5, 4)
    mask = torch.arange(5) < torch.tensor([[5], [3], [0]])
    pooled = pool(hidden, mask)
    other = torch.where(mask.unsqueeze(-1), hidden, torch.tensor(float("nan")))
    torch.testing.assert_close(pool(other, mask), pooled)
    text = hidden[1, :3]
    if kind == "attention":
        expected = pool.score(text).softmax(0).T @ text
    else:
        expected = {"first": text[0], "last": text[2], "mean": text.mean(0), "max": text.amax(0)}[kind]
    torch.testing.assert_close(pooled[1], expected.reshape(4))
    assert not pooled[2].any()


def test_max_pooling_of_negative_numbers_is_negative() -> None:
    mask = torch.tensor([[True, True, False]])
    assert Pool("max", 1)(torch.tensor([[[-3.0], [-2.0], [0.0]]]), mask).item() == -2.0


def test_first_and_last_find_the_text_behind_left_padding() -> None:
    hidden = torch.arange(5.0).reshape(1, 5, 1)
    mask = torch.tensor([[False, True, True, True, False]])
    assert Pool("first", 1)(hidden, mask).item() == 1.0
    assert Pool("last", 1)(hidden, mask).item() == 3.0


def test_the_head_is_its_formula() -> None:
    torch.manual_seed(0)
    head = LabelHead(4, 3, pooling="first", dense_size=6, act="relu").eval()
    hidden, mask = torch.randn(2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    features = head.features(hidden, mask)
    torch.testing.assert_close(features, head.dense(hidden[:, 0]).relu())
    torch.testing.assert_close(head.logits(features), head.out(features))
    assert (head.feature_size, LabelHead(4, 3, pooling="max").feature_size) == (6, 4)


def test_an_unknown_pooling_is_explained() -> None:
    with pytest.raises(GnomonError, match="did you mean 'mean'"):
        Pool("men", 4)
