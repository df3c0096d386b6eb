"""The run folder: settings that must agree, a lock, records that survive a kill, stages, and what MODEL means."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gnomon.errors import GnomonError, Interrupted
from gnomon.runs import Run, resolve_model

SETTINGS = {"data": "questions.csv", "seed": 1, "tune": {"epochs": 3, "learning_rate": 1e-4, "patience": None}}


def _model_folder(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text("{}")
    return path


def test_start_writes_settings_and_status(tmp_path: Path) -> None:
    with Run.start(tmp_path / "run", SETTINGS) as run:
        assert tomllib.loads((run.path / "run.toml").read_text())["tune"] == {"epochs": 3, "learning_rate": 1e-4}
        assert run.settings["seed"] == 1
        assert run.info["status"] == "running"
        assert run.info["versions"]["python"].startswith("3.")
        assert run.info["host"]["processors"] >= 1
        assert len(run.info["started"]) == 1
        run.finish(accuracy=0.9)
    assert Run(tmp_path / "run").done()
    assert Run(tmp_path / "run").figures == {"accuracy": 0.9}


def test_equal_settings_go_on_and_keep_what_was_measured(tmp_path: Path) -> None:
    with Run.start(tmp_path, SETTINGS) as run:
        run.settle(threads=2)
        run.settle(copies=4)
        run.child("tune").finish(accuracy=0.95)
        run.update(seeds=[1])
    with Run.start(tmp_path, SETTINGS) as run:
        assert run.measured == {"threads": 2, "copies": 4}
        assert run.child("tune").done()
        assert run.child("tune").figures == {"accuracy": 0.95}
        assert not run.child("distill").done()
        assert run.info["seeds"] == [1]
        assert len(run.info["started"]) == 2


def test_toml_text_keeps_its_comments(tmp_path: Path) -> None:
    text = "# how it goes\nseed = 1 # of everything\n[tune]\nepochs = 3\n"
    with Run.start(tmp_path, text) as run:
        run.settle(threads=1)
        run.settle(threads=2)
    assert (tmp_path / "run.toml").read_text() == text + "\n[measured]\nthreads = 2\n"
    with Run.start(tmp_path, {"seed": 1, "tune": {"epochs": 3}}) as run:
        assert run.measured == {"threads": 2}


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    with Run.start(tmp_path, SETTINGS):
        pass
    other = {"data": "questions.csv", "seed": 2, "tune": {"epochs": 3, "learning_rate": 1e-4}, "max_length": 64}
    with pytest.raises(GnomonError) as caught:
        Run.start(tmp_path, other)
    assert "seed: 1 there, 2 now" in caught.value.message
    assert "max_length: 'unset' there, 64 now" in caught.value.message
    assert "epochs" not in caught.value.message
    assert "--overwrite" in caught.value.hint
    with Run.start(tmp_path, SETTINGS):  # the refused start left no lock behind
        pass


def test_overwrite_begins_anew(tmp_path: Path) -> None:
    with Run.start(tmp_path / "run", SETTINGS) as run:
        run.child("tune").finish()
        run.log({"step": 1})
    with Run.start(tmp_path / "run", {"seed": 2}, overwrite=True) as run:
        assert run.settings == {"seed": 2}
        assert not run.child("tune").done()
        assert run.records() == []
        with pytest.raises(GnomonError, match="being written"):
            Run.start(tmp_path / "run", {"seed": 2})
    assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_a_folder_of_something_else_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(GnomonError, match="holds no run"):
            Run.start(tmp_path, SETTINGS, overwrite=overwrite)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(GnomonError, match="a part of the path is a file"):
        Run.start(tmp_path / "thesis.txt", SETTINGS)


def test_what_a_kill_left_of_a_start_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("123")
    (tmp_path / ".run.toml.x1y2").write_text("seed =")
    with Run.start(tmp_path, SETTINGS) as run:
        assert run.settings["seed"] == 1


_HOLDER = """
import sys, time
from gnomon.runs import Run
run = Run.start(sys.argv[1], {"seed": 1})
print("locked", flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks there")
def test_a_second_process_is_refused_until_the_first_ends_however_it_ends(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(GnomonError, match=f"process {holder.pid}"):
            Run.start(tmp_path, {"seed": 1})
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with Run.start(tmp_path, {"seed": 1}) as run:
        assert run.info["status"] == "running"


def test_how_a_run_ended_is_kept(tmp_path: Path) -> None:
    def end_with(error: BaseException) -> dict[str, object]:
        with pytest.raises(type(error)), Run.start(tmp_path, SETTINGS):
            raise error
        return Run(tmp_path).info

    assert end_with(Interrupted("SIGINT: stopped"))["status"] == "interrupted"
    failed = end_with(GnomonError("no rows", "give some"))
    assert failed["status"] == "failed"
    assert "no rows" in str(failed["error"])


def test_records_survive_a_line_cut_short(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.log({"step": 1, "loss": 0.5, "名": "值"})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 2, "lo')
    assert [record["step"] for record in run.records()] == [1]
    run.log({"step": 2, "loss": float("nan")})
    assert run.records() == [{"step": 1, "loss": 0.5, "名": "值"}, {"step": 2, "loss": None}]
    for line in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line)


def test_a_file_of_one_partial_line_starts_again(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b'{"ste')
    run = Run(tmp_path)
    run.log({"step": 1})
    assert run.records() == [{"step": 1}]


def test_rewind_drops_what_will_be_taken_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for record in ({"event": "note"}, {"step": 10}, {"step": 20}, {"step": 30}):
        run.log(record)
    run.rewind(20)
    assert run.records() == [{"event": "note"}, {"step": 10}, {"step": 20}]
    run.rewind(-1)
    assert run.records() == [{"event": "note"}]


def test_pointers(tmp_path: Path) -> None:
    run = Run(tmp_path)
    assert run.pointed("last") is None
    folder = _model_folder(run.checkpoints / "step-5")
    run.point("last", folder)
    assert (tmp_path / "last").read_text() == "checkpoints/step-5\n"
    assert run.pointed("last") == folder
    run.point("last", run.checkpoints / "step-6")
    assert run.pointed("last") is None  # it names nothing that is there


def test_a_finished_stage_needs_its_checkpoints_no_more(tmp_path: Path) -> None:
    stage = Run(tmp_path).child("tune")
    stage.point("best", _model_folder(stage.checkpoints / "step-5"))
    stage.finish()
    assert stage.pointed("best") == stage.checkpoints / "step-5"  # no model stands in its place yet
    _model_folder(stage.path / "model")
    stage.finish(accuracy=1.0)
    assert not stage.checkpoints.exists()
    assert stage.pointed("best") == stage.pointed("last") == stage.path / "model"


def test_what_model_means(tmp_path: Path) -> None:
    plain = _model_folder(tmp_path / "plain")
    assert resolve_model(plain) == plain
    assert resolve_model("someone/on-the-hub") == Path("someone/on-the-hub")
    with Run.start(tmp_path / "run", SETTINGS) as run:
        with pytest.raises(GnomonError, match="no model yet"):
            resolve_model(run.path)
        run.point("best", _model_folder(run.checkpoints / "step-3"))
        assert resolve_model(run.path) == run.checkpoints / "step-3"
        model = _model_folder(run.path / "model")
        assert resolve_model(run.path) == model
        picked = _model_folder(run.path / "students" / "static")
        frontier = {"pick": "static", "candidates": [{"name": "static", "path": "students/static"}]}
        (run.path / "frontier.json").write_text(json.dumps(frontier))
        assert resolve_model(run.path) == picked
        (run.path / "frontier.json").write_text(json.dumps({**frontier, "pick": "other"}))
        with pytest.raises(GnomonError, match="not among its candidates"):
            resolve_model(run.path)


def test_the_way_to_go_on_is_handed_down(tmp_path: Path) -> None:
    with Run.start(tmp_path, SETTINGS, resume_command="gnomon tune --resume x") as run:
        assert run.child("tune").resume_command == "gnomon tune --resume x"
    assert str(tmp_path) in Run(tmp_path).resume_command
