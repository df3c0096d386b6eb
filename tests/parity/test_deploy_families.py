"""Every family deployed: the answers of the torch model, alone and in a batch, and without torch installed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from families import LABELS, TEXTS, WORDS, each_deployable, small_model
from gnomon.deploy.deploy import deploy
from gnomon.errors import GnomonError
from gnomon.formats.arrays import read_arrays
from gnomon.formats.modeldir import gnomon_section, read_config
from gnomon.models.base import HeadConfig, Model, TorchScorer
from gnomon.models.families import FAMILIES
from gnomon.models.folders import load_model
from gnomon.nn.feedforward import ACTIVATIONS
from gnomon.nn.heads import POOLINGS
from gnomon.runtime.predictor import Predictor, load_predictor, runtime_files

MANY = [
    " ".join(TEXTS[i % len(TEXTS)] for i in range(start, start + length)) for start in range(8) for length in (1, 3)
]


def torch_predictor(model: Model) -> Predictor:
    return Predictor(model.tokenizer, TorchScorer(model), labels=model.labels, max_length=model.max_length)


def deployed(model: Model, folder: Path) -> Predictor:
    model.save(folder)
    deploy(folder, check_texts=TEXTS, reference=torch_predictor(model).logits, threads=1)
    return load_predictor(folder)


@each_deployable
def test_the_deployed_model_answers_as_torch_does(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    predictor = deployed(model, tmp_path / "m")
    wanted, found = torch_predictor(model).logits(MANY), predictor.logits(MANY)
    assert np.ptp(wanted, axis=0).min() > 0.01, "the texts do not tell the model anything"
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    assert [one.label for one in predictor.predict(MANY)] == [one.label for one in model.predict(MANY)]


@each_deployable
def test_a_deployed_batch_answers_as_each_text_alone(name: str, tmp_path: Path) -> None:
    predictor = deployed(small_model(name), tmp_path / "m")
    alone = np.concatenate([predictor.logits(text) for text in MANY])
    for size in (2, 5, 64):
        np.testing.assert_allclose(predictor.logits(MANY, batch_size=size), alone, atol=1e-5)


@each_deployable
def test_more_padding_changes_no_deployed_logit(name: str, tmp_path: Path) -> None:
    predictor = deployed(small_model(name), tmp_path / "m")
    ids = np.array([[2, 5, 6, 7, 3]])
    mask = np.ones(ids.shape, dtype=bool)
    bare = predictor.scorer.logits(ids, mask)
    for fill in (0, 9):
        wide = np.pad(ids, ((0, 0), (0, 4)), constant_values=fill)
        padded = predictor.scorer.logits(wide, np.pad(mask, ((0, 0), (0, 4))))
        np.testing.assert_allclose(padded, bare, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", ["bert", "lstm", "convolutional", "static-ngrams"])
def test_every_head_on_every_family(name: str, pooling: str, tmp_path: Path) -> None:
    base = small_model(name)
    head = HeadConfig(pooling, 6, activation="gelu" if pooling == "mean" else "gelu_new")
    torch.manual_seed(1)
    model = Model(base.backbone, head, tokenizer=base.tokenizer, labels=LABELS, max_length=32).eval()
    found = deployed(model, tmp_path / "m").logits(MANY)
    np.testing.assert_allclose(found, torch_predictor(model).logits(MANY), atol=2e-5)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_recurrent_cell(cell: str, layers: int, bidirectional: bool, tmp_path: Path) -> None:
    base = small_model("lstm")
    config = replace(base.backbone.config, cell=cell, num_hidden_layers=layers, bidirectional=bidirectional)
    torch.manual_seed(2)
    backbone = FAMILIES["recurrent"].backbone(config)
    model = Model(backbone, HeadConfig("max"), tokenizer=base.tokenizer, labels=LABELS, max_length=32).eval()
    found = deployed(model, tmp_path / "m").logits(MANY)
    np.testing.assert_allclose(found, torch_predictor(model).logits(MANY), atol=2e-5)


@pytest.mark.parametrize(("act", "layers"), [*((act, 2) for act in ACTIVATIONS), ("gelu", 1)])
@pytest.mark.parametrize("pre", [False, True])
def test_every_kind_of_encoder_that_reads_its_first_position(act: str, layers: int, pre: bool, tmp_path: Path) -> None:
    base = small_model("bert")
    config = replace(base.backbone.config, hidden_act=act, num_hidden_layers=layers, initializer_range=0.3)
    if pre:
        config = replace(config, norm_position="pre", model_type="gnomon_encoder")
    torch.manual_seed(3)
    backbone = FAMILIES["encoder"].backbone(config)
    model = Model(backbone, HeadConfig("first", 32), tokenizer=base.tokenizer, labels=LABELS, max_length=32).eval()
    found = deployed(model, tmp_path / "m").logits(MANY)
    np.testing.assert_allclose(found, torch_predictor(model).logits(MANY), atol=2e-5)


def test_a_folder_of_the_transformers_library(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    base = small_model("bert")
    base.save(tmp_path / "m")
    settings: dict[str, Any] = {
        "vocab_size": len(WORDS),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    torch.manual_seed(0)
    config = transformers.BertConfig(**settings, intermediate_size=48, num_labels=3, initializer_range=0.2)
    config.id2label = dict(enumerate(LABELS))
    theirs = transformers.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path / "m")
    done = deploy(tmp_path / "m", check_texts=TEXTS)
    assert done.largest_difference < 1e-6
    predictor = load_predictor(tmp_path / "m")
    assert predictor.labels == LABELS
    for text in TEXTS:
        ids = torch.tensor([predictor.tokenizer.encode(text).ids])
        with torch.inference_mode():
            wanted = theirs(input_ids=ids).logits.numpy()
        np.testing.assert_allclose(predictor.logits(text), wanted, atol=1e-5)


def test_the_real_teacher_on_real_questions(minilm_folder: Path, demo_questions: Path, tmp_path: Path) -> None:
    texts = [line.partition(" ")[2] for line in demo_questions.read_text(encoding="utf-8").split("\n")[:40]]
    torch.manual_seed(0)
    model = load_model(minilm_folder, labels=["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"])
    torch.nn.init.normal_(model.head.out.weight, std=0.3)
    predictor = deployed(model, tmp_path / "m")
    np.testing.assert_allclose(predictor.logits(texts), torch_predictor(model).logits(texts), atol=1e-4)


def test_deploying_writes_the_runtime_and_names_it(tmp_path: Path) -> None:
    model = small_model("convolutional")
    model.save(tmp_path / "m")
    done = deploy(tmp_path / "m", check_texts=TEXTS)
    section = gnomon_section(read_config(tmp_path / "m"))
    assert section["runtime"] == done.runtime == "onnx/model.onnx"
    assert section["max_length"] == model.max_length
    assert section["threads"] == done.threads >= 1
    names = {file.name for file in runtime_files(tmp_path / "m")}
    assert names == {"model.onnx", "config.json", "tokenizer.json", "tokenizer_config.json"}
    assert done.size_bytes == sum(file.stat().st_size for file in runtime_files(tmp_path / "m"))
    assert load_model(tmp_path / "m").labels == LABELS, "a deployed folder still loads for training"


@pytest.mark.parametrize("dense_size", [5, 24, 40, None])
def test_a_dense_layer_is_multiplied_into_the_tables_unless_it_widens_them(
    dense_size: int | None, tmp_path: Path
) -> None:
    base = small_model("static-ngrams")
    torch.manual_seed(4)
    head = HeadConfig("mean", dense_size, "relu")
    model = Model(base.backbone, head, tokenizer=base.tokenizer, labels=LABELS, max_length=32).eval()
    predictor = deployed(model, tmp_path / "m")
    stored = read_arrays(tmp_path / "m" / "vectors.safetensors")
    assert stored.shape("backbone.tokens.weight")[1] == (dense_size if dense_size in (5, 24) else 24)
    assert ("head.dense.weight" in stored) == (dense_size == 40)
    np.testing.assert_allclose(predictor.logits(MANY), torch_predictor(model).logits(MANY), atol=1e-5)


def test_rows_of_zeros_are_not_deployed(tmp_path: Path) -> None:
    model = small_model("static-ngrams")
    with torch.no_grad():
        model.backbone.get_parameter("ngrams.table.weight")[10:] = 0.0
    predictor = deployed(model, tmp_path / "m")
    whole = (tmp_path / "m" / "model.safetensors").stat().st_size
    assert (tmp_path / "m" / "vectors.safetensors").stat().st_size < whole - 80 * 24 * 4
    np.testing.assert_allclose(predictor.logits(MANY), torch_predictor(model).logits(MANY), atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "static"])
def test_a_runtime_that_differs_is_refused_and_not_written(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    model.save(tmp_path / "m")
    before = {file: file.read_bytes() for file in (tmp_path / "m").rglob("*") if file.is_file()}

    def other(texts: list[str]) -> np.ndarray:
        logits = torch_predictor(model).logits(texts)
        logits[3] += [0.0, 0.001, 0.0]
        return logits

    with pytest.raises(GnomonError, match=r"differs from the torch model on 1 of 8 texts.*nothing was written"):
        deploy(tmp_path / "m", check_texts=TEXTS, reference=other)
    assert before == {file: file.read_bytes() for file in (tmp_path / "m").rglob("*") if file.is_file()}


def test_nothing_to_check_with_is_refused(tmp_path: Path) -> None:
    small_model("static").save(tmp_path / "m")
    with pytest.raises(GnomonError, match="without texts"):
        deploy(tmp_path / "m", check_texts=[])


WITHOUT_TORCH = """
import sys
for name in ("torch", "onnx", "sklearn", "matplotlib", "scipy", "pyarrow", "transformers", "numba"):
    sys.modules[name] = None
from gnomon.runtime.predictor import load_predictor
import json
predictions = load_predictor(sys.argv[1]).predict(json.loads(sys.argv[2]))
print(json.dumps([[one.label, one.probabilities, one.truncated] for one in predictions]))
"""


@pytest.mark.parametrize("name", ["bert", "static"])
def test_it_is_served_where_only_the_base_package_is_installed(name: str, tmp_path: Path) -> None:
    predictor = deployed(small_model(name), tmp_path / "m")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "m"), json.dumps(list(TEXTS))]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert answer == [[one.label, one.probabilities, one.truncated] for one in predictor.predict(list(TEXTS))]
