"""Onnx files read without the onnx package, against what that package writes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from gnomon.errors import GnomonError
from gnomon.formats.onnx_file import OnnxFile, read_onnx

KINDS = (np.float32, np.uint8, np.int64)
examples = settings(deadline=None, derandomize=True, max_examples=60)


def written(arrays: dict[str, np.ndarray], notes: dict[str, str]) -> bytes:
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    node = helper.make_node("Identity", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:], constants))
    helper.set_model_props(model, notes)
    return model.SerializeToString()


@examples
@given(
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5),
    notes=st.dictionaries(st.text(min_size=1), st.text(max_size=300), max_size=3),
    seed=st.integers(0, 1000),
)
def test_what_onnx_writes_is_read(shapes: list[list[int]], notes: dict[str, str], seed: int) -> None:
    generator = np.random.default_rng(seed)
    arrays = {
        f"名 {number}": generator.integers(0, 256, shape).astype(KINDS[number % len(KINDS)])
        for number, shape in enumerate(shapes)
    }
    found = read_onnx(written(arrays, notes))
    assert dict(found.notes) == notes
    assert found.constants.keys() == arrays.keys()
    for name, array in found.constants.items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name])
        assert not array.flags.writeable


def test_a_file_is_read_as_its_bytes_are(tmp_path: Path) -> None:
    data = written({"a": np.arange(6, dtype=np.float32).reshape(2, 3)}, {"k": "v"})
    (tmp_path / "m.onnx").write_bytes(data)
    found = read_onnx(tmp_path / "m.onnx")
    assert found.notes == {"k": "v"}
    np.testing.assert_array_equal(found.constants["a"], read_onnx(data).constants["a"])


def test_a_cut_file_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(written({"a": np.ones(100, np.float32)}, {})[:-60])
    with pytest.raises(GnomonError, match=r"m\.onnx is no whole onnx file: .* bytes are missing"):
        read_onnx(path)


@examples
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(GnomonError):
        assert isinstance(read_onnx(data), OnnxFile)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").touch()
    with pytest.raises(GnomonError, match="no whole onnx file"):
        read_onnx(tmp_path / "m.onnx")
