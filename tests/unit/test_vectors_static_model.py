"""Word vectors as the start of a static model: the tokenizer of words, the rows, the folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gnomon.formats.check import check_model_dir
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_training import train_on
from gnomon.vectors import WordVectors
from gnomon.vectors.static_model import COMMON, token_table, write_static_model
from gnomon.vectors.word_tokenizer import word_tokenizer

WORDS = ["the", "cat", "don't", "e-mail", "?", "café", "u.s"]


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    names = {number: token for token, number in tokenizer.vocabulary.items()}
    return [names[number] for number in tokenizer.encode(text).ids]


@pytest.fixture
def vectors() -> WordVectors:
    table = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)
    return WordVectors(WORDS, table, counts=np.array([100, 50, 5, 5, 5, 5, 5]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The CAT?", ["the", "cat", "?"]),
        ("don't e-mail the café!", ["don't", "e-mail", "the", "café", "[UNK]"]),
        ("U.S. cat", ["u.s", "[UNK]", "cat"]),
        ("the [MASK] dog", ["the", "[MASK]", "[UNK]"]),
        ("", []),
    ],
)
def test_words_and_signs_are_parted(text: str, expected: list[str]) -> None:
    assert pieces(word_tokenizer(WORDS), text) == expected


def test_capitals_stay_where_the_words_have_some() -> None:
    assert pieces(word_tokenizer(["Paris", "the"]), "Paris paris The the") == ["Paris", "[UNK]", "[UNK]", "the"]


def test_a_vocabulary_with_endings_apart_has_them_parted() -> None:
    assert pieces(word_tokenizer(["dog", "'s", "tail"]), "dog's tail") == ["dog", "'s", "tail"]


def test_characters() -> None:
    assert pieces(word_tokenizer(["我", "喜"], by_character=True), "我喜 欢") == ["我", "喜", "[UNK]"]


def test_rows_go_by_the_tokenizers_ids(vectors: WordVectors) -> None:
    table = token_table(vectors)
    for word in WORDS:
        np.testing.assert_array_equal(table.vectors[table.tokenizer.vocabulary[word]], vectors[word])
    for special in (table.tokenizer.pad_id, table.tokenizer.unk_id, table.tokenizer.mask_id):
        assert special is not None
        assert not table.vectors[special].any()
    shares = np.exp(table.scores[[table.tokenizer.vocabulary[word] for word in ("the", "café")]])
    np.testing.assert_allclose(shares, COMMON / (COMMON + np.array([100, 5]) / 175), rtol=1e-5)


def test_vectors_of_tokens_keep_their_tokenizer() -> None:
    tokenizer = train_on(["a cat sat on a mat, a dog ate"] * 5, kind="wordpiece", size=40).tokenizer
    known = [token for token in tokenizer.vocabulary if token.startswith("a")]
    table = np.ones((len(known), 3), np.float32)
    start = token_table(WordVectors(known, table, tokenizer_json=tokenizer.to_json()))
    assert start.vectors.shape == (tokenizer.vocab_size, 3)
    assert start.vectors.any(axis=1).sum() == len(known)
    assert pieces(start.tokenizer, "a cat") == pieces(tokenizer, "a cat")


def test_the_folder_is_whole_and_a_model_can_start_from_it(vectors: WordVectors, tmp_path: Path) -> None:
    write_static_model(vectors, tmp_path / "static")
    report = check_model_dir(tmp_path / "static")
    assert report.problems == ()
    assert (report.model_type, report.labels) == ("gnomon_static", ())
    folders = pytest.importorskip("gnomon.models.folders", exc_type=ImportError)
    model = folders.load_model(tmp_path / "static", labels=["no", "yes"])
    assert model.labels == ("no", "yes")
    rows = model.backbone.tokens.weight.detach().numpy()
    np.testing.assert_array_equal(rows[model.tokenizer.vocabulary["cat"]], vectors["cat"])
    assert len(model.predict(["the cat?", ""])) == 2


def test_a_folder_of_vectors_is_checked_too(vectors: WordVectors, tmp_path: Path) -> None:
    vectors.save(tmp_path / "vectors")
    assert check_model_dir(tmp_path / "vectors").problems == ()
    (tmp_path / "vectors" / "model.safetensors").write_bytes(b"short")
    assert check_model_dir(tmp_path / "vectors").problems
