"""Files of vectors that are missing, cut short, or not what they promise."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from gnomon.errors import GnomonError
from gnomon.vectors import WordVectors, read_vectors, write_vectors


@pytest.fixture
def vectors() -> WordVectors:
    """A few words."""
    table = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    return WordVectors(["the", "cat", "sat", "on", "a", "mat"], table, table + 1, np.arange(6))


def refused(path: Path, message: str) -> None:
    with pytest.raises(GnomonError, match=message) as found:
        read_vectors(path)
    assert str(path.name) in found.value.message
    assert found.value.hint


def test_a_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "none.vec", "there are no vectors")


@pytest.mark.parametrize("form", ["word2vec", "word2vec-binary"])
def test_cut_anywhere_a_file_with_a_header_is_refused(vectors: WordVectors, tmp_path: Path, form: str) -> None:
    path = tmp_path / "cut.vec"
    write_vectors(vectors, path, format=form)  # type: ignore[arg-type]
    whole = path.read_bytes()
    for length in [*range(0, len(whole) - 4, 7), len(whole) - 5]:
        path.write_bytes(whole[:length])
        with pytest.raises(GnomonError):
            read_vectors(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"3 2\na 1 2\nb 3 4\n", "cut short"),
        (b"1 2\na 1 2\nb 3 4\n", "more than the 1 words"),
        (b"0 2\n", "makes no sense"),
        (b"2 0\na\nb\n", "makes no sense"),
        (b"999999999 300\na 1 2\n", "too few"),
        (b"2 2\na 1 2\nb 3 x\n", ":3: a word and 2 numbers"),
        (b"2 2\na 1 2\nb 3\n", ":3: a word and 2 numbers"),
        (b"a 1 2\nb 3 4 nothing\n", ":2: a word and 2 numbers"),
        (b"just\nwords\n", "a word and its numbers"),
        (b"caf\xe9 1 2\nb 3 4\n", "is not UTF-8"),
    ],
)
def test_files_that_are_not_what_they_promise(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.vec"
    path.write_bytes(content)
    refused(path, message)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "model.kv"
    path.write_bytes(pickle.dumps({"a": 1}))
    refused(path, "is a pickle")


def test_a_word_given_twice_keeps_its_first_vector(tmp_path: Path) -> None:
    path = tmp_path / "twice.vec"
    path.write_text("3 1\na 1\nb 2\na 3\n", encoding="utf-8")
    assert read_vectors(path).matrix().ravel().tolist() == [1, 2]


def test_a_word_with_white_space_does_not_fit_other_formats(tmp_path: Path) -> None:
    vectors = WordVectors(["new york", "b"], np.zeros((2, 3), np.float32))
    with pytest.raises(GnomonError, match="holds white space"):
        write_vectors(vectors, tmp_path / "out.vec", format="word2vec")
    assert not (tmp_path / "out.vec").exists()
    vectors.save(tmp_path / "out")
    assert list(read_vectors(tmp_path / "out").words) == ["new york", "b"]


@pytest.mark.parametrize("damage", ["truncated", "other words", "other size", "no list", "other kind", "no table"])
def test_a_damaged_folder(vectors: WordVectors, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "out"
    vectors.save(folder)
    weights, words, config = folder / "model.safetensors", folder / "vocabulary.json", folder / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-10])
    elif damage == "other words":
        words.write_text('["the", "cat"]', encoding="utf-8")
    elif damage == "other size":
        config.write_text(json.dumps(content | {"hidden_size": 5}), encoding="utf-8")
    elif damage == "no list":
        words.write_text('{"the": 0}', encoding="utf-8")
    elif damage == "other kind":
        config.write_text(json.dumps(content | {"model_type": "bert"}), encoding="utf-8")
    else:
        config.write_text(json.dumps(content | {"gnomon": {"table": "middle"}}), encoding="utf-8")
    with pytest.raises(GnomonError):
        read_vectors(folder)
