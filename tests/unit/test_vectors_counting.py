"""Reading and counting, against Python's own str.split and Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.vectors.cooccurrence import as_glove, as_word2vec, cooccurrences
from gnomon.vectors.counting import count_pairs
from gnomon.vectors.encode import Corpus, encode
from gnomon.vectors.source import Lines
from gnomon.vectors.vocabulary import Vocabulary, most_frequent

QUICK = settings(deadline=None, derandomize=True, max_examples=60)
_LETTERS = st.sampled_from([*"abcé吃", " ", "\t", "\n", "\u00a0", "\u3000", "\u2003", "\u200b", "\x85", "😀"])


def sentences(corpus: Corpus) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for number in corpus.ids.tolist():
        if number < 0:
            found.append([])
        else:
            found[-1].append(corpus.vocabulary.words[number])
    return found[:-1]


@QUICK
@given(st.text(_LETTERS, max_size=200))
def test_words_are_those_of_str_split(text: str) -> None:
    lines = text.split("\n")
    expected = [line.split() for line in lines if line.split()]
    if len({word for line in expected for word in line}) < 2:
        with pytest.raises(GnomonError):
            encode(Lines(lines), min_count=1)
        return
    corpus = encode(Lines(lines), min_count=1)
    assert sentences(corpus) == expected
    counts = Counter(word for line in expected for word in line)
    assert dict(zip(corpus.vocabulary.words, corpus.vocabulary.counts.tolist(), strict=True)) == counts
    assert corpus.sentences == len(expected)
    assert corpus.words_read == sum(counts.values())


@QUICK
@given(st.lists(st.text("ab吃北", min_size=1, max_size=30), min_size=2, max_size=50).filter(lambda w: len(set(w)) > 1))
def test_long_words_are_told_apart(words: list[str]) -> None:
    assert sentences(encode(Lines([" ".join(words)]), min_count=1)) == [words]


def test_tables_grow_with_the_vocabulary() -> None:
    words = [f"word{number}" for number in range(150_000)]
    corpus = encode(Lines([" ".join(words[start : start + 1000]) for start in range(0, len(words), 1000)]), min_count=1)
    assert sorted(corpus.vocabulary.words) == sorted(words)
    assert [word for sentence in sentences(corpus) for word in sentence] == words


def test_characters_instead_of_words() -> None:
    corpus = encode(Lines(["我喜欢 你", "a你"]), min_count=1, by_character=True)
    assert sentences(corpus) == [list("我喜欢你"), ["a", "你"]]


def test_rare_words_are_dropped_and_empty_sentences_with_them() -> None:
    corpus = encode(Lines(["a b a", "c", "b a d"]), min_count=2)
    assert sentences(corpus) == [["a", "b", "a"], ["b", "a"]]
    assert corpus.words_read == 7
    assert corpus.vocabulary.counts.tolist() == [3, 2]


def test_words_of_equal_count_stay_in_the_order_of_their_appearance() -> None:
    assert encode(Lines(["z y x x"]), min_count=1).vocabulary.words == ["x", "z", "y"]
    assert most_frequent(np.array([2, 3, 3, 1]), 2, words_read=9).tolist() == [1, 2, 0]


def test_keep_chances_are_word2vecs() -> None:
    vocabulary = Vocabulary(["the", "cat"], np.array([9000, 1000]))
    threshold = 1e-2 * 10_000
    expected = [(np.sqrt(count / threshold) + 1) * threshold / count for count in (9000, 1000)]
    np.testing.assert_allclose(vocabulary.keep_chances(1e-2), np.minimum(expected, 1))
    assert vocabulary.keep_chances(0).tolist() == [1, 1]


@pytest.mark.parametrize("falling", [as_word2vec, as_glove])
@pytest.mark.parametrize("threads", [1, 3])
def test_cooccurrences_equal_counting_by_hand(falling: object, threads: int) -> None:
    source = np.random.default_rng(1)
    lines = [" ".join(f"w{number}" for number in source.zipf(1.3, 40) % 300) for _ in range(60)]
    corpus = encode(Lines(lines), min_count=1)
    expected = np.zeros((len(corpus.vocabulary),) * 2)
    for sentence in sentences(corpus):
        ids = [corpus.vocabulary.index[word] for word in sentence]
        for here, word in enumerate(ids):
            for there in range(max(0, here - 4), min(len(ids), here + 5)):
                if there != here:
                    expected[word, ids[there]] += falling(abs(here - there), 4)  # type: ignore[operator]
    found = cooccurrences(corpus, window=4, falling=falling, threads=threads)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5)


def test_pairs_beyond_the_square_go_to_a_table_that_stops_when_it_is_full() -> None:
    ids = np.array([5, 6, 7, 8, 9, -1], np.int32)
    square, keys, sums = np.zeros((2, 2)), np.zeros(8, np.uint64), np.zeros(8)
    place, used = count_pairs(ids, 0, len(ids), np.array([0.0, 1.0, 0.5]), 0, 1, square, 10, keys, sums, 0)
    assert (place, used) == (2, 4)
    found = {divmod(int(key) - 1, 10): total for key, total in zip(keys, sums, strict=True) if key}
    assert found == {(5, 6): 1.0, (5, 7): 0.5, (6, 7): 1.0, (6, 8): 0.5}
