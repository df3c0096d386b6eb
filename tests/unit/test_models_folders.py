"""Loading model folders: labels by name, and everything that may be wrong with a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from families import LABELS, small_batch, small_model
from gnomon.errors import GnomonError
from gnomon.models.base import HeadConfig, Model
from gnomon.models.folders import load_model, read_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    small_model("bert").save(tmp_path / "m")
    return tmp_path / "m"


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def edit_arrays(folder: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    arrays = load_file(folder / "model.safetensors")
    change(arrays)
    save_file(arrays, folder / "model.safetensors")


def test_the_same_labels_in_another_order_move_the_rows(folder: Path) -> None:
    stored, moved = load_model(folder), load_model(folder, labels=["thing", "place", "person"])
    ids, mask = small_batch(stored)
    assert torch.equal(moved.logits(ids, mask), stored.logits(ids, mask)[:, [2, 0, 1]])
    assert moved.labels == ("thing", "place", "person")
    assert moved.load_report.missing == ()


def test_other_labels_get_a_new_classifier_and_keep_the_dense_layer(folder: Path) -> None:
    stored, new = load_model(folder), load_model(folder, labels=["place", "person", "thing", "else"])
    assert new.load_report.missing == ("head.out.weight", "head.out.bias")
    assert set(new.load_report.unused) == {"classifier.weight", "classifier.bias"}
    assert torch.equal(new.head.dense.weight, stored.head.dense.weight)
    assert new.head.out.weight.shape[0] == 4
    assert new.head.out.weight.std() < 0.05


def test_a_new_classifier_is_the_seeds(folder: Path) -> None:
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        weights.append(load_model(folder, labels=["x", "y"]).head.out.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_placeholder_names_are_no_labels(folder: Path) -> None:
    edit_config(folder, id2label={str(i): f"LABEL_{i}" for i in range(3)})
    assert read_folder(folder).labels == ()
    assert load_model(folder).labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert load_model(folder, labels=["LABEL_0", "LABEL_1", "LABEL_2"]).load_report.missing


def test_another_kind_of_head_starts_anew(folder: Path) -> None:
    model = load_model(folder, labels=LABELS, head=HeadConfig("mean"))
    assert model.load_report.missing == ("head.out.weight", "head.out.bias")
    assert model.head_config.pooling == "mean"
    assert load_model(folder, head=HeadConfig("mean")).labels == LABELS
    wide = load_model(folder, labels=LABELS, head=HeadConfig("first", 7))
    assert wide.head.dense.weight.shape == (7, 32)
    assert set(wide.load_report.missing) == {f"head.{m}.{p}" for m in ("dense", "out") for p in ("weight", "bias")}


def test_the_length_limit_is_the_folders_and_can_be_set(folder: Path) -> None:
    assert load_model(folder).max_length == 32
    assert load_model(folder, max_length=40).max_length == 40
    with pytest.raises(GnomonError, match="max_length 41 is more than the 40 positions"):
        load_model(folder, max_length=41)


def test_half_precision_is_widened(folder: Path) -> None:
    edit_arrays(folder, lambda a: a.update({k: v.astype(np.float16) for k, v in a.items()}))
    model = load_model(folder)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_a_shape_that_the_config_contradicts_is_named(folder: Path) -> None:
    edit_config(folder, intermediate_size=65)
    with pytest.raises(GnomonError, match=r"0\.intermediate\.dense\.weight has the shape \[64, 32\].*\[65, 32\]"):
        load_model(folder)


def test_fewer_layers_than_stored_are_refused(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=1)
    with pytest.raises(GnomonError, match=r"does not use .*bert\.encoder\.layer\.1\..* and 11 more"):
        load_model(folder)


def test_more_layers_than_stored_are_refused(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=3)
    with pytest.raises(GnomonError, match=r"lacks backbone\.layers\.2\.attention"):
        load_model(folder)
    with pytest.raises(GnomonError, match="lacks"):
        load_model(folder, labels=["x", "y"])


def test_a_missing_head_tensor_is_refused_unless_new_labels_are_given(folder: Path) -> None:
    edit_arrays(folder, lambda a: a.pop("classifier.bias"))
    with pytest.raises(GnomonError, match=r"lacks head\.out\.bias"):
        load_model(folder)
    assert load_model(folder, labels=["x", "y"]).labels == ("x", "y")


def test_a_tensor_of_another_head_is_listed_and_one_of_the_body_refused(folder: Path) -> None:
    edit_arrays(folder, lambda a: a.update({"cls.predictions.bias": np.zeros(3, np.float32)}))
    assert load_model(folder).load_report.unused == ("cls.predictions.bias",)
    edit_arrays(folder, lambda a: a.update({"bert.adapter.weight": np.zeros(3, np.float32)}))
    with pytest.raises(GnomonError, match=r"does not use bert\.adapter\.weight"):
        load_model(folder)


def test_label_names_must_match_the_classifier(folder: Path) -> None:
    edit_config(folder, id2label={"0": "a", "1": "b"})
    with pytest.raises(GnomonError, match="names 2 labels, and the classifier has 3 rows"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "brt"}, "did you mean 'bert'"),
        ({"model_type": "gnomon_lstm"}, "unknown family"),
        ({"hidden_size": "32"}, "hidden_size is '32'"),
        ({"hidden_size": None}, "hidden_size"),
        ({"gnomon": {"max_length": "32"}}, "max_length is '32'"),
        ({"gnomon": {"head": [1]}}, r"HeadConfig are \[1\]"),
        ({"hidden_act": "swish9"}, "unknown activation 'swish9'"),
        ({"num_attention_heads": 5}, "5 heads do not divide the width 32"),
        ({"position_embedding_type": "relative_key"}, "relative positions"),
        ({"is_decoder": True}, "decoder"),
    ],
)
def test_a_config_that_makes_no_sense_is_explained(folder: Path, changes: dict[str, Any], message: str) -> None:
    edit_config(folder, **changes)
    if changes.get("model_type") == "gnomon_lstm":
        edit_config(folder, gnomon={"family": "lstm"})
    with pytest.raises(GnomonError, match=message):
        load_model(folder)


def test_fields_of_our_own_families_are_checked(tmp_path: Path) -> None:
    small_model("convolutional").save(tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    for change, message in (
        ({"chanels": 8}, "did you mean 'channels'"),
        ({"kernel_sizes": 3}, "kernel_sizes is 3"),
        ({"dropout": True}, "dropout is True"),
        ({"channels": -1}, "channels is -1"),
    ):
        section = config["gnomon"]
        changed = config | {"gnomon": section | {"config": section["config"] | change}}
        (tmp_path / "m" / "config.json").write_text(json.dumps(changed))
        with pytest.raises(GnomonError, match=message):
            load_model(tmp_path / "m")
    del config["gnomon"]["config"]["channels"]
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(GnomonError, match="lacks channels"):
        load_model(tmp_path / "m")


def test_a_tokenizer_larger_than_the_table_is_refused(folder: Path) -> None:
    edit_config(folder, vocab_size=10)
    edit_arrays(
        folder,
        lambda a: a.update(
            {"bert.embeddings.word_embeddings.weight": a["bert.embeddings.word_embeddings.weight"][:10].copy()}
        ),
    )
    with pytest.raises(GnomonError, match="the tokenizer has 36 tokens, the model only 10 rows"):
        load_model(folder)


def test_labels_twice_and_too_much_length_are_refused() -> None:
    model = small_model("bert")
    with pytest.raises(GnomonError, match="label names"):
        Model(model.backbone, model.head_config, tokenizer=model.tokenizer, labels=["a", "a"], max_length=9)
    with pytest.raises(GnomonError, match="max_length 99"):
        Model(model.backbone, model.head_config, tokenizer=model.tokenizer, labels=LABELS, max_length=99)
