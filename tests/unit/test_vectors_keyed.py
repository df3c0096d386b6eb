"""Looking up, comparing and storing vectors; worked examples C8 and C9."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gnomon.errors import GnomonError
from gnomon.vectors import UnknownWord, WordVectors
from gnomon.vectors.baselines import one_hot
from gnomon.vectors.projection import as_svg, neighbourhoods, project

WORDS = ["man", "woman", "king", "queen", "apple"]


@pytest.fixture
def royal() -> WordVectors:
    """Two directions, royalty and womanhood, and an apple apart from both."""
    table = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1], [-1, -1, 0.2]], np.float32)
    return WordVectors(WORDS, table, 2 * table, np.arange(5, 0, -1))


def test_worked_example_c8() -> None:
    """One-hot: 北京 is [0, 0, 1] among 吃, 苹果, 北京, and any two words have similarity 0."""
    vectors = one_hot(["吃", "苹果", "北京"])
    assert vectors.units[vectors.index["北京"]].toarray().tolist() == [[0, 0, 1]]
    first, second = np.array([0, 0, 1]), np.array([1, 2, 2])
    assert vectors.cosines(first, second).tolist() == [0, 0, 0]
    assert vectors.cosines(first, first).tolist() == [1, 1, 1]


def test_worked_example_c9(royal: WordVectors) -> None:
    """The mean of word vectors does not know the order of words."""
    assert np.array_equal(royal[["man", "king", "woman"]].mean(axis=0), royal[["woman", "king", "man"]].mean(axis=0))


def test_lookup(royal: WordVectors) -> None:
    assert "king" in royal
    assert "King" not in royal
    assert royal["king"].tolist() == [1, 0, 1]
    assert royal[["king", "man"]].shape == (2, 3)
    assert royal[[]].shape == (0, 3)
    assert (len(royal), royal.size) == (5, 3)


def test_similarity_and_analogy(royal: WordVectors) -> None:
    assert royal.similarity("man", "man") == pytest.approx(1)
    assert royal.similarity("man", "king") == pytest.approx(1 / np.sqrt(2))
    assert royal.analogy("man", "king", "woman")[0][0] == "queen"
    assert {word for word, _ in royal.analogy("man", "king", "woman", count=9)} == {"queen", "apple"}


def test_nearest_is_what_sorting_all_cosines_gives() -> None:
    source = np.random.default_rng(0)
    vectors = WordVectors([f"w{number}" for number in range(500)], source.normal(size=(500, 20)).astype(np.float32))
    table = vectors.matrix() / np.linalg.norm(vectors.matrix(), axis=1, keepdims=True)
    order = np.argsort(-(table @ table[7]))[1:11]
    found = vectors.nearest("w7")
    assert [word for word, _ in found] == [f"w{number}" for number in order]
    np.testing.assert_allclose([cosine for _, cosine in found], (table @ table[7])[order], rtol=1e-5)
    assert vectors.nearest(vectors["w7"], count=1)[0][0] == "w7"
    assert len(vectors.nearest("w7", count=10_000)) == 499


def test_a_zero_vector_is_near_nothing_and_gives_no_nan() -> None:
    vectors = WordVectors(["a", "b"], np.array([[0, 0], [1, 1]], np.float32))
    assert vectors.similarity("a", "b") == 0
    assert vectors.nearest("a") == [("b", 0.0)]


def test_either_table_or_their_sum(royal: WordVectors) -> None:
    assert royal.using("output")["king"].tolist() == [2, 0, 2]
    assert royal.using("sum")["king"].tolist() == [3, 0, 3]
    with pytest.raises(GnomonError, match="no sum table"):
        WordVectors(WORDS, royal.input).using("sum")


def test_an_unknown_word_is_answered_with_the_nearest_spelling(royal: WordVectors) -> None:
    with pytest.raises(UnknownWord, match="did you mean 'queen'"):
        royal["quen"]
    with pytest.raises(KeyError):
        royal.similarity("man", "zebra")
    with pytest.raises(GnomonError, match="did you mean 'king'"):
        royal.nearest("KING")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_saved_folder_comes_back(royal: WordVectors, tmp_path: Path, precision: str) -> None:
    royal.using("sum").save(tmp_path / "out", precision=precision)  # type: ignore[arg-type]
    again = WordVectors.load(tmp_path / "out")
    assert isinstance(again.input, np.memmap)
    assert again.input.dtype == precision
    assert again.table == "sum"
    np.testing.assert_allclose(again.matrix(), royal.using("sum").matrix(), rtol=1e-3)
    assert list(again.words) == WORDS
    assert again.counts is not None
    assert again.counts.tolist() == [5, 4, 3, 2, 1]
    assert again["king"].dtype == np.float32


def test_a_map_of_words(royal: WordVectors) -> None:
    points, kept = project(royal.matrix())
    assert points.shape == (5, 2)
    assert kept is not None
    assert 0.5 < kept <= 1
    assert np.array_equal(points, project(royal.matrix())[0])
    groups = neighbourhoods(royal, ["man", "queen"], around=1)
    assert groups["man"] == 0
    assert groups["queen"] == 1
    svg = as_svg(points, dict.fromkeys(["<man>", *WORDS[1:]], 0), title="words & all")
    assert svg.startswith("<svg")
    assert "&lt;man&gt;" in svg
    assert svg.count("<circle") == 5
    with pytest.raises(GnomonError, match="a map of 2 words"):
        project(royal.matrix()[:2])
