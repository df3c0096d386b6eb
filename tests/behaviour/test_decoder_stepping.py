"""Reading on from a state gives what reading everything again gives: every family, every position scheme."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding.generate import Settings, generate
from gnomon.decoding.stepper import read_prompts
from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.folders import load_language_model
from gnomon.models.stepper import TorchStepper, lay_out_for_steps
from language_models import CONTEXT, each_language_model, greedy, language_model, masked_language_model, some_ids
from table_stepper import RowStepper

TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}
quick = settings(deadline=None, derandomize=True, max_examples=12)


def whole(model: Model, ids: list[int]) -> np.ndarray:
    """Scores [T, V] of what follows each id, in one pass without a state."""
    with torch.inference_mode():
        hidden = model.backbone(torch.tensor([ids])).hidden
        return model.head.logits(model.head.features(hidden, None))[0].numpy()


@each_language_model
def test_500_greedy_tokens_are_those_of_recomputing(name: str) -> None:
    model = language_model(name)
    stepper = TorchStepper(model)
    ids, steps = some_ids(4), []
    logits = read_prompts(stepper, [ids], pad_id=0, max_new_tokens=500)
    for _ in range(500):
        steps.append(logits[0])
        ids.append(int(logits[0].argmax()))
        logits = stepper.step(np.array(ids[-1:]))
    again = whole(model, ids)[3:-1]
    assert again.argmax(axis=1).tolist() == ids[4:]
    np.testing.assert_allclose(np.stack(steps), again, **TOLERANCE)


@each_language_model
@quick
@given(data=st.data())
def test_any_calls_give_the_scores_of_recomputing(name: str, data: st.DataObject) -> None:
    model = language_model(name)
    stepper, reference = TorchStepper(model), RowStepper(lambda ids: whole(model, list(ids)))
    rows = data.draw(st.integers(1, 3))
    prompts = [some_ids(data.draw(st.integers(1, 9)), seed=row) for row in range(rows)]
    chunk = data.draw(st.integers(1, 9))
    first = [read_prompts(one, prompts, pad_id=0, max_new_tokens=1, chunk=chunk) for one in (stepper, reference)]
    np.testing.assert_allclose(*first, **TOLERANCE)
    for number in range(data.draw(st.integers(0, 5))):
        call = data.draw(st.sampled_from(["step", "append", "reorder", "trim"]))
        columns = reference.ids.shape[1]
        if call == "reorder":
            chosen = np.array(data.draw(st.lists(st.integers(0, rows - 1), min_size=1, max_size=4)))
            rows = len(chosen)
            stepper.reorder(chosen)
            reference.reorder(chosen)
        elif call == "trim":
            keep = data.draw(st.integers(max(1, int((~reference.mask).sum(1).max()) + 1), columns))
            stepper.trim(keep)
            reference.trim(keep)
        width = 3 if call == "append" else 1
        ids = np.array([some_ids(width, seed=10 * number + row) for row in range(rows)])
        if width == 1:
            np.testing.assert_allclose(stepper.step(ids[:, 0]), reference.step(ids[:, 0]), **TOLERANCE)
        else:
            real = np.ones_like(ids, dtype=bool)
            np.testing.assert_allclose(stepper.prefill(ids, real), reference.prefill(ids, real), **TOLERANCE)


@each_language_model
def test_batch_mates_left_padding_and_chunks_change_no_token(name: str) -> None:
    stepper = TorchStepper(language_model(name))
    prompts = [some_ids(length, seed=length) for length in (7, 1, 12, 4)]
    alone = [greedy(stepper, [prompt], 30)[0] for prompt in prompts]
    assert greedy(stepper, prompts, 30) == alone
    for chunk in (1, 5):
        assert greedy(stepper, prompts, 30, chunk) == alone


@each_language_model
def test_scores_of_given_text_are_log_probabilities(name: str) -> None:
    model = language_model(name)
    texts = [some_ids(length, seed=length) for length in (9, 1, 5)]
    ids, mask = np.zeros((3, 9), np.int64), np.zeros((3, 9), bool)
    for row, text in enumerate(texts):
        ids[row, : len(text)], mask[row, : len(text)] = text, True
    reference = RowStepper(lambda text: whole(model, list(text))).score(ids, mask)
    np.testing.assert_allclose(TorchStepper(model).score(ids, mask), reference, atol=1e-5)


@each_language_model
def test_a_saved_model_generates_the_same(name: str, tmp_path: Path) -> None:
    model = language_model(name)
    model.save(tmp_path / "m")
    loaded = load_language_model(tmp_path / "m")
    assert loaded.load_report.unused == loaded.load_report.missing == ()
    assert (loaded.head_config, loaded.backbone.config) == (model.head_config, model.backbone.config)
    prompts = ["what is a b", "who", "", "x y z is where ?"]
    wanted = Settings(max_new_tokens=12, end_ids=())
    one, other = (generate(TorchStepper(m), m.tokenizer, prompts, wanted) for m in (model, loaded))
    assert one == other


def test_the_cache_holds_one_new_key_and_value_a_step() -> None:
    """C6: the prompt [我, 喜欢] leaves 2 entries, then 3, then 4; the same token twice has two entries."""
    model = language_model("rope-grouped-normed")
    state = model.backbone.init_state()
    model.backbone(torch.tensor([[7, 8]]), state=state)
    kept = [memory._keys[:, :, :2].clone() for memory in state.memories]  # type: ignore[attr-defined]
    for length, token in ((3, 7), (4, 9)):
        model.backbone(torch.tensor([[token]]), state=state)
        assert state.length == length
    for memory, before in zip(state.memories, kept, strict=True):
        assert torch.equal(memory._keys[:, :, :2], before), "earlier keys never change"  # type: ignore[attr-defined]
        assert not torch.equal(memory._keys[:, :, 0], memory._keys[:, :, 2]), "one token at two positions"  # type: ignore[attr-defined]


@each_language_model
def test_laid_out_by_columns_a_model_scores_and_saves_the_same(name: str, tmp_path: Path) -> None:
    model, plain = language_model(name), language_model(name)
    ids = np.array([some_ids(7), some_ids(7, seed=1)])
    mask = np.ones_like(ids, dtype=bool)
    expected = TorchStepper(plain).prefill(ids, mask)
    np.testing.assert_allclose(
        TorchStepper(lay_out_for_steps(model)).prefill(ids, mask), expected, atol=1e-5, rtol=1e-5
    )
    model.save(tmp_path / "saved")
    saved = load_language_model(tmp_path / "saved").state_dict()
    assert all(torch.equal(tensor, saved[key]) for key, tensor in plain.state_dict().items())


def test_a_mode_is_left_as_it_was_and_dropout_is_off() -> None:
    model = language_model("learned").train()
    stepper = TorchStepper(model)
    ids = np.array([some_ids(5)])
    first = stepper.prefill(ids, np.ones_like(ids, dtype=bool))
    stepper.trim(0)
    assert np.array_equal(first, stepper.prefill(ids, np.ones_like(ids, dtype=bool)))
    assert model.training


@pytest.mark.parametrize("name", ["learned", "rope"])
def test_beyond_the_context_is_refused(name: str) -> None:
    stepper = TorchStepper(language_model(name))
    assert stepper.max_length == CONTEXT
    with pytest.raises(GnomonError, match="context"):
        read_prompts(stepper, [some_ids(500)], pad_id=0, max_new_tokens=30)


def test_learned_positions_end_with_their_table() -> None:
    model = language_model("learned")
    with pytest.raises(GnomonError, match=f"{CONTEXT} positions"):
        model.backbone(torch.zeros(1, CONTEXT + 1, dtype=torch.long))


def test_what_cannot_step_is_refused() -> None:
    with pytest.raises(GnomonError, match="masked language head"):
        TorchStepper(masked_language_model())
    encoder = masked_language_model().backbone
    with pytest.raises(GnomonError, match="whole texts"):
        encoder.init_state()
    with pytest.raises(GnomonError, match="whole texts"):
        encoder(torch.tensor([[5]]), state=language_model("rope").backbone.init_state())
    with pytest.raises(GnomonError, match="no encoder"):
        TorchStepper(language_model("rope")).start(np.array([[5]]), np.array([[True]]))


@pytest.mark.parametrize("wrong", [-1, 1000])
def test_an_id_beyond_the_vocabulary_is_named(wrong: int) -> None:
    stepper = TorchStepper(language_model("rope"))
    with pytest.raises(GnomonError, match=str(wrong)):
        stepper.step(np.array([wrong]))


def test_weights_that_are_no_numbers_are_reported() -> None:
    model = language_model("rope")
    with torch.no_grad():
        model.backbone.token_embedding.weight[6] = float("nan")
    with pytest.raises(GnomonError, match="no numbers"):
        greedy(TorchStepper(model), [[6]], 2)
