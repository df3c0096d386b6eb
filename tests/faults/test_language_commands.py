"""What goes wrong on the way from raw text to a language model: one clear message, exit 2, nothing half done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gnomon.cli.main import run
from gnomon.errors import GnomonError
from gnomon.models.folders import load_language_model
from gnomon.text.shards import TokenPart
from gnomon.text.windows import PackedBatches

TEXT = "\n".join(f"line {number} of a small text about nothing, the {number * 7919 % 101}th" for number in range(80))
SMALL = ["--depth", "1", "--context", "16", "--steps", "3", "--batch-tokens", "64", "--threads", "1", "--quiet"]
Refused = Callable[..., str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """text.txt, the tokenizers `bytes` and `other`, tokens `data`, and a model `run`."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    for name, size in (("bytes", "300"), ("other", "264")):
        assert run(["tokenizer", "train", f"{folder}/text.txt", "--size", size, "--out", f"{folder}/{name}"]) == 0
    tokens = ["prepare", f"{folder}/text.txt", "--separator", "\n", "--tokenizer", f"{folder}/bytes"]
    assert run([*tokens, "--out", f"{folder}/data", "--valid-share", "0.2"]) == 0
    assert run(["pretrain", f"{folder}/data", *SMALL, "--out", f"{folder}/run"]) == 0
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy of `made` to spoil."""
    shutil.copytree(made, tmp_path / "made")
    return tmp_path / "made"


def shard(place: Path) -> Path:
    (path,) = (place / "data").glob("train-*.tokens")
    return path


def test_empty_text_teaches_nothing(place: Path, refused: Refused) -> None:
    (place / "empty.txt").write_text(" \n\n", encoding="utf-8")
    assert "no text to learn" in refused("tokenizer", "train", place / "empty.txt", "--out", place / "t")
    prepare = ["prepare", place / "empty.txt", "--tokenizer", place / "bytes", "--out", place / "d"]
    assert "there is no text to train on" in refused(*prepare)
    assert not (place / "d").exists()
    assert "holds no token to score" in refused("evaluate", place / "run", place / "empty.txt")


def test_a_token_beyond_the_vocabulary_is_named(place: Path, refused: Refused) -> None:
    index = json.loads((place / "data/index.json").read_text())
    index["parts"]["train"]["shards"][0]["largest_id"] = 5000
    (place / "data/index.json").write_text(json.dumps(index))
    assert "token id 5,000" in refused("pretrain", place / "data", *SMALL, "--out", place / "r")
    assert not (place / "r").exists()


def test_the_tokenizer_of_another_model_is_refused(place: Path, refused: Refused) -> None:
    words = ["prepare", place / "text.txt", "--separator", "\n", "--tokenizer", place / "other", "--out", place / "d"]
    assert run([str(word) for word in words]) == 0
    said = refused("pretrain", place / "d", *SMALL, "--start-from", place / "run", "--out", place / "r")
    assert "prepared with another tokenizer" in said


def test_weights_that_are_no_numbers_are_found(place: Path, refused: Refused) -> None:
    model = load_language_model(place / "run/model")
    with torch.no_grad():
        model.backbone.get_parameter("layers.0.attention.output.weight")[0, 0] = float("nan")
    model.save(place / "damaged")
    said = refused("pretrain", place / "data", *SMALL, "--start-from", place / "damaged", "--out", place / "r")
    assert "the weights backbone.layers.0.attention.output.weight" in said
    assert "no numbers" in refused("evaluate", place / "damaged", place / "text.txt")


def test_a_truncated_shard_and_a_changed_one_are_named(place: Path, refused: Refused) -> None:
    path = shard(place)
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    assert f"{path.name} has" in refused("pretrain", place / "data", *SMALL, "--out", place / "r")
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert "has changed since it was written" in refused("pretrain", place / "data", *SMALL, "--out", place / "r")
    assert not (place / "r").exists()


def test_a_full_disk_ends_the_run_with_a_clear_word(place: Path, small_disk: Path, refused: Refused) -> None:
    wide = ["--model.hidden-size", "512", "--out", small_disk / "r"]
    assert "free some space" in refused("pretrain", place / "data", *SMALL, *wide)
    assert not (small_disk / "r/model").exists()


def test_what_does_not_fit_together_is_refused_before_anything_is_made(place: Path, refused: Refused) -> None:
    def said(*words: str) -> str:
        return refused("pretrain", place / "data", *SMALL, "--out", place / "r", *words)

    assert "the preset fast is for decoders" in said("--preset", "fast", "--family", "recurrent")
    assert "no part 'cell'" in said("--model.cell", "lstm")
    assert "heads do not divide" in said("--model.hidden-size", "30", "--model.num-attention-heads", "4")
    assert "sample_prompt has" in said("--sample-prompt", "word " * 30)
    assert "holds no prepared tokens" in refused("pretrain", place / "bytes", *SMALL)
    assert "depth is 0" in refused("pretrain", place / "data", "--depth", "0", "--out", place / "r")


def test_folders_in_use_are_kept(place: Path, refused: Refused) -> None:
    assert "holds a tokenizer already" in refused("tokenizer", "train", place / "text.txt", "--out", place / "bytes")
    words = ["prepare", place / "text.txt", "--tokenizer", place / "bytes", "--out"]
    assert "holds prepared tokens already" in refused(*words, place / "data")
    assert "something else" in refused(*words, place / "run")
    assert "other settings" in refused("pretrain", place / "data", *SMALL, "--seed", "5", "--out", place / "run")


def test_language_models_and_classifiers_are_not_measured_together(place: Path, refused: Refused) -> None:
    assert "no model folder" in refused("evaluate", place / "nothing", place / "text.txt")
    assert "stride" in refused("evaluate", place / "run", place / "text.txt", "--stride", "16", "--context", "16")
    assert "at most 16 tokens" in refused("evaluate", place / "run", place / "text.txt", "--context", "17")


def test_a_single_token_is_too_little(tmp_path: Path) -> None:
    part = TokenPart(tmp_path, "<u2", tokens=1, documents=1, bytes=1, unknown=0, entries=())
    with pytest.raises(GnomonError, match="has 1 tokens"):
        PackedBatches(part, batch_size=1, length=4, vocab_size=9)
