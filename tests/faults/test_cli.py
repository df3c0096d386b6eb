"""What a hurried person types wrong: one clear message on standard error, exit 2, no traceback, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.cli.main import run

Run = Callable[..., str]

ROWS = [("how far is the moon", "number"), ("who wrote hamlet", "human"), ("how many legs has an ant", "number")]


def table(path: Path, rows: list[tuple[str, str]], header: str = "text,label") -> Path:
    path.write_text(header + "\n" + "".join(f"{text},{label}\n" for text, label in rows), encoding="utf-8")
    return path


def many(count: int = 60) -> list[tuple[str, str]]:
    return [(f"{text} {number}", label) for number in range(count) for text, label in ROWS]


def test_a_missing_file_is_named_with_its_neighbour(tmp_path: Path, refused: Run) -> None:
    table(tmp_path / "train.csv", many())
    said = refused("doctor", tmp_path / "trian.csv")
    assert "does not exist" in said
    assert "train.csv" in said


def test_an_empty_file(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "a.csv").write_text("")
    assert "a.csv" in refused("doctor", tmp_path / "a.csv")


def test_a_wrong_column_offers_the_nearest(tmp_path: Path, refused: Run) -> None:
    said = refused("doctor", table(tmp_path / "a.csv", many()), "--label-column", "lable")
    assert "did you mean 'label'?" in said


def test_one_class_only(tmp_path: Path, refused: Run) -> None:
    said = refused("doctor", table(tmp_path / "a.csv", [(f"text {number}", "same") for number in range(50)]))
    assert "two or more classes" in said


def test_a_label_that_training_never_saw(tmp_path: Path, refused: Run) -> None:
    train = table(tmp_path / "a.csv", many())
    test = table(tmp_path / "b.csv", [("what is red", "colour")])
    said = refused("doctor", train, "--test", test)
    assert "'colour'" in said
    assert "b.csv:2" in said


def test_bytes_that_are_not_utf8_are_placed(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "a.csv").write_bytes("text,label\nok,x\ncaf\u00e9,y\n".encode("latin-1"))
    said = refused("doctor", tmp_path / "a.csv")
    assert "a.csv:3" in said
    assert "byte" in said
    assert "--encoding" in said


def test_a_nul_byte(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\nok,x\na\0b,y\n")
    assert "a.csv:3" in refused("doctor", tmp_path / "a.csv")


def test_a_ragged_row(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "a.csv").write_text("text,label\nok,x\none,two,three\nfine,y\n")
    assert "a.csv:3" in refused("doctor", tmp_path / "a.csv")


def test_a_line_of_a_megabyte(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "a.csv").write_text("text,label\nok,x\n" + "a" * 1_000_000 + ",y\n")
    assert "a.csv:3" in refused("doctor", tmp_path / "a.csv")


def test_bad_rows_can_be_skipped_and_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"{text},{label}\n" for text, label in many()) + "one,two,three\n"
    )
    assert run(["doctor", str(tmp_path / "a.csv"), "--on-bad-row", "skip", "--json"]) == 0
    assert "1 bad row" in capsys.readouterr().err


def test_a_place_that_cannot_be_written(tmp_path: Path, minilm_folder: Path, refused: Run) -> None:
    if os.geteuid() == 0:
        place = Path("/proc/gnomon")
    else:
        (tmp_path / "closed").mkdir(mode=0o555)
        place = tmp_path / "closed" / "run"
    said = refused("tune", table(tmp_path / "a.csv", many()), "--teacher", minilm_folder, "--out", place)
    assert "cannot write" in said


def test_truncated_weights(tmp_path: Path, minilm_folder: Path, refused: Run) -> None:
    folder = Path(shutil.copytree(minilm_folder, tmp_path / "m"))
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    assert "model.safetensors" in refused("info", folder)


def test_a_config_of_another_shape(tmp_path: Path, minilm_folder: Path, refused: Run) -> None:
    folder = Path(shutil.copytree(minilm_folder, tmp_path / "m"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_size": 256}))
    said = refused("info", folder)
    assert "256" in said
    assert "384" in said


def test_a_pickle_is_refused_with_the_way_out(tmp_path: Path, minilm_folder: Path, refused: Run) -> None:
    folder = Path(shutil.copytree(minilm_folder, tmp_path / "m", ignore=shutil.ignore_patterns("*.safetensors")))
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04K\x01.")
    said = refused("tune", table(tmp_path / "a.csv", many()), "--teacher", folder, "--out", tmp_path / "run")
    assert "pickle" in said
    assert "save_file" in said
    assert not (tmp_path / "run").exists()


def test_a_hub_name_offline(tmp_path: Path, refused: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    said = refused("tune", table(tmp_path / "a.csv", many()), "--teacher", "nobody/no-such-model")
    assert "nobody/no-such-model" in said


def test_a_mistyped_command_option_and_setting_are_answered_with_the_nearest(tmp_path: Path, refused: Run) -> None:
    assert 'Did you mean "frontier"?' in refused("fronteir")
    assert "Did you mean --text-column?" in refused("doctor", "x.csv", "--text-colum", "a")
    (tmp_path / "c.toml").write_text("[tune]\nepoch = 3\n")
    assert "epoch" in refused("frontier", "demo", "--teacher", "demo", "--config", tmp_path / "c.toml")
    assert "stop" in refused("doctor", "x.csv", "--on-bad-row", "stpo")


def test_malformed_toml(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "c.toml").write_text("[tune\n")
    assert "c.toml" in refused("frontier", "demo", "--teacher", "demo", "--config", tmp_path / "c.toml")


def test_a_run_with_other_settings_is_kept(tmp_path: Path, refused: Run) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").write_text('teacher = "another"\n')
    said = refused("tune", "demo", "--teacher", "demo", "--out", tmp_path / "run")
    assert "--overwrite" in said
    assert (tmp_path / "run" / "run.toml").read_text().startswith('teacher = "another"')


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gnomon.cli.main import run; run(['--help']); run(['frontier', '--help']);"
        "print([name for name in ('torch', 'onnx', 'onnxruntime', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("[]")


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gnomon.cli.main._dispatch", interrupted)
    assert run(["predict"]) == 130
