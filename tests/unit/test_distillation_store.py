"""The store: by content, whole or not at all, and honest about float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.distillation.store import Signal, SignalStore, text_key
from gnomon.errors import GnomonError


def opened(root: Path, *, fingerprint: str = "t", **settings: int) -> SignalStore:
    return SignalStore(root, fingerprint=fingerprint, settings=settings, num_labels=3)


def said(texts: list[str]) -> Signal:
    """A teacher whose answer is a function of the text alone."""
    keys = np.array([list(text_key(text)[:3]) for text in texts], np.float32).reshape(-1, 3)
    return Signal(keys / 16 - 8)


def test_signals_are_paired_by_content_whatever_the_order(tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(50)]
    store = opened(tmp_path)
    store.add(texts[:20], said(texts[:20]))
    store.add(texts[20:], said(texts[20:]))
    shuffled = [texts[i] for i in np.random.default_rng(0).permutation(50)]
    np.testing.assert_array_equal(store.read(shuffled).logits, said(shuffled).logits)
    again = opened(tmp_path)
    assert len(again) == 50
    np.testing.assert_array_equal(again.read(shuffled).logits, said(shuffled).logits)


def test_equal_texts_are_asked_about_once(tmp_path: Path) -> None:
    store = opened(tmp_path)
    assert store.missing(["b", "a", "b", "a", "c"]) == ["b", "a", "c"]
    store.add(["a"], said(["a"]))
    assert store.missing(["b", "a", "b"]) == ["b"]
    assert "a" in store
    assert store.read(["a", "a"]).logits.shape == (2, 3)


def test_other_teachers_and_settings_have_tables_of_their_own(tmp_path: Path) -> None:
    folders = {
        opened(tmp_path).folder,
        opened(tmp_path, fingerprint="u").folder,
        opened(tmp_path, max_length=64).folder,
        opened(tmp_path, max_length=128).folder,
    }
    assert len(folders) == 4


def test_hidden_vectors_are_kept_where_given(tmp_path: Path) -> None:
    hidden = np.arange(8, dtype=np.float32).reshape(2, 4)
    opened(tmp_path).add(["a", "b"], Signal(said(["a", "b"]).logits, hidden))
    read = opened(tmp_path).read(["b", "a"]).hidden
    assert read is not None
    np.testing.assert_array_equal(read, hidden[::-1])


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.floats(-20, 20, width=32), min_size=3, max_size=3))
def test_float16_is_within_the_error_it_states(tmp_path_factory: pytest.TempPathFactory, row: list[float]) -> None:
    store = opened(tmp_path_factory.mktemp("store"))
    logits = np.array([row], np.float32)
    store.add(["a"], Signal(logits))
    error = np.abs(store.read(["a"]).logits - logits).max()
    assert error == pytest.approx(store.rounding.largest_error)
    assert error <= 20 * 2**-11


def test_values_beyond_float16_are_clipped_and_counted(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.add(["a"], Signal(np.array([[1e6, -1e6, 1.0]], np.float32)))
    assert store.read(["a"]).logits.tolist() == [[65504.0, -65504.0, 1.0]]
    assert store.rounding.clipped == 2


def test_a_score_that_is_not_a_number_is_refused_with_its_text(tmp_path: Path) -> None:
    with pytest.raises(GnomonError, match="not finite for 1 texts; the first is 'b'"):
        opened(tmp_path).add(["a", "b"], Signal(np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)))
    assert len(opened(tmp_path)) == 0


def test_a_text_never_asked_about_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GnomonError, match="has not been asked about 'x'"):
        opened(tmp_path).read(["x"])
