"""The processors of scores, one by one, and the draw."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding import sampling as s
from gnomon.errors import GnomonError

quick = settings(deadline=None, derandomize=True, max_examples=60)
rows = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40).map(lambda row: np.array(row, np.float32))
SETTINGS = [
    s.Sampling(temperature=t, top_k=k, top_p=p, min_p=m)
    for t in (1e-9, 0.3, 1.0, 5.0)
    for k in (0, 1, 3)
    for p in (0.0, 1e-9, 0.5, 1.0)
    for m in (0.0, 0.3, 1.0)
]


def probabilities(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()


def kept(scores: np.ndarray) -> list[int]:
    return np.flatnonzero(scores > -np.inf).tolist()


@given(rows, st.sampled_from(SETTINGS))
@quick
def test_the_best_token_always_survives_and_nothing_is_nan(scores, settings_):
    filtered = scores.copy()
    for processor in settings_.processors():
        filtered = processor(filtered, [])
    assert not np.isnan(filtered).any()
    assert scores[filtered.argmax()] == scores.max()
    assert 0 <= s.draw(filtered, np.random.default_rng(0)) < len(scores)


@given(rows, st.floats(0, 0.999))
@quick
def test_top_p_keeps_the_fewest_tokens_that_hold_the_share(scores, share):
    weights = probabilities(scores)
    survivors = kept(s.top_p(share)(scores.copy(), []))
    rest = set(range(len(scores))) - set(survivors)
    assert min(weights[survivors]) >= max((weights[token] for token in rest), default=0) - 1e-12
    assert weights[survivors].sum() >= share - 1e-5
    assert weights[survivors].sum() - weights[survivors].min() < share + 1e-5


def test_top_p_looks_beyond_its_first_few_where_they_do_not_hold_the_share():
    scores = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    weights = np.sort(probabilities(scores))[::-1]
    wanted = int(np.searchsorted(np.cumsum(weights), 0.95)) + 1
    assert wanted > 2048
    assert len(kept(s.top_p(0.95)(scores.copy(), []))) == wanted


@given(rows, st.integers(1, 50))
@quick
def test_top_k_keeps_the_best(scores, count):
    survivors = kept(s.top_k(count)(scores.copy(), []))
    assert len(survivors) >= min(count, len(scores))
    assert (np.sort(scores)[::-1][min(count, len(scores)) - 1] <= scores[survivors]).all()


@given(rows, st.floats(0.001, 1))
@quick
def test_min_p_keeps_what_is_at_least_a_share_as_likely_as_the_best(scores, share):
    weights = probabilities(scores)
    survivors = set(kept(s.min_p(share)(scores.copy(), [])))
    assert {i for i, w in enumerate(weights) if w > share * weights.max() * (1 + 1e-4)} <= survivors
    assert survivors <= {i for i, w in enumerate(weights) if w > share * weights.max() * (1 - 1e-4)}


def test_penalties_touch_generated_tokens_alone():
    scores = np.array([2.0, -2.0, 1.0, 0.5], np.float32)
    out = s.penalties(2.0, 0.25, 0.5)(scores.copy(), [0, 0, 1])
    assert out.tolist() == [2.0 / 2 - 0.5 - 0.5, -4.0 - 0.25 - 0.5, 1.0, 0.5]
    assert s.penalties(2.0, 0.25, 0.5)(scores.copy(), []).tolist() == scores.tolist()


def test_penalties_act_with_sampling_and_without():
    scores = np.array([0.0, 1.0, 0.0, 1.2], np.float32)
    for temperature in (0.0, 1e-9):
        sampler = s.Sampler(s.Sampling(temperature=temperature, presence_penalty=1.0), [0])
        assert sampler.choose(scores, row=0, generated=[]) == 3
        assert sampler.choose(scores, row=0, generated=[3]) == 1
    assert scores.tolist() == np.array([0.0, 1.0, 0.0, 1.2], np.float32).tolist()


def test_draws_follow_the_probabilities():
    scores = np.array([0.0, 1.0, -np.inf, 2.0], np.float32)
    generator = np.random.default_rng(0)
    counts = np.bincount([s.draw(scores, generator) for _ in range(20_000)], minlength=4)
    expected = probabilities(np.where(np.isinf(scores), -1e9, scores))
    assert counts[2] == 0
    assert np.abs(counts / 20_000 - expected).max() < 0.012


def test_a_draw_at_the_very_end_of_the_range_is_a_token():
    class Highest:
        def random(self) -> float:
            return 1.0

    assert s.draw(np.array([0.0, 1.0, -np.inf]), Highest()) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1},
        {"top_k": -1},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"repetition_penalty": 0},
        {"seed": -1},
        {"temperature": float("nan")},
    ],
)
def test_impossible_settings_are_refused_by_name(bad):
    with pytest.raises(GnomonError, match=next(iter(bad))):
        s.Sampling(**bad)


def test_plain_settings_need_no_processors():
    assert s.Sampling().processors() == ()
    assert s.Sampling(temperature=1.0).processors() == ()
    assert len(s.Sampling(temperature=0.7, top_k=5, top_p=0.9, min_p=0.1, repetition_penalty=1.1).processors()) == 5
