"""safetensors files as lazy numpy arrays."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file
from safetensors.torch import save_file

from gnomon.errors import GnomonError
from gnomon.formats.arrays import read_arrays, read_sharded, to_bytes

TYPES = [np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint64, np.bool_]
any_array = st.sampled_from(TYPES).flatmap(
    lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(arrays=st.dictionaries(st.text(min_size=1, max_size=6), any_array, max_size=5), mapped=st.booleans())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, arrays: dict, mapped: bool) -> None:
    arrays.pop("__metadata__", None)
    path = tmp_path_factory.mktemp("arrays") / "a.safetensors"
    path.write_bytes(to_bytes(arrays))
    found = read_arrays(path, mapped=mapped)
    assert set(found) == set(arrays) == set(load_file(path))
    for name, array in arrays.items():
        assert found.shape(name) == array.shape
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened_exactly(kind: torch.dtype, tmp_path: Path) -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e-3, 3e4, float("inf"), float("nan"), 6e-8]).to(kind).reshape(3, 3)
    save_file({"w": values}, tmp_path / "a.safetensors")
    for mapped in (False, True):
        found = read_arrays(tmp_path / "a.safetensors", mapped=mapped)["w"]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, values.float().numpy())


def test_arrays_are_read_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(to_bytes({"a": np.arange(4), "b": np.arange(2)}))
    found = read_arrays(path)
    path.write_bytes(to_bytes({"a": np.arange(4) + 10, "b": np.arange(2)}))
    assert found["a"].tolist() == [10, 11, 12, 13]
    found["a"][0] = 7
    assert found["a"][0] == 10, "each access reads afresh"


def test_mapped_arrays_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(to_bytes({"a": np.arange(4)}))
    with pytest.raises(ValueError, match="read-only"):
        read_arrays(tmp_path / "a.safetensors", mapped=True)["a"][0] = 1


def test_views_and_transposes_are_written_as_they_look(tmp_path: Path) -> None:
    whole = np.arange(12.0).reshape(3, 4)
    path = tmp_path / "a.safetensors"
    path.write_bytes(to_bytes({"t": whole.T, "s": whole[:, ::2]}))
    np.testing.assert_array_equal(read_arrays(path)["t"], whole.T)
    np.testing.assert_array_equal(read_arrays(path)["s"], whole[:, ::2])


def write_shards(folder: Path) -> Path:
    (folder / "one.safetensors").write_bytes(to_bytes({"a": np.arange(3), "b": np.ones(2)}))
    save_file({"c": torch.full((2, 2), 1.5, dtype=torch.bfloat16)}, folder / "two.safetensors")
    index = folder / "model.safetensors.index.json"
    places = {"a": "one.safetensors", "b": "one.safetensors", "c": "two.safetensors"}
    index.write_text(json.dumps({"metadata": {"total_size": 48}, "weight_map": places}))
    return index


def test_shards_are_one_mapping(tmp_path: Path) -> None:
    found = read_sharded(write_shards(tmp_path))
    assert list(found) == ["a", "b", "c"]
    assert found["c"].tolist() == [[1.5, 1.5], [1.5, 1.5]]


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ({"a": "../one.safetensors"}, "outside its folder"),
        ({"a": "three.safetensors"}, "three.safetensors, which is not there"),
        ({"z": "one.safetensors"}, "no file holds, first z"),
        ({"a": 3}, "no weight_map"),
        (None, "no weight_map"),
    ],
)
def test_an_index_that_does_not_fit_its_files(tmp_path: Path, places: object, words: str) -> None:
    index = write_shards(tmp_path)
    index.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(GnomonError, match=words):
        read_sharded(index)
