"""Beam search against every continuation there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding.beam import beam_search
from gnomon.decoding.loop import decode, log_softmax
from gnomon.decoding.sampling import Sampling, penalties
from gnomon.errors import GnomonError
from table_stepper import RowStepper, table_model

V = 5
END = 1
quick = settings(deadline=None, derandomize=True, max_examples=25)
prompts = st.lists(st.lists(st.integers(2, V - 1), min_size=1, max_size=4), min_size=1, max_size=3)


def search(rows, *, num_beams, steps=4, model=None, **more):
    stepper = RowStepper(model or table_model(V))
    return beam_search(stepper, rows, num_beams=num_beams, max_new_tokens=steps, end_ids={END}, pad_id=0, **more)


def every_continuation(model, prompt, steps, length_penalty):
    """All (ids, score): those that end, and those of full length."""
    found = []
    for length in range(1, steps + 1):
        for ids in product(range(V), repeat=length):
            if END in ids[:-1] or (length < steps and ids[-1] != END):
                continue
            scores = log_softmax(model([*prompt, *ids]))[len(prompt) - 1 : -1]
            total = float(scores[np.arange(length), list(ids)].sum())
            found.append((ids, total / length**length_penalty))
    return sorted(found, key=lambda pair: -pair[1])


@given(prompts)
@quick
def test_beams_wide_enough_find_the_best_there_is(rows):
    model = table_model(V)
    found = search(rows, num_beams=V**3, steps=3, length_penalty=0.0)
    for row, hypotheses in zip(rows, found, strict=True):
        best, score = every_continuation(model, row, 3, 0.0)[0]
        assert hypotheses[0].ids == best
        assert hypotheses[0].score == pytest.approx(score)


@given(prompts, st.integers(1, 4), st.sampled_from([0.0, 0.7, 2.0]))
@quick
def test_a_batch_gives_each_prompt_what_it_gets_alone(rows, num_beams, length_penalty):
    together = search(rows, num_beams=num_beams, steps=6, length_penalty=length_penalty)
    for row, hypotheses in zip(rows, together, strict=True):
        assert hypotheses == search([row], num_beams=num_beams, steps=6, length_penalty=length_penalty)[0]
        assert hypotheses == sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
        assert len({hypothesis.ids for hypothesis in hypotheses}) == len(hypotheses)


@given(prompts)
@quick
def test_one_beam_is_greedy(rows):
    found = search(rows, num_beams=1, steps=6)
    greedy = [[] for _ in rows]
    stepper = RowStepper(table_model(V))
    for choices in decode(stepper, rows, sampling=Sampling(), max_new_tokens=6, end_ids={END}, pad_id=0):
        for choice in choices:
            greedy[choice.row].append(choice.id)
    assert [list(hypotheses[0].ids) for hypotheses in found] == greedy


def test_a_longer_length_penalty_prefers_longer_texts():
    rows = [[row] for row in range(2, V)]
    short, long = (search(rows, num_beams=4, steps=8, length_penalty=penalty) for penalty in (-2.0, 3.0))
    assert sum(len(found[0].ids) for found in short) < sum(len(found[0].ids) for found in long)


def test_processors_change_the_search():
    rows = [[row] for row in range(2, V)]
    free = search(rows, num_beams=2, steps=8)
    varied = search(rows, num_beams=2, steps=8, processors=(penalties(1.0, 9.0, 9.0),))
    assert any(len(set(found[0].ids)) < len(found[0].ids) for found in free)
    assert all(len(set(found[0].ids)) == len(found[0].ids) for found in varied)


def test_bad_numbers_and_settings_are_refused():
    with pytest.raises(GnomonError, match="no numbers"):
        search([[2]], num_beams=2, model=lambda ids: np.full((len(ids), V), np.nan))
    with pytest.raises(GnomonError, match="num_beams"):
        search([[2]], num_beams=0)
    assert search([], num_beams=2) == []
