"""Prepared tokens that were cut, changed, moved or made by another tokenizer are refused by name."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from gnomon.errors import GnomonError
from gnomon.text.prepare import Layout, prepare
from gnomon.text.shards import TokenData
from gnomon.text.tokenizer_training import train_on


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"some words {number}" for number in range(200)))
    tokenizer = train_on(["some words"] * 5, size=300).tokenizer
    return prepare([path], tmp_path / "out", tokenizer=tokenizer, layout=Layout(separator="\n", valid_share=0.3))


def shard(data):
    return data.path / data.train.entries[0].name


def rewrite(data, change):
    content = json.loads((data.path / "index.json").read_text())
    change(content)
    (data.path / "index.json").write_text(json.dumps(content))


def test_a_truncated_shard(data):
    with shard(data).open("r+b") as file:
        file.truncate(shard(data).stat().st_size - 3)
    with pytest.raises(GnomonError, match=r"train-00000\.tokens has .* bytes, and .* were written"):
        TokenData.open(data.path)


def test_a_shard_changed_after_indexing(data):
    with shard(data).open("r+b") as file:
        file.write(b"\x07")
    with pytest.raises(GnomonError, match=r"train-00000\.tokens has changed"):
        TokenData.open(data.path)


def test_a_change_that_hides_its_time_is_found_when_every_byte_is_read(data):
    with shard(data).open("r+b") as file:
        file.write(b"\x07")
    os.utime(shard(data), ns=(data.train.entries[0].modified,) * 2)
    TokenData.open(data.path)
    with pytest.raises(GnomonError, match="has changed"):
        TokenData.open(data.path, every_byte=True)


def test_a_copied_folder_is_as_good(data, tmp_path):
    copied = shutil.copytree(data.path, tmp_path / "copy", copy_function=shutil.copyfile)
    assert TokenData.open(copied).train.document(3).tolist() == data.train.document(3).tolist()


def test_a_missing_shard(data):
    shard(data).unlink()
    with pytest.raises(GnomonError, match=r"train-00000\.tokens: no such file"):
        TokenData.open(data.path)


def test_another_tokenizer(data):
    TokenData.open(data.path, tokenizer=data.tokenizer())
    with pytest.raises(GnomonError, match="another tokenizer"):
        TokenData.open(data.path, tokenizer=train_on(["other text"] * 5, size=300).tokenizer)


def test_a_tokenizer_swapped_in_the_folder(data):
    other = train_on(["other text"] * 5, size=300).tokenizer
    (data.path / "tokenizer.json").write_text(other.to_json())
    with pytest.raises(GnomonError, match="not the one that made"):
        data.tokenizer()


def test_a_token_beyond_the_models_vocabulary(data):
    data.check_vocabulary(data.vocab_size)
    with pytest.raises(GnomonError, match=r"train-00000\.tokens holds the token id \d+, and .* the ids 0 to 9"):
        data.check_vocabulary(10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop("format"), "no index of prepared tokens"),
        (lambda content: content["parts"].pop("valid"), "damaged"),
        (lambda content: content["parts"]["train"]["shards"][0].pop("sha256"), "damaged"),
        (lambda content: content["parts"]["train"]["shards"][0].update(name="../x"), "outside the folder"),
        (lambda content: content.update(dtype="nonsense"), "damaged"),
        (lambda content: content["parts"]["train"]["shards"][0].update(tokens=10**6), "shorter than its index"),
    ],
)
def test_a_damaged_index(data, change, message):
    rewrite(data, change)
    with pytest.raises(GnomonError, match=message):
        TokenData.open(data.path).train.read(0, 5)


def test_a_folder_without_tokens(tmp_path):
    with pytest.raises(GnomonError, match="holds no prepared tokens"):
        TokenData.open(tmp_path)
