"""`check_model_dir`: what a folder holds, and everything that is off in it, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from families import LABELS, TEXTS, each_deployable, small_model
from gnomon.deploy.deploy import deploy
from gnomon.errors import GnomonError
from gnomon.formats.check import check_model_dir
from gnomon.formats.shapes import expected_shapes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model("bert").save(tmp_path / "m")
    return tmp_path / "m"


def edit_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def problems(folder: Path) -> list[str]:
    return [str(problem) for problem in check_model_dir(folder).problems]


@each_deployable
def test_a_whole_folder_has_no_problem(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    model.save(tmp_path / "m")
    deploy(tmp_path / "m", check_texts=TEXTS, threads=1)
    report = check_model_dir(tmp_path / "m")
    assert report.problems == ()
    assert report.parameters == model.num_parameters
    assert report.labels == LABELS
    assert report.max_length == 32
    assert report.runtime is not None
    assert (report.hugging_face == "") == (model.hf_type is not None)
    assert json.loads(json.dumps(report.to_dict()))["problems"] == []


@each_deployable
def test_every_tensor_has_an_expected_shape(name: str) -> None:
    model = small_model(name)
    arrays = model.arrays()
    shapes = expected_shapes(model.folder_config(), arrays)
    beside = {"bert": ("bert.pooler.", "classifier."), "distilbert": ("pre_classifier.", "classifier.")}
    beside["roberta"] = ("classifier.",)
    body = {key: value.shape for key, value in arrays.items() if not key.startswith(beside.get(name, ("?",)))}
    assert shapes == body


def test_the_real_teacher_is_whole(minilm_folder: Path) -> None:
    report = check_model_dir(minilm_folder)
    assert report.problems == ()
    assert report.parameters == 22_713_216
    assert report.types == {"F32": 103, "I64": 1}
    assert report.runtime is None


def test_old_names_of_norms_are_understood(folder: Path) -> None:
    arrays = load_file(folder / "model.safetensors")
    old = {key.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): a for key, a in arrays.items()}
    save_file({key.removeprefix("bert."): array for key, array in old.items()}, folder / "model.safetensors")
    assert problems(folder) == []


def test_shapes_that_config_contradicts_are_all_listed(folder: Path) -> None:
    edit_config(folder, lambda config: config.update(vocab_size=50, intermediate_size=65))
    found = problems(folder)
    assert "bert.embeddings.word_embeddings.weight: the shape is [36, 32], config.json asks for [50, 32]" in found
    assert len([line for line in found if "intermediate" in line or ".output.dense" in line]) == 6
    assert len(found) == 7


def test_missing_layers_and_missing_numbers(folder: Path) -> None:
    edit_config(folder, lambda config: config.update(num_hidden_layers=3))
    assert len(problems(folder)) == 16
    edit_config(folder, lambda config: config.pop("num_hidden_layers"))
    assert problems(folder) == [
        "config.json: the numbers of the model cannot be read from it: KeyError('num_hidden_layers')"
    ]


def test_a_truncated_file_is_a_problem_among_others(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-10])
    (folder / "tokenizer.json").unlink()
    first, second = problems(folder)
    assert f"truncated: {len(data)} bytes expected, {len(data) - 10} found" in first
    assert second.startswith("tokenizer.json: missing")


def test_values_that_are_not_finite_are_counted(folder: Path) -> None:
    arrays = load_file(folder / "model.safetensors")
    arrays["classifier.bias"][:2] = [np.nan, np.inf]
    save_file(arrays, folder / "model.safetensors")
    assert problems(folder) == ["classifier.bias: 2 values are not finite"]


def test_more_tokens_than_rows(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["more"] = 36
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert problems(folder) == ["tokenizer.json: has 37 tokens, the model only 36 rows for them"]
    (folder / "tokenizer.json").write_text("{}")
    assert "tokenizer.json: cannot be read" in problems(folder)[0]


@pytest.mark.parametrize("name", ["bert", "static"])
def test_a_damaged_runtime(name: str, tmp_path: Path) -> None:
    small_model(name).save(tmp_path / "m")
    runtime = tmp_path / "m" / deploy(tmp_path / "m", check_texts=TEXTS, threads=1).runtime
    data = runtime.read_bytes()
    runtime.write_bytes(data[:-1])
    assert f"has {len(data) - 1} bytes, {len(data)} were written" in problems(tmp_path / "m")[0]
    runtime.unlink()
    assert "missing, though config.json names it" in problems(tmp_path / "m")[0]


def test_labels_that_are_not_numbered(folder: Path) -> None:
    edit_config(folder, lambda config: config.update(id2label={"1": "a"}))
    assert any("id2label" in line for line in problems(folder))


def test_what_is_no_model_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GnomonError, match="not a model folder"):
        check_model_dir(tmp_path)


def test_it_runs_without_torch(folder: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from gnomon.formats.check import check_model_dir as check; "
    code += f"sys.exit(len(check({str(folder)!r}).problems))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
