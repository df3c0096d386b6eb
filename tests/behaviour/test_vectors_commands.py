"""Word vectors from text to a student's start, by their commands: what each makes, says and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("numba")

import gnomon
from distillation_case import TEXTS, tiny_teacher
from gnomon.cli.main import run
from gnomon.distillation.students import build_student, parse_student
from gnomon.vectors import WordVectors
from gnomon.vectors.static_model import token_table
from vector_corpora import GROUPS, grouped_lines

TRAIN = ["vectors", "train", "text.txt", "--size", "8", "--epochs", "2", "--threads", "1", "--subsample", "0"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with text.txt, and vectors learnt from it in runs/vectors-text."""
    (tmp_path / "text.txt").write_text("\n".join(grouped_lines()) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run([*TRAIN, "--quiet"]) == 0
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    """The JSON that a command prints."""
    capsys.readouterr()
    assert run(["vectors", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says as it refuses."""
    assert run(["vectors", *words]) == 2
    return capsys.readouterr().err


def test_learnt_vectors_are_asked_measured_and_drawn(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "runs/vectors-text"
    nearest = asked(capsys, "nearest", folder, "cat", "red", "--count", "3")
    assert {key: len(value) for key, value in nearest.items()} == {"cat": 3, "red": 3}  # type: ignore[arg-type]
    assert len(asked(capsys, "analogy", folder, "cat", "dog", "red")) == 1
    assert asked(capsys, "similarity", folder, "cat", "cat")["cosine"] == pytest.approx(1, abs=1e-6)
    rows = [f"{one},{other},{one in group}" for group in GROUPS for one in group[:2] for other in GROUPS[0][2:]]
    pairs = "word1,word2,similarity\n" + "\n".join(rows).replace("True", "1").replace("False", "0")
    (place / "pairs.csv").write_text(pairs, encoding="utf-8")
    scores = asked(capsys, "evaluate", folder, "pairs.csv", "--baselines", "text.txt")
    assert set(scores) == {"vectors", "TF-IDF", "one-hot"}
    assert asked(capsys, "project", folder, "cat", "--around", "5")["words"] == 6
    assert (place / "vectors.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("form", ["word2vec", "word2vec-binary", "glove", "gnomon"])
def test_a_converted_file_gives_the_same_vectors(place: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert asked(capsys, "convert", "runs/vectors-text", "other", "--to", form)["words"] == 15
    first, again = WordVectors.load("runs/vectors-text"), WordVectors.load("other")
    assert first.matrix().tobytes() == again.matrix().tobytes()
    assert list(first.words) == list(again.words)


def test_a_folder_that_is_there_is_not_replaced_unasked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--overwrite" in refused(capsys, *TRAIN[1:])
    assert run([*TRAIN, "--overwrite", "--quiet"]) == 0
    assert run([*TRAIN, "--dry-run", "--quiet"]) == 0
    assert "would learn 15 words of 16,000 read" in capsys.readouterr().out


def test_what_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'horse'" in refused(capsys, "nearest", "runs/vectors-text", "horze")
    assert "no vectors nowhere" in refused(capsys, "nearest", "nowhere", "cat")
    assert run(["vectors", "convert", "runs/vectors-text", "static", "--to", "static"]) == 0
    assert "not of word vectors" in refused(capsys, "nearest", "static", "cat")
    assert "requires an argument" in refused(capsys, "nearest", "runs/vectors-text")
    data = ["data.csv", "--teacher", "runs/vectors-text", "--student", "recurrent", "--vectors", "runs/vectors-text"]
    assert run(["distill", *data]) == 2
    assert "only static students start from word vectors" in capsys.readouterr().err


def test_every_result_is_shown_in_words_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "runs/vectors-text"
    for words, shown in (
        (["nearest", folder, "cat"], "cosine"),
        (["analogy", folder, "cat", "dog", "red"], "cat : dog = red : ?"),
        (["similarity", folder, "cat", "cat"], "1.0000"),
        (["project", folder], "15 words in vectors.svg"),
        (["convert", folder, "s", "--to", "static"], "15 words in s (static)"),
    ):
        assert run(["vectors", *words]) == 0
        assert shown in capsys.readouterr().out


def test_a_student_starts_from_word_vectors(place: Path) -> None:
    teacher = tiny_teacher()
    words = sorted({word for text in TEXTS for word in text.split()} | {"never"})
    (place / "words.txt").write_text("\n".join(" ".join(words) for _ in range(30)), encoding="utf-8")
    vectors = gnomon.vectors.train("words.txt", size=6, threads=1, epochs=1)
    student = build_student(parse_student("static"), teacher, TEXTS, start=token_table(vectors))
    assert student.backbone.config.embedding_size == 6
    assert student.tokenizer.encode("who never").unknown == 0
    assert student.tokenizer.encode("who [MASK] zebra").unknown == 1
    assert len(student.predict(TEXTS)) == len(TEXTS)
    other = build_student(parse_student("recurrent:embedding_size=16"), teacher, TEXTS, start=token_table(vectors))
    assert "never" not in other.tokenizer.vocabulary
