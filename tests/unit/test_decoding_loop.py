"""Greedy and sampled decoding on a model of random tables: batches, padding, chunks, ends and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding.loop import Choice, decode, describe, log_softmax
from gnomon.decoding.sampling import Sampling
from gnomon.decoding.stepper import left_pad
from gnomon.errors import GnomonError
from table_stepper import RowStepper, table_model

V = 11
END = 1
PAD = 0
quick = settings(deadline=None, derandomize=True, max_examples=40)
prompts = st.lists(st.lists(st.integers(2, V - 1), min_size=1, max_size=6), min_size=1, max_size=5)
samplings = st.sampled_from(
    [
        Sampling(),
        Sampling(temperature=0.8, seed=3),
        Sampling(temperature=1.3, top_k=4, seed=1),
        Sampling(temperature=1.0, top_p=0.7, min_p=0.05),
        Sampling(repetition_penalty=1.5, presence_penalty=0.4),
        Sampling(temperature=0.9, frequency_penalty=0.5, seed=9),
    ]
)


def run(rows, *, sampling=None, steps=8, stepper=None, **more):
    stepper = stepper or RowStepper(table_model(V))
    found = {row: [] for row in range(len(rows))}
    for choices in decode(
        stepper,
        rows,
        sampling=sampling or Sampling(),
        max_new_tokens=steps,
        end_ids={END},
        pad_id=PAD,
        **more,
    ):
        for choice in choices:
            found[choice.row].append(choice)
    return found


def ids(choices: list[Choice]) -> list[int]:
    return [choice.id for choice in choices]


@given(prompts, samplings)
@quick
def test_a_batch_gives_each_prompt_what_it_gets_alone(rows, sampling):
    rows = [list(row) for row in dict.fromkeys(map(tuple, rows))]
    batched = run(rows, sampling=sampling)
    for number, row in enumerate(rows):
        assert ids(batched[number]) == ids(run([row], sampling=sampling)[0])


@given(prompts, samplings, st.integers(1, 4))
@quick
def test_prompts_read_in_pieces_change_nothing(rows, sampling, chunk):
    whole, pieces = run(rows, sampling=sampling), run(rows, sampling=sampling, prefill_chunk=chunk)
    assert {row: ids(found) for row, found in whole.items()} == {row: ids(found) for row, found in pieces.items()}


@given(prompts)
@quick
def test_greedy_takes_the_best_of_the_whole_text_read_again(rows):
    model = table_model(V)
    for row, found in run(rows).items():
        text = list(rows[row])
        for choice in found:
            assert choice.id == int(model(text)[-1].argmax())
            text.append(choice.id)


@given(prompts, samplings)
@quick
def test_a_row_ends_at_its_end_token_and_only_pads_follow(rows, sampling):
    stepper = RowStepper(table_model(V, seed=5, scale=1.0))
    found = run(rows, sampling=sampling, stepper=stepper)
    for choices in found.values():
        assert [choice.finish for choice in choices[:-1]] == [None] * (len(choices) - 1)
        assert choices[-1].finish == ("end" if choices[-1].id == END else "length")
        assert END not in ids(choices[:-1])
    assert all(END not in fed for fed in stepper.calls)


def test_finished_rows_are_fed_pads_and_leave_when_half_have_finished():
    stepper = RowStepper(table_model(V))
    counts = {0: 1, 1: 2, 2: 6, 3: 6}
    seen = dict.fromkeys(counts, 0)

    def stopped(row: int, token: int) -> bool:
        seen[row] += 1
        return seen[row] == counts[row]

    found = run([[2], [3], [4], [5]], stepper=stepper, steps=7, stopped=stopped)
    if any(choice.finish == "end" for choices in found.values() for choice in choices):
        pytest.skip("the tables end a row by themselves")
    assert [len(found[row]) for row in range(4)] == [1, 2, 6, 6]
    assert [choices[-1].finish for choices in found.values()] == ["stop"] * 4
    assert [len(fed) for fed in stepper.calls] == [4, 2, 2, 2, 2]
    assert stepper.calls[0][0] == PAD


def test_the_same_seed_gives_the_same_text_and_equal_prompts_get_samples_of_their_own():
    sampling = Sampling(temperature=1.5, seed=4)
    first, second = run([[3, 4]] * 3, sampling=sampling, steps=12), run([[3, 4]] * 3, sampling=sampling, steps=12)
    texts = [tuple(ids(found)) for found in first.values()]
    assert texts == [tuple(ids(found)) for found in second.values()]
    assert len(set(texts)) == 3
    assert texts[0] == tuple(ids(run([[3, 4]], sampling=sampling, steps=12)[0]))
    assert texts[0] != tuple(ids(run([[3, 4]], sampling=Sampling(temperature=1.5, seed=5), steps=12)[0]))


def test_probabilities_are_the_models_own_before_any_filter():
    model = table_model(V)
    found = run([[2, 3]], sampling=Sampling(temperature=0.5, top_k=2, repetition_penalty=2.0), runners_up=3, steps=4)[0]
    text = [2, 3]
    for choice in found:
        expected = np.exp(log_softmax(model(text)[-1]))
        assert choice.probability == pytest.approx(expected[choice.id], abs=1e-12)
        others = [token for token in np.argsort(-expected).tolist() if token != choice.id][:3]
        assert [token for token, _ in choice.runners_up] == others
        assert [share for _, share in choice.runners_up] == pytest.approx(expected[others].tolist())
        text.append(choice.id)


def test_runners_up_are_at_most_the_other_tokens():
    probability, others = describe(np.array([0.0, 0.0, 1.0], np.float32), 2, 10)
    assert [token for token, _ in others] == [0, 1]
    assert probability + sum(share for _, share in others) == pytest.approx(1)


def test_left_padding_stands_before_the_text():
    tokens, mask = left_pad([[5, 6, 7], [8]], pad_id=PAD)
    assert tokens.tolist() == [[5, 6, 7], [0, 0, 8]]
    assert mask.tolist() == [[True, True, True], [False, False, True]]


def test_a_prompt_beyond_the_context_is_refused_with_the_numbers():
    stepper = RowStepper(table_model(V), max_length=10)
    run([[2] * 4], stepper=stepper, steps=6)
    with pytest.raises(GnomonError, match=r"5 tokens and 6 are to follow: more than the 10"):
        run([[2] * 5], stepper=stepper, steps=6)


@pytest.mark.parametrize("rows", [[[]], [[2], []]])
def test_an_empty_prompt_is_refused(rows):
    with pytest.raises(GnomonError, match="empty"):
        run(rows)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0), Sampling(temperature=1.0, top_p=0.9)])
def test_scores_that_are_no_numbers_stop_with_a_reason(bad, sampling):
    def broken(tokens):
        scores = table_model(V)(tokens).copy()
        scores[-1, 3] = bad
        return scores

    with pytest.raises(GnomonError, match=r"prompt 0 hold 1 values that are no numbers"):
        run([[2]], stepper=RowStepper(broken), sampling=sampling)


def test_no_prompts_give_nothing_and_no_tokens_are_refused():
    assert run([]) == {}
    with pytest.raises(GnomonError, match="max_new_tokens"):
        run([[2]], steps=0)
