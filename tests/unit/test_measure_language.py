"""Perplexity and bits per byte: exact on known numbers, windows that score every token once, intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.measure.language import Passage, language_quality, passages, score_long, sliding_windows

quick = settings(deadline=None, derandomize=True, max_examples=80)


def test_a_uniform_model_over_v_tokens_has_perplexity_v():
    scored = passages(np.full(120, -math.log(50)), size=10, text_bytes=480)
    quality = language_quality(scored)
    assert quality.perplexity.value == pytest.approx(50)
    assert quality.bits_per_byte.value == pytest.approx(math.log2(50) / 4)
    assert (quality.perplexity.low, quality.perplexity.high) == pytest.approx((50, 50))
    assert (quality.tokens, quality.bytes, quality.passages) == (120, 480, 12)


def test_bits_per_byte_do_not_depend_on_the_tokens():
    by_words = language_quality([Passage(-60.0, 10, 50)])
    by_letters = language_quality([Passage(-60.0, 50, 50)])
    assert by_words.bits_per_byte == by_letters.bits_per_byte
    assert by_words.perplexity.value > by_letters.perplexity.value


def test_documents_weigh_by_their_tokens():
    quality = language_quality([Passage(-10.0, 10, 40), Passage(-600.0, 200, 800)])
    assert quality.perplexity.value == pytest.approx(math.exp(610 / 210))


@given(st.integers(0, 60), st.integers(2, 20), st.data())
@quick
def test_windows_score_every_token_but_the_first_once(length, context, data):
    stride = data.draw(st.integers(1, context - 1))
    scored = []
    for span in sliding_windows(length, context=context, stride=stride):
        assert span.stop - span.start <= context
        assert span.start < span.scored < span.stop
        assert span.start == 0 or span.scored - span.start >= context - stride
        scored += range(span.scored, span.stop)
    assert scored == list(range(1, length))


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(2, 12), st.data())
@quick
def test_a_long_text_is_scored_with_the_context_its_windows_give(ids, context, data):
    stride = data.draw(st.integers(1, context - 1))

    def score(row):
        return np.array([-(row[place] + place) for place in range(1, len(row))], float)

    found = score_long(ids, score, context=context, stride=stride)
    assert len(found) == max(0, len(ids) - 1)
    if len(ids) <= context:
        assert found.tolist() == score(ids).tolist()
    for place, value in enumerate(found[context - 1 :].tolist(), context):
        assert context - stride <= -value - ids[place] < context


def test_the_interval_covers_and_narrows():
    generator = np.random.default_rng(0)
    hits, widths = 0, {}
    for count in (20, 200):
        for trial in range(40):
            means = -3 + 0.5 * generator.normal(size=count)
            scored = [Passage(50 * mean, 50, 200) for mean in means]
            quality = language_quality(scored, resamples=300, seed=trial)
            hits += quality.perplexity.low <= math.exp(3) <= quality.perplexity.high
            widths[count] = quality.perplexity.high - quality.perplexity.low
    assert hits >= 0.87 * 80
    assert widths[200] < widths[20] / 2
    assert language_quality(scored, seed=1) == language_quality(scored, seed=1)


@pytest.mark.parametrize("bad", [-math.inf, math.nan])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match="no finite number"):
        language_quality([Passage(bad, 3, 9), Passage(-2.0, 3, 9)])


@pytest.mark.parametrize("scored", [[], [Passage(0.0, 0, 0)]])
def test_nothing_scored_is_refused(scored):
    with pytest.raises(ValueError, match="no token"):
        language_quality(scored)


@pytest.mark.parametrize(("context", "stride"), [(1, 1), (4, 4), (4, 0)])
def test_impossible_windows_are_refused(context, stride):
    with pytest.raises(ValueError, match="stride"):
        list(sliding_windows(9, context=context, stride=stride))
