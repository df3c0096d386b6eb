"""Prompts to text: streams, many prompts, ends, stops and token records, with a byte-level tokenizer."""

from __future__ import annotations

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, processors

from gnomon.decoding.generate import Settings, generate, prompt_ids, stream
from gnomon.decoding.logprobs import explain, score_rows
from gnomon.decoding.loop import log_softmax
from gnomon.decoding.sampling import Sampling
from gnomon.errors import GnomonError
from gnomon.text.tokenizer import Tokenizer
from table_stepper import RowStepper, table_model

quick = settings(deadline=None, derandomize=True, max_examples=25)
texts = st.lists(st.text("ab é你", max_size=6), min_size=1, max_size=5)


def make_tokenizer(*, template: str = "<s> $A") -> Tokenizer:
    words = ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = tokenizers.Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = processors.TemplateProcessing(single=template, special_tokens=[("<s>", 1), ("</s>", 2)])
    backend.add_special_tokens(words[:3])
    return Tokenizer.from_json(backend.to_str(), {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"})


TOKENIZER = make_tokenizer()
MODEL = table_model(TOKENIZER.vocab_size, scale=1.0)
SETTINGS = Settings(max_new_tokens=12, sampling=Sampling(temperature=1.0, top_k=9, seed=2), batch_size=2)


@given(texts)
@quick
def test_many_prompts_give_what_each_gives_alone_in_the_order_given(prompts):
    prompts = list(dict.fromkeys(prompts))
    together = generate(RowStepper(MODEL), TOKENIZER, prompts, SETTINGS)
    assert together == [generate(RowStepper(MODEL), TOKENIZER, [prompt], SETTINGS)[0] for prompt in prompts]


@given(texts)
@quick
def test_the_text_is_the_stream_joined_and_the_ids_decoded(prompts):
    whole = generate(RowStepper(MODEL), TOKENIZER, prompts, Settings(max_new_tokens=12, batch_size=9))
    parts = [""] * len(prompts)
    for piece in stream(RowStepper(MODEL), TOKENIZER, prompts, Settings(max_new_tokens=12)):
        parts[piece.row] += piece.text
    assert parts == [generation.text for generation in whole]
    assert parts == [TOKENIZER.decode([i for i in generation.ids if i != 2]) for generation in whole]


def test_repeated_prompts_get_the_same_samples_in_batches_of_any_size():
    prompts = ["a", "b", "a", "a", "b"]
    for sampling in (Sampling(), Sampling(temperature=1.2, seed=8)):
        small = generate(RowStepper(MODEL), TOKENIZER, prompts, Settings(9, sampling, batch_size=1))
        large = generate(RowStepper(MODEL), TOKENIZER, prompts, Settings(9, sampling, batch_size=5))
        assert small == large


def test_a_stop_string_ends_the_text_and_says_so():
    free = generate(RowStepper(MODEL), TOKENIZER, ["ab"], Settings(max_new_tokens=20))[0]
    middle = free.text[4:6]
    assert middle
    stopped = generate(RowStepper(MODEL), TOKENIZER, ["ab"], Settings(max_new_tokens=20, stop=(middle,)))[0]
    assert stopped.text == free.text[: free.text.index(middle)]
    assert stopped.finish == "stop"
    assert stopped.ids == free.ids[: len(stopped.ids)]


def test_an_end_token_is_among_the_ids_and_not_in_the_text():
    def ends(ids):
        scores = np.zeros((len(ids), TOKENIZER.vocab_size), np.float32)
        scores[-1, 2 if len(ids) > 3 else TOKENIZER.vocabulary["x"]] = 9
        return scores

    found = generate(RowStepper(ends), TOKENIZER, ["a"])[0]
    assert (found.text, found.finish, found.ids[-1]) == ("xx", "end", 2)
    forced = generate(RowStepper(ends), TOKENIZER, ["a"], Settings(max_new_tokens=5, end_ids=()))[0]
    assert (forced.finish, len(forced.ids)) == ("length", 5)


def test_tokens_carry_probability_and_runners_up():
    settings_ = Settings(max_new_tokens=4, runners_up=2)
    found = generate(RowStepper(MODEL), TOKENIZER, ["ab"], settings_)[0]
    assert [token.id for token in found.tokens] == list(found.ids)
    for token in found.tokens:
        assert 0 < token.probability <= 1
        assert [share for _, share in token.runners_up] == sorted((p for _, p in token.runners_up), reverse=True)
    assert generate(RowStepper(MODEL), TOKENIZER, ["ab"], Settings(max_new_tokens=4))[0].tokens == ()


@pytest.mark.parametrize(
    ("template", "text", "expected"),
    [
        ("<s> $A", "a", [1, TOKENIZER.vocabulary["a"]]),
        ("<s> $A", "<s>a", [1, TOKENIZER.vocabulary["a"]]),
        ("<s> $A </s>", "a", [1, TOKENIZER.vocabulary["a"]]),
        ("$A", "a", [TOKENIZER.vocabulary["a"]]),
        ("$A", "", [1]),
        ("<s> $A </s>", "", [1]),
    ],
)
def test_a_prompt_begins_once_and_never_ends(template, text, expected):
    assert prompt_ids(make_tokenizer(template=template), text) == expected


def test_given_ids_are_used_as_they_are():
    assert prompt_ids(TOKENIZER, np.array([5, 2])) == [5, 2]


def test_given_text_is_scored_token_by_token():
    rows = [[1, 5, 6, 7], [1, 9], [3]]
    scored = score_rows(RowStepper(MODEL), rows, pad_id=0, batch_size=2)
    assert [len(row) for row in scored] == [3, 1, 0]
    for row, values in zip(rows[:2], scored, strict=False):
        expected = log_softmax(MODEL(row))[np.arange(len(row) - 1), row[1:]]
        assert values == pytest.approx(expected)
    tokens = explain(RowStepper(MODEL), TOKENIZER, rows[0], runners_up=2)
    assert [token.id for token in tokens] == rows[0][1:]
    assert np.log([token.probability for token in tokens]) == pytest.approx(scored[0])
    assert explain(RowStepper(MODEL), TOKENIZER, [1]) == []


def test_a_text_longer_than_the_context_is_not_scored_in_silence():
    with pytest.raises(GnomonError, match=r"5 tokens, more than the 4"):
        score_rows(RowStepper(MODEL, max_length=4), [[1] * 5], pad_id=0)
