"""Atomic writes: a reader sees the old or the new, never a part; an error leaves the old."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gnomon.errors import GnomonError
from gnomon.formats import files


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    files.write_json(path, {"a": 1})

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(GnomonError, match="no space left") as error:
        files.write_json(path, {"a": 2})
    assert "untouched" in error.value.hint
    assert files.read_json(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_folder_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with files.new_directory(path) as folder:
        (folder / "x").write_text("old")
    with pytest.raises(RuntimeError), files.new_directory(path) as folder:
        (folder / "x").write_text("new")
        raise RuntimeError
    assert (path / "x").read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


def test_a_new_folder_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "model"
    for name in ("a", "b"):
        with files.new_directory(path) as folder:
            (folder / name).write_text(name)
    assert os.listdir(path) == ["b"]
    assert os.listdir(tmp_path) == ["model"]


def test_written_files_have_the_usual_permissions(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a", "x")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~umask


def test_malformed_json_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1,\n oops}')
    with pytest.raises(GnomonError, match="line 2"):
        files.read_json(tmp_path / "a.json")


def test_a_place_that_cannot_be_written_is_explained() -> None:
    with pytest.raises(GnomonError, match="cannot write"):
        files.write_text(Path("/proc/gnomon/x"), "x")
