"""What goes wrong when models are exported and generate: every case says what was found and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from gnomon.errors import GnomonError
from gnomon.recipes import chat, export
from gnomon.runtime.generator import open_language_model
from language_models import exported, generated, language_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with a context of 520 tokens."""
    path = tmp_path_factory.mktemp("model") / "m"
    language_model("rope", hidden_size=32).save(path)
    return path


@pytest.fixture(scope="module")
def deployed(folder: Path) -> Path:
    return exported(folder)


@pytest.mark.parametrize("kind", ["torch", "deployed"])
def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(kind: str, folder: Path, deployed: Path) -> None:
    model = deployed if kind == "deployed" else folder
    with pytest.raises(GnomonError, match=r"601 tokens and 1 are to follow: more than the 520"):
        generated(model, " ".join(["a"] * 600))
    with pytest.raises(GnomonError, match=r"more than the 520"):
        generated(model, "a b c", max_new_tokens=518)
    assert len(generated(model, " ".join(["a"] * 515)).generations[0].ids) <= 4, "the default asks for what fits"


def test_an_id_beyond_the_vocabulary_is_named(deployed: Path) -> None:
    stepper = open_language_model(deployed).stepper
    for ids in ([[3, 9999]], [[-1, 2]]):
        with pytest.raises(GnomonError, match="is none of the model's"):
            stepper.prefill(np.array(ids), np.ones((1, 2), dtype=bool))
    with pytest.raises(GnomonError, match="is none of the model's"):
        stepper.score(np.array([[3, 9999]]), np.ones((1, 2), dtype=bool))


def copy(deployed: Path, to: Path) -> Path:
    for file in deployed.rglob("*"):
        if file.is_file():
            place = to / file.relative_to(deployed)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    return to


def test_another_tokenizer_than_the_models_is_refused_by_its_hash(deployed: Path, tmp_path: Path) -> None:
    changed = copy(deployed, tmp_path / "d")
    tokenizer = json.loads((changed / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (changed / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(GnomonError, match="not the tokenizer that the model was exported with"):
        generated(changed, "a")


def test_a_missing_or_cut_graph_is_said(deployed: Path, tmp_path: Path) -> None:
    changed = copy(deployed, tmp_path / "d")
    graph = changed / "onnx" / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:1000])
    with pytest.raises(GnomonError, match=r"model\.onnx is no whole onnx file: .* bytes are missing"):
        generated(changed, "a")
    graph.unlink()
    with pytest.raises(GnomonError, match="is missing"):
        generated(changed, "a")


def test_a_runtime_outside_the_folder_is_refused(deployed: Path, tmp_path: Path) -> None:
    changed = copy(deployed, tmp_path / "d")
    config = json.loads((changed / "config.json").read_text())
    config["gnomon"]["runtime"] = "../../other.onnx"
    (changed / "config.json").write_text(json.dumps(config))
    with pytest.raises(GnomonError, match="outside the folder"):
        generated(changed, "a")


def test_weights_that_are_no_numbers_are_found_on_both_ways(tmp_path: Path) -> None:
    model = language_model("rope")
    with torch.no_grad():
        model.get_parameter("backbone.layers.1.feedforward.down.weight")[0, 0] = float("nan")
    model.save(tmp_path / "m")
    with pytest.raises(GnomonError, match="no numbers"):
        generated(tmp_path / "m", "a b")
    with pytest.raises(GnomonError, match="no numbers"):
        export.run(export.Config(model=str(tmp_path / "m"), out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    for name in ("lstm", "alibi"):
        language_model(name).save(tmp_path / name)
        with pytest.raises(GnomonError, match=r"only those are exported|is not exported"):
            export.run(export.Config(model=str(tmp_path / name), out=tmp_path / "out"))
    with pytest.raises(GnomonError, match="transformers does not have"):
        export.run(export.Config(model=str(tmp_path / "alibi"), out=tmp_path / "out", to="huggingface"))
    with pytest.raises(GnomonError, match="not written as GGUF"):
        export.run(export.Config(model=str(tmp_path / "alibi"), out=tmp_path / "out", to="gguf"))
    assert not (tmp_path / "out").exists()


def test_an_export_replaces_nothing_unasked(folder: Path, deployed: Path) -> None:
    with pytest.raises(GnomonError, match="exists already"):
        export.run(export.Config(model=str(folder), out=deployed))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1"),
        ({"num_beams": 2, "temperature": 1.0}, "beam search"),
        ({"samples": 0}, "samples"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
    ],
)
def test_settings_out_of_range_are_refused(deployed: Path, settings: dict[str, object], message: str) -> None:
    with pytest.raises(GnomonError, match=message):
        generated(deployed, "a", **settings)


def test_models_that_are_not_there_or_cannot_talk(deployed: Path, tmp_path: Path) -> None:
    for name in (tmp_path / "none", tmp_path / "none.gguf"):
        with pytest.raises(GnomonError, match="there is no"):
            generated(name, "a")
    with pytest.raises(GnomonError, match="no chat template"):
        chat.run(chat.Config(str(deployed), message=("hello",)))
