"""gensim reads what we write, we read what it writes, and both measure the same vectors alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.vectors import Lines, WordVectors, evaluate, read_vectors, train, write_vectors
from gnomon.vectors.benchmarks import Pairs, Questions, packaged_sets
from gnomon.vectors.encode import encode
from vector_corpora import grouped_lines

gensim = pytest.importorskip("gensim")
datapath = pytest.importorskip("gensim.test.utils").datapath


@pytest.fixture(scope="module")
def learnt() -> WordVectors:
    """Vectors of made-up text."""
    return train(Lines(grouped_lines(300)), size=11, threads=1)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("ending", ["vec", "vec.gz"])
def test_gensim_reads_our_word2vec_files(learnt: WordVectors, tmp_path: Path, binary: bool, ending: str) -> None:
    path = tmp_path / f"ours.{ending.removesuffix('.gz')}"
    write_vectors(learnt, path, format="word2vec-binary" if binary else "word2vec")
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(path), binary=binary)
    assert theirs.index_to_key == list(learnt.words)
    assert np.array_equal(theirs.vectors, learnt.matrix())


def test_gensim_reads_our_glove_file(learnt: WordVectors, tmp_path: Path) -> None:
    write_vectors(learnt, tmp_path / "ours.txt", format="glove")
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / "ours.txt"), no_header=True)
    assert np.array_equal(theirs.vectors, learnt.matrix())


@pytest.mark.parametrize("options", [{"binary": False}, {"binary": True}, {"write_header": False}])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_we_read_gensims_files(tmp_path: Path, options: dict[str, Any], ending: str) -> None:
    theirs = gensim.models.KeyedVectors(7)
    words = [f"w{number}" for number in range(40)] + ["naïve", "北京"]
    theirs.add_vectors(words, np.random.default_rng(0).normal(size=(42, 7)).astype(np.float32))
    path = tmp_path / f"theirs{ending}"
    theirs.save_word2vec_format(str(path), **options)
    ours = read_vectors(path)
    assert list(ours.words) == words
    np.testing.assert_allclose(ours.matrix(), theirs.vectors, rtol=1e-6)


def test_neighbours_similarities_and_analogies_are_gensims(learnt: WordVectors, tmp_path: Path) -> None:
    write_vectors(learnt, tmp_path / "ours.bin", format="word2vec-binary")
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / "ours.bin"), binary=True)
    for (word, cosine), (their_word, their_cosine) in zip(
        learnt.nearest("cat"), theirs.most_similar("cat"), strict=True
    ):
        assert word == their_word
        assert cosine == pytest.approx(their_cosine, abs=1e-5)
    assert learnt.similarity("cat", "red") == pytest.approx(float(theirs.similarity("cat", "red")), abs=1e-5)
    ours = [word for word, _ in learnt.analogy("cat", "dog", "red", count=5)]
    assert ours == [word for word, _ in theirs.most_similar(positive=["dog", "red"], negative=["cat"], topn=5)]


def test_the_packaged_sets_give_gensims_figures(tmp_path: Path) -> None:
    sets = packaged_sets()
    assert [one.name for one in sets] == ["WordSim-353", "SimLex-999", "Google analogies"]
    words = sorted({word.lower() for one in sets for row in one.rows for word in row if isinstance(word, str)})
    table = np.random.default_rng(0).normal(size=(len(words), 20)).astype(np.float32)
    stems = {word: number for number, word in enumerate({word[:3]: None for word in words})}
    table += np.random.default_rng(1).normal(size=(len(stems), 20)).astype(np.float32)[[stems[w[:3]] for w in words]]
    vectors = WordVectors(words, table)
    write_vectors(vectors, tmp_path / "ours.bin", format="word2vec-binary")
    theirs = gensim.models.KeyedVectors.load_word2vec_format(str(tmp_path / "ours.bin"), binary=True)
    similar, _, answered = evaluate(vectors, sets)
    assert isinstance(sets[0], Pairs)
    assert isinstance(sets[2], Questions)
    _, rho, unknown = theirs.evaluate_word_pairs(datapath("wordsim353.tsv"))
    assert similar.value == pytest.approx(rho.statistic, abs=1e-6)
    assert unknown == 0
    accuracy, _ = theirs.evaluate_word_analogies(datapath("questions-words.txt"))
    assert answered.value == pytest.approx(accuracy, abs=2e-4)
    assert answered.value > 0.01


def test_counts_and_subsampling_are_gensims() -> None:
    lines = [*grouped_lines(200), "cat cat cat cat dog rare"]
    theirs = gensim.models.Word2Vec(min_count=5, sample=1e-3)
    theirs.build_vocab([line.split() for line in lines])
    vocabulary = encode(Lines(lines), min_count=5).vocabulary
    assert {word: theirs.wv.get_vecattr(word, "count") for word in theirs.wv.index_to_key} == dict(
        zip(vocabulary.words, vocabulary.counts.tolist(), strict=True)
    )
    ours = vocabulary.keep_chances(1e-3)
    for word, chance in zip(vocabulary.words, ours, strict=True):
        assert chance == pytest.approx(theirs.wv.get_vecattr(word, "sample_int") / 2**32, rel=1e-5)
