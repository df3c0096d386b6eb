"""Reading sets of pairs and questions in the formats they are published in, and the figures computed from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gnomon.errors import GnomonError
from gnomon.vectors import WordVectors, evaluate
from gnomon.vectors.baselines import one_hot
from gnomon.vectors.benchmarks import Pairs, Questions, read_set, spearman


def written(folder: Path, text: str) -> Path:
    path = folder / "set.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "# comment\nlove\tsex\t6.77\ntiger\tcat\t7.35\n",
        "love sex 6.77\n\ntiger cat 7.35",
        ",word1,word2,similarity\n0,love,sex,6.77\n1,tiger,cat,7.35\n2,,,\n",
        "word1\tword2\tPOS\tSimLex999\nlove\tsex\tN\t6.77\ntiger\tcat\tN\t7.35\n",
        ",word1,word2,similarity\n0,love-n,sex-n,6.77\n1,tiger-n,cat-n,7.35\n",
        "love,sex,6.77\ntiger,cat,7.35\n",
        "\ufefflove\t sex \t6.77\r\ntiger\tcat\t7.35\r\n",
    ],
)
def test_pairs(tmp_path: Path, text: str) -> None:
    assert read_set(written(tmp_path, text)) == Pairs("set", (("love", "sex", 6.77), ("tiger", "cat", 7.35)))


@pytest.mark.parametrize(
    "text",
    [
        ": capitals\n雅典 希腊 北京 中国\n: family\nboy girl he she\n",
        ",type,word1,word2,word3,target\n0,capitals,雅典,希腊,北京,中国\n1,family,boy,girl,he,she\n",
    ],
)
def test_questions(tmp_path: Path, text: str) -> None:
    rows = (("雅典", "希腊", "北京", "中国"), ("boy", "girl", "he", "she"))
    assert read_set(written(tmp_path, text)) == Questions("set", rows, ("capitals", "family"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no pairs"),
        (": section\n", "holds no pairs"),
        ("a b 1\nc d\n", ":2: not two words"),
        ("a b x\n", ":1: not two words"),
        ("a b 1\na b c d\n", ":2: not two words"),
        ("word1,word2,colour\na,b,c\n", "no column"),
    ],
)
def test_what_is_neither(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(GnomonError, match=message):
        read_set(written(tmp_path, text))


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=40))
def test_spearman_is_scipys(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array(column, float) for column in zip(*pairs, strict=True))
    if len(set(first)) < 2 or len(set(second)) < 2:
        assert np.isnan(spearman(first, second))
    else:
        assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)


def test_figures_and_what_is_left_out() -> None:
    table = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1], [1, 0.1, 0]], np.float32)
    vectors = WordVectors(["man", "woman", "king", "queen", "guy"], table)
    pairs = Pairs("pairs", (("man", "Guy", 9.0), ("man", "woman", 1.0), ("man", "king", 5.0), ("man", "zebra", 3.0)))
    questions = Questions(
        "questions",
        (("man", "king", "woman", "queen"), ("king", "man", "queen", "guy"), ("man", "king", "zebra", "queen")),
        ("royal", "royal", "royal"),
    )
    similar, answered = evaluate(vectors, [pairs, questions])
    assert (similar.value, similar.used, similar.total) == (pytest.approx(1.0), 3, 4)
    assert (answered.value, answered.used, answered.total) == (0.5, 2, 3)
    assert answered.low < 0.5 < answered.high
    assert answered.sections == {"royal": (0.5, 2)}


def test_one_hot_has_nothing_to_say() -> None:
    pairs = Pairs("pairs", (("a", "b", 1.0), ("b", "c", 2.0), ("a", "c", 3.0)))
    assert np.isnan(evaluate(one_hot(["a", "b", "c"]), [pairs])[0].value)


def test_every_published_file_is_read(shared: Path) -> None:
    sizes = {path.name: len(read_set(path).rows) for path in sorted(shared.glob("word-similarity/*.csv"))}
    assert sizes == {
        "men.csv": 3000, "msr.csv": 8000, "rw.csv": 2034, "simlex999.csv": 999,
        "wordsim353-rel.csv": 252, "wordsim353-sim.csv": 203,
    }  # fmt: skip
    assert len(read_set(shared / "cwe-zh-wordsim" / "297.txt").rows) == 297
    found = read_set(shared / "ca8" / "semantic.txt")
    assert isinstance(found, Questions)
    assert found.sections[0] == "geography"
    men = read_set(shared / "word-similarity" / "men.csv")
    assert men.rows[0][:2] == ("sun", "sunlight")
