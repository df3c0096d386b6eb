"""Exported decoders against their torch models: any calls, any padding, every position scheme that is exported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding.stepper import read_prompts
from gnomon.deploy.blocks import to_blocks
from gnomon.deploy.decoder import matrices
from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.stepper import TorchStepper
from gnomon.runtime.language import LanguageStepper
from gnomon.runtime.onnx_language import OnnxLanguageModel
from language_models import CONTEXT, bits_of, graph_of, greedy, language_model, some_ids

TOLERANCE = {"atol": 2e-4, "rtol": 1e-4}
EXPORTED = ("rope", "rope-grouped-normed", "rope-yarn", "rope-sliding", "learned", "sinusoidal", "none", "ngrams")
each_exported = pytest.mark.parametrize("name", EXPORTED)


def deployed(model: Model, *, bits: int = 32) -> LanguageStepper:
    return LanguageStepper(OnnxLanguageModel(graph_of(model, bits=bits)), max_length=CONTEXT)


@each_exported
def test_500_greedy_tokens_are_those_of_torch(name: str) -> None:
    model = language_model(name)
    steppers = [TorchStepper(model), deployed(model)]
    ids = some_ids(4)
    logits = [read_prompts(one, [ids], pad_id=0, max_new_tokens=500) for one in steppers]
    for _ in range(500):
        np.testing.assert_allclose(*logits, **TOLERANCE)
        assert logits[0].argmax() == logits[1].argmax()
        logits = [one.step(logits[0].argmax(axis=1)) for one in steppers]


@each_exported
@settings(deadline=None, derandomize=True, max_examples=12)
@given(data=st.data())
def test_any_calls_give_the_scores_of_torch(name: str, data: st.DataObject) -> None:
    model = language_model(name)
    both = [TorchStepper(model), deployed(model)]
    rows = data.draw(st.integers(1, 3))
    prompts = [some_ids(data.draw(st.integers(1, 9)), seed=row) for row in range(rows)]
    chunk = data.draw(st.integers(1, 9))
    np.testing.assert_allclose(
        *(read_prompts(one, prompts, pad_id=0, max_new_tokens=1, chunk=chunk) for one in both), **TOLERANCE
    )
    longest = columns = max(map(len, prompts))
    for number in range(data.draw(st.integers(0, 5))):
        call = data.draw(st.sampled_from(["step", "append", "reorder", "trim"]))
        if call == "reorder":
            chosen = np.array(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=4)))
            rows = len(chosen)
            for one in both:
                one.reorder(chosen)
        elif call == "trim":
            columns = data.draw(st.integers(longest, columns))
            for one in both:
                one.trim(columns)
        width = 3 if call == "append" else 1
        columns += width
        ids = np.array([some_ids(width, seed=10 * number + row) for row in range(rows)])
        mask = np.ones(ids.shape, dtype=bool)
        found = [one.prefill(ids, mask) if width > 1 else one.step(ids[:, 0]) for one in both]
        np.testing.assert_allclose(*found, **TOLERANCE)


@each_exported
def test_batch_mates_left_padding_and_chunks_change_no_token(name: str) -> None:
    stepper = deployed(language_model(name))
    prompts = [some_ids(length, seed=length) for length in (7, 1, 12, 4)]
    alone = [greedy(stepper, [prompt], 30)[0] for prompt in prompts]
    assert greedy(stepper, prompts, 30) == alone
    for chunk in (1, 5):
        assert greedy(stepper, prompts, 30, chunk) == alone


@each_exported
def test_scores_of_given_text_are_those_of_torch_and_leave_the_state_alone(name: str) -> None:
    model = language_model(name)
    both = [TorchStepper(model), deployed(model)]
    ids, mask = np.zeros((3, 200), np.int64), np.zeros((3, 200), bool)
    for row, length in enumerate((200, 1, 5)):
        ids[row, :length], mask[row, :length] = some_ids(length, seed=length), True
    for one in both:
        read_prompts(one, [some_ids(3)], pad_id=0, max_new_tokens=1)
    np.testing.assert_allclose(*(one.score(ids, mask) for one in both), atol=1e-3)
    np.testing.assert_allclose(*(one.step(np.array([6])) for one in both), **TOLERANCE)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("name", ["rope", "rope-grouped-normed", "learned"])
def test_narrow_weights_compute_what_their_numbers_say(name: str, bits: int) -> None:
    """The torch model with the rounded numbers in its place: what is left is the rounding of activations to 8 bits."""
    model = language_model(name, spread=0.05, hidden_size=32)
    narrow = deployed(model, bits=bits)
    config: Any = model.backbone.config
    with torch.no_grad():
        for key in matrices(config, model.head_config):
            weight = model.get_parameter(key)
            if ".attention.output." in key:  # whose columns are padded between, so that its blocks are others
                continue
            weight.copy_(torch.from_numpy(to_blocks(weight.numpy(), bits=bits_of(key, bits)).values()))
    prompts = [some_ids(20, seed=row) for row in range(3)]
    found, wanted = (read_prompts(one, prompts, pad_id=0, max_new_tokens=1) for one in (narrow, TorchStepper(model)))
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("name", ["alibi", "alibi-sliding"])
def test_what_is_not_exported_is_refused_by_name(name: str) -> None:
    model = language_model(name)
    with pytest.raises(GnomonError, match="alibi"):
        graph_of(model)


def test_the_buffers_grow_with_the_text_and_keep_it() -> None:
    model = language_model("rope")
    both = [TorchStepper(model), deployed(model)]
    ids = np.array([some_ids(60), some_ids(60, seed=1)])
    for _ in range(4):  # past 64, 128 and 256 columns
        mask = np.ones(ids.shape, dtype=bool)
        np.testing.assert_allclose(*(one.prefill(ids, mask) for one in both), **TOLERANCE)
