"""Model folders: written whole, their own section changed in place, names resolved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gnomon.errors import GnomonError
from gnomon.formats.modeldir import (
    label_names,
    read_config,
    read_model_dir,
    resolve,
    update_gnomon_section,
    write_model_dir,
)


def write(folder: Path, **changes: object) -> None:
    settings: dict = {
        "config": {"model_type": "gnomon_static", "gnomon": {"family": "static", "max_length": 16}},
        "arrays": {"w": np.arange(6.0, dtype=np.float32).reshape(2, 3)},
        "tokenizer_json": '{"model": {"vocab": {"é": 0}}}',
        "tokenizer_config": {"pad_token": "[PAD]"},
        "card": "# Ein Modell für 中文\n",
    }
    write_model_dir(folder, **(settings | changes))


def test_a_folder_is_written_and_read(tmp_path: Path) -> None:
    write(tmp_path / "m", extras={"onnx/model.onnx": b"graph"})
    found = read_model_dir(tmp_path / "m")
    assert found.model_type == "gnomon_static"
    assert found.gnomon == {"family": "static", "max_length": 16}
    np.testing.assert_array_equal(found.arrays["w"], [[0, 1, 2], [3, 4, 5]])
    assert (tmp_path / "m" / "onnx" / "model.onnx").read_bytes() == b"graph"
    assert "中文" in (tmp_path / "m" / "README.md").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "m" / "tokenizer_config.json").read_text()) == {"pad_token": "[PAD]"}


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "m")
    with pytest.raises(TypeError):
        write(tmp_path / "m", config={"model_type": "x", "wrong": object()})
    with pytest.raises(GnomonError, match="cannot write"):
        write(tmp_path / "m" / "README.md" / "inside")
    assert read_model_dir(tmp_path / "m").model_type == "gnomon_static"
    assert [item.name for item in tmp_path.iterdir()] == ["m"]


def test_replacing_removes_files_of_the_old_folder(tmp_path: Path) -> None:
    write(tmp_path / "m", extras={"vectors.safetensors": b"old"})
    write(tmp_path / "m")
    assert not (tmp_path / "m" / "vectors.safetensors").exists()


def test_our_section_changes_and_the_rest_stays(tmp_path: Path) -> None:
    write(tmp_path / "m")
    update_gnomon_section(tmp_path / "m", runtime="vectors.safetensors", max_length=32)
    assert read_config(tmp_path / "m") == {
        "model_type": "gnomon_static",
        "gnomon": {"family": "static", "max_length": 32, "runtime": "vectors.safetensors"},
    }


def test_labels_are_ordered_by_number_not_by_digit() -> None:
    names = {str(index): f"name {index}" for index in range(12)}
    assert label_names({"id2label": dict(sorted(names.items()))}) == tuple(f"name {index}" for index in range(12))
    assert label_names({}) == label_names({"id2label": None}) == ()


@pytest.mark.parametrize("names", [["a", "b"], {"x": "a"}, {"0": "a", "2": "b"}, {"1": "a"}])
def test_labels_that_are_not_numbered(names: object) -> None:
    with pytest.raises(GnomonError, match="id2label"):
        label_names({"id2label": names})


def test_a_folder_resolves_to_itself(tmp_path: Path) -> None:
    assert resolve(tmp_path) == tmp_path
    assert resolve(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "a/b/c", "~/model"])
def test_a_path_that_is_no_hub_name_is_missing(name: str) -> None:
    with pytest.raises(GnomonError, match="there is no model folder"):
        resolve(name)


def test_a_hub_name_without_the_hub_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(GnomonError, match="is needed") as caught:
        resolve("some-org/some-model")
    assert "pip install huggingface_hub" in caught.value.hint
    assert "download" in caught.value.hint


def test_a_hub_name_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str, **_: object) -> str:
        raise OSError(f"no connection for {name}\nand a long explanation")

    stand_in(monkeypatch, fail)
    with pytest.raises(GnomonError, match="did not give it: no connection for bert-tiny") as caught:
        resolve("bert-tiny")
    assert "long explanation" not in caught.value.message
    assert "connection" in caught.value.hint


def test_a_hub_name_fetches_no_pickle_and_no_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []
    stand_in(monkeypatch, lambda name, **options: asked.append((name, options)) or str(tmp_path))
    assert resolve("org/name") == tmp_path
    assert asked == [("org/name", {"allow_patterns": ["*.json", "*.txt", "*.safetensors"]})]


def stand_in(monkeypatch: pytest.MonkeyPatch, snapshot_download: object) -> None:
    module: ModuleType | SimpleNamespace = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)  # type: ignore[arg-type]
