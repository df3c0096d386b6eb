"""Texts to predictions: order, padding, cutting, empty texts, and many threads at once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from families import LABELS, TEXTS, WORDS, small_model, small_tokenizer
from gnomon.deploy.deploy import deploy
from gnomon.distillation.teacher import token_ids
from gnomon.errors import GnomonError
from gnomon.formats.modeldir import read_config, update_gnomon_section
from gnomon.runtime.predictor import Predictor, is_deployed, load_predictor, runtime_files, softmax
from gnomon.text.tokenizer import Tokenizer


class SumScorer:
    """Logits that depend on a row's real ids alone; remembers the shapes it was given."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def logits(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        assert ids.dtype == np.int64
        mask = np.ones(ids.shape, np.bool_) if mask is None else mask
        assert mask.dtype == np.bool_
        assert mask[:, 0].all()
        assert (mask[:, :-1] >= mask[:, 1:]).all(), "real tokens come first"
        self.shapes.append(ids.shape)
        total = (ids * mask).sum(axis=1).astype(np.float32)
        return np.stack([total, total % 7, -total], axis=1)


def predictor(scorer: SumScorer | None = None, *, labels: Sequence[str] = LABELS, max_length: int = 12) -> Predictor:
    return Predictor(small_tokenizer(), scorer or SumScorer(), labels=labels, max_length=max_length)


texts = st.lists(st.lists(st.sampled_from(WORDS[5:]), max_size=16).map(" ".join), max_size=12)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(texts=texts, batch_size=st.integers(1, 6))
def test_answers_come_in_the_order_of_the_texts(texts: list[str], batch_size: int) -> None:
    one = predictor()
    together = one.logits(texts, batch_size=batch_size)
    assert together.shape == (len(texts), 3)
    assert together.dtype == np.float32
    for row, text in zip(together, texts, strict=True):
        ids = one.tokenizer.encode(text, max_length=12).ids
        assert row[0] == sum(ids)
        assert row[0] == one.logits(text)[0, 0]


def test_batches_are_padded_to_their_own_longest() -> None:
    scorer = SumScorer()
    predictor(scorer).logits(["a b c d", "a", "a b c", "b"], batch_size=2)
    assert scorer.shapes == [(2, 3), (2, 6)]


def test_one_string_is_a_list_of_one() -> None:
    assert predictor().predict("a b") == predictor().predict(["a b"])
    assert len(predictor().predict("a b")) == 1
    assert predictor().predict(("a", "b")) == predictor().predict(["a", "b"])


def test_no_texts_give_no_predictions() -> None:
    assert predictor().predict([]) == []
    assert predictor().logits([]).shape == (0, 3)


def test_what_was_cut_is_flagged() -> None:
    flags = [one.truncated for one in predictor(max_length=5).predict(["a b c", "a b c d", "a"])]
    assert flags == [False, True, False]


def test_an_empty_text_is_answered_even_without_special_tokens() -> None:
    class Bare:
        unk_id: int | None = 1
        pad_id = 0

        def encode(self, text: str, *, max_length: int) -> SimpleNamespace:
            return SimpleNamespace(ids=[len(word) for word in text.split()], truncated=False, unknown=0)

        def encode_batch(self, texts: Sequence[str], *, max_length: int) -> list[SimpleNamespace]:
            return [self.encode(text, max_length=max_length) for text in texts]

    tokenizer = Bare()
    one = Predictor(tokenizer, SumScorer(), labels=LABELS, max_length=9)  # type: ignore[arg-type]
    assert one.logits(["", "bb ccc", ""])[:, 0].tolist() == [1, 5, 1]
    tokenizer.unk_id = None
    assert one.logits("")[0, 0] == 0


def test_probabilities_are_a_distribution_over_the_labels() -> None:
    for one in predictor().predict(list(TEXTS)):
        assert tuple(one.probabilities) == LABELS
        assert sum(one.probabilities.values()) == pytest.approx(1)
        assert one.probabilities[one.label] == max(one.probabilities.values())


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=6), st.floats(-1e3, 1e3))
def test_softmax_is_stable_and_unmoved_by_a_constant(row: list[float], constant: float) -> None:
    found = softmax(np.array([row], dtype=np.float32))
    assert found.dtype == np.float64
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
    np.testing.assert_allclose(softmax(np.array([row]) + constant), softmax(np.array([row])), atol=1e-6)


def test_worked_examples() -> None:
    np.testing.assert_allclose(softmax(np.array([[1.0, 0.0]])), [[0.7311, 0.2689]], atol=5e-5)
    np.testing.assert_allclose(
        softmax(np.array([[2.0, 1.0, 0.0, -1.0]])), [[0.6439, 0.2369, 0.0871, 0.0321]], atol=5e-5
    )


def test_names_that_do_not_fit_the_outputs_are_refused() -> None:
    with pytest.raises(GnomonError, match="3 outputs and 2 label names"):
        predictor(labels=("a", "b")).predict("a")


@pytest.mark.parametrize("name", ["bert", "lstm", "static-ngrams"])
def test_many_threads_get_the_answers_of_one(name: str, tmp_path: Path) -> None:
    small_model(name).save(tmp_path / "m")
    deploy(tmp_path / "m", check_texts=TEXTS, threads=1)
    one = load_predictor(tmp_path / "m", threads=2)
    expected = {text: one.logits(text) for text in TEXTS}
    together = one.logits(TEXTS)

    def ask(seed: int) -> None:
        for _ in range(40):
            text = random.Random(seed).choice(TEXTS)
            np.testing.assert_array_equal(one.logits(text), expected[text])
        np.testing.assert_array_equal(one.logits(TEXTS), together)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(ask, range(48)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model("static").save(tmp_path / "m")
    deploy(tmp_path / "m", check_texts=TEXTS)
    return tmp_path / "m"


def test_a_folder_that_is_not_deployed_says_what_to_do(tmp_path: Path) -> None:
    small_model("static").save(tmp_path / "m")
    assert not is_deployed(read_config(tmp_path / "m"))
    with pytest.raises(GnomonError, match="names no runtime") as caught:
        load_predictor(tmp_path / "m")
    assert "gnomon[train]" in caught.value.hint


def test_a_run_folder_means_its_model(folder: Path) -> None:
    (folder.parent / "run.json").write_text('{"status": "finished"}')
    folder.rename(folder.parent / "model")
    assert load_predictor(folder.parent).labels == LABELS


@pytest.mark.parametrize("runtime", ["../other.onnx", "/etc/passwd", "onnx/none.onnx"])
def test_a_runtime_elsewhere_is_refused(folder: Path, runtime: str) -> None:
    update_gnomon_section(folder, runtime=runtime)
    for act in (load_predictor, runtime_files):
        with pytest.raises(GnomonError, match=r"lies outside|is missing"):
            act(folder)


@pytest.mark.parametrize("name", ["bert", "static"])
def test_a_damaged_runtime_is_explained(name: str, tmp_path: Path) -> None:
    small_model(name).save(tmp_path / "m")
    runtime = tmp_path / "m" / deploy(tmp_path / "m", check_texts=TEXTS, threads=1).runtime
    runtime.write_bytes(runtime.read_bytes()[:-40])
    with pytest.raises(GnomonError) as caught:
        load_predictor(tmp_path / "m")
    assert caught.value.hint


class IdsScorer(SumScorer):
    """Remembers every row of ids it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: set[tuple[int, ...]] = set()

    def logits(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        mask = np.ones(ids.shape, np.bool_) if mask is None else mask
        self.rows |= {tuple(row[real].tolist()) for row, real in zip(ids, mask, strict=True)}
        return super().logits(ids, mask)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.text("abc dé中[CLS]", max_size=40), min_size=1, max_size=5))
def test_a_text_is_served_with_the_ids_it_was_trained_with(texts: list[str]) -> None:
    model = small_model("static")
    trained = token_ids(model, texts)
    together, alone = IdsScorer(), IdsScorer()
    read_again = Tokenizer.from_json(model.tokenizer.to_json(), model.tokenizer.config)
    for scorer, batches in ((together, [texts]), (alone, [[text] for text in texts])):
        served = Predictor(read_again, scorer, labels=LABELS, max_length=model.max_length)
        for batch in batches:
            served.logits(batch)
    assert together.rows == alone.rows == set(map(tuple, trained))
    if not any("[CLS]" in text for text in texts):
        assert all(row.count(model.tokenizer.cls_id) == 1 for row in trained)
