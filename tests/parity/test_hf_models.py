"""Against the `transformers` library: random models made in this process, and the real teacher."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from families import LABELS, TEXTS, WORDS, small_batch, small_model, small_tokenizer
from gnomon.errors import GnomonError
from gnomon.models.base import HeadConfig, Model
from gnomon.models.folders import load_model, read_folder

transformers = pytest.importorskip("transformers")
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}

_BERT = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_BERT |= {"intermediate_size": 64, "max_position_embeddings": 40, "num_labels": 3, "initializer_range": 0.15}
_DISTIL = {"vocab_size": len(WORDS), "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
_DISTIL |= {"max_position_embeddings": 40, "num_labels": 3, "initializer_range": 0.15}
CONFIGS: dict[str, Callable[[], Any]] = {
    "bert": lambda: transformers.BertConfig(**_BERT),
    "bert-relu": lambda: transformers.BertConfig(**_BERT, hidden_act="relu", layer_norm_eps=1e-5),
    "bert-tanh-gelu": lambda: transformers.BertConfig(**_BERT, hidden_act="gelu_new", type_vocab_size=3),
    "distilbert": lambda: transformers.DistilBertConfig(**_DISTIL),
    "roberta": lambda: transformers.RobertaConfig(**_BERT, pad_token_id=0, type_vocab_size=1),
}


def their_model(name: str, kind: str = "AutoModelForSequenceClassification") -> Any:
    torch.manual_seed(0)
    return getattr(transformers, kind).from_config(CONFIGS[name]()).eval()


def saved(model: Any, folder: Path, **changes: Any) -> Path:
    """Their folder, with our small tokenizer and label names."""
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"id2label": {str(i): label for i, label in enumerate(LABELS)}} | changes
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = small_tokenizer()
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer.config))
    return folder


def their_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask.long()).logits
    return logits


@pytest.mark.parametrize("name", CONFIGS)
def test_their_folder_gives_their_logits_here(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    ours = load_model(saved(theirs, tmp_path / "m"))
    ids, mask = small_batch(ours)
    torch.testing.assert_close(ours.logits(ids, mask), their_logits(theirs, ids, mask), **TOLERANCE)
    assert ours.labels == LABELS
    assert ours.load_report.missing == ()
    assert ours.max_length == ours.backbone.max_positions
    assert ours.num_parameters == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("name", CONFIGS)
def test_our_folder_gives_our_logits_there(name: str, tmp_path: Path) -> None:
    ours = load_model(saved(their_model(name), tmp_path / "m"))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    ours.save(tmp_path / "again")
    theirs, info = transformers.AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "again", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert theirs.config.id2label == dict(enumerate(LABELS))
    assert theirs.config.problem_type == "single_label_classification"
    ids, mask = small_batch(ours)
    torch.testing.assert_close(their_logits(theirs.eval(), ids, mask), ours.logits(ids, mask), **TOLERANCE)


@pytest.mark.parametrize("name", CONFIGS)
def test_training_starts_from_their_dropout_and_settings(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    ours = load_model(saved(theirs, tmp_path / "m"))
    ours.save(tmp_path / "again")
    before = theirs.config.to_dict()
    after = transformers.AutoConfig.from_pretrained(tmp_path / "again").to_dict()
    ours_to_say = {"architectures", "id2label", "label2id", "problem_type", "gnomon", "classifier_dropout"}
    about_the_file = {"dtype", "transformers_version", "_name_or_path"}
    differing = {key for key in before if before[key] != after.get(key)}
    assert differing - ours_to_say - about_the_file == set()


def test_segments_are_theirs(tmp_path: Path) -> None:
    theirs = their_model("bert")
    ours = load_model(saved(theirs, tmp_path / "m"))
    ids, mask = small_batch(ours)
    segments = (torch.arange(ids.shape[1]) > 3).long().expand_as(ids)
    expected = theirs.bert(input_ids=ids, attention_mask=mask.long(), token_type_ids=segments).last_hidden_state
    hidden = ours.backbone(ids, mask=mask, segment_ids=segments).hidden
    torch.testing.assert_close(hidden[mask], expected[mask], **TOLERANCE)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert", "AutoModel"),
        ("distilbert", "AutoModel"),
        ("roberta", "AutoModel"),
        ("bert", "AutoModelForMaskedLM"),
        ("distilbert", "AutoModelForMaskedLM"),
        ("roberta", "AutoModelForMaskedLM"),
    ],
)
def test_a_folder_without_our_head_gets_a_new_one(name: str, kind: str, tmp_path: Path) -> None:
    theirs = their_model(name, kind)
    folder = saved(theirs, tmp_path / "m", id2label={"0": "LABEL_0", "1": "LABEL_1"})
    with pytest.raises(GnomonError, match="no classifier"):
        load_model(folder)
    ours = load_model(folder, labels=["x", "y"])
    assert ours.labels == ("x", "y")
    assert {"head.out.weight", "head.out.bias"} <= set(ours.load_report.missing)
    assert ("head.dense.weight" in ours.load_report.missing) == (name != "bert" or kind != "AutoModel")
    if kind == "AutoModelForMaskedLM":
        assert ours.load_report.unused
    ids, mask = small_batch(ours)
    body = theirs if kind == "AutoModel" else getattr(theirs, name)
    expected = body(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    torch.testing.assert_close(ours.backbone(ids, mask=mask).hidden[mask], expected[mask], **TOLERANCE)


def test_old_layer_norm_names_are_read(tmp_path: Path) -> None:
    folder = saved(their_model("bert"), tmp_path / "m")
    arrays = load_file(folder / "model.safetensors")
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in arrays.items()
    }
    assert set(renamed) != set(arrays)
    save_file(renamed | {"bert.embeddings.position_ids": torch.arange(40)[None]}, folder / "model.safetensors")
    ids, mask = small_batch(small_model("bert"))
    torch.testing.assert_close(
        load_model(folder).logits(ids, mask), their_logits(their_model("bert"), ids, mask), **TOLERANCE
    )


def test_what_theirs_cannot_express_is_saved_as_ours(tmp_path: Path) -> None:
    folder = saved(their_model("bert"), tmp_path / "m")
    model = load_model(folder, labels=["x", "y"], head=HeadConfig("mean"))
    assert model.hf_type is None
    assert set(model.load_report.unused) == {
        "bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"
    }  # fmt: skip
    model.save(tmp_path / "ours")
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"] == "gnomon_encoder"
    again = load_model(tmp_path / "ours")
    ids, mask = small_batch(model)
    assert torch.equal(again.logits(ids, mask), model.logits(ids, mask))


def real_sentences() -> list[str]:
    return [
        "What is the capital of Yugoslavia ?",
        "Who wrote `` The Divine Comedy '' ?",
        "How far is it from Denver to Aspen ?",
        "",
        "naïve cafés, 東京 and 😀",
    ]


@pytest.fixture(scope="module")
def minilm(minilm_folder: Path) -> Model:
    return load_model(minilm_folder, labels=["a", "b", "c"])


def test_the_real_teacher_gives_their_hidden_states(minilm: Model, minilm_folder: Path) -> None:
    theirs = transformers.BertModel.from_pretrained(minilm_folder).eval()
    ids, mask = small_batch(minilm, tuple(real_sentences()))
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask.long())
        ours = minilm(ids, mask)
        hidden = minilm.backbone(ids, mask=mask).hidden
    torch.testing.assert_close(hidden[mask], expected.last_hidden_state[mask], **TOLERANCE)
    torch.testing.assert_close(ours.pooled, expected.pooler_output, **TOLERANCE)
    assert minilm.load_report.missing == ("head.out.weight", "head.out.bias")
    assert minilm.load_report.unused == ()


def test_the_real_teacher_reads_text_as_theirs_does(minilm: Model, minilm_folder: Path) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(minilm_folder)
    expected = theirs(real_sentences())["input_ids"]
    assert [item.ids for item in minilm.tokenizer.encode_batch(real_sentences(), max_length=512)] == expected


def test_the_real_teacher_saved_loads_there(minilm: Model, tmp_path: Path) -> None:
    minilm.save(tmp_path / "teacher", card="a card")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "teacher").eval()
    ids, mask = small_batch(minilm, tuple(real_sentences()))
    with torch.inference_mode():
        torch.testing.assert_close(minilm.logits(ids, mask), their_logits(theirs, ids, mask), **TOLERANCE)
    assert read_folder(tmp_path / "teacher").labels == ("a", "b", "c")
    assert len(TEXTS) == len(minilm.predict(list(TEXTS)))
