"""Model folders that are wrong: damaged files, pickles, folders that are something else."""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.formats.arrays import read_arrays, to_bytes
from gnomon.formats.modeldir import read_config, read_model_dir

WHOLE = to_bytes({"first": np.arange(8, dtype=np.float32), "second": np.arange(6, dtype=np.int64).reshape(2, 3)})
DATA = 80
"""Bytes of WHOLE after its header."""


def refusal(path: Path) -> GnomonError:
    with pytest.raises(GnomonError) as caught:
        read_model_dir(path)
    assert caught.value.hint
    return caught.value


def model_folder(tmp_path: Path, weights: bytes | None = WHOLE, name: str = "model.safetensors") -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    if weights is not None:
        (tmp_path / name).write_bytes(weights)
    return tmp_path


@pytest.mark.parametrize("length", [0, 3, 8, 50, len(WHOLE) - 81, len(WHOLE) - 60, len(WHOLE) - 1])
def test_a_truncated_file_says_what_was_expected(tmp_path: Path, length: int) -> None:
    error = refusal(model_folder(tmp_path, WHOLE[:length]))
    assert "model.safetensors" in error.message
    assert str(length) in error.message
    assert "again" in error.hint
    if length > len(WHOLE) - 80:
        assert f"{len(WHOLE)} bytes expected, {length} found" in error.message
        assert ("tensor first is cut" in error.message) != ("tensor second is cut" in error.message)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(place=st.integers(0, len(WHOLE) - 81), byte=st.integers(0, 255))
def test_an_altered_header_never_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, place: int, byte: int
) -> None:
    path = tmp_path_factory.mktemp("altered") / "model.safetensors"
    path.write_bytes(WHOLE[:place] + bytes([byte]) + WHOLE[place + 1 :])
    # A type of the same width may stand where another did: then the same bytes are read as that.
    with contextlib.suppress(GnomonError):
        assert sum(entry.count for entry in read_arrays(path).entries.values()) in range(DATA + 1)


def test_bytes_after_the_last_tensor(tmp_path: Path) -> None:
    assert "4 bytes that no tensor" in refusal(model_folder(tmp_path, WHOLE + b"more")).message


def test_a_shape_that_its_bytes_contradict(tmp_path: Path) -> None:
    error = refusal(model_folder(tmp_path, WHOLE.replace(b"[2,3]", b"[2,4]")))
    assert "tensor second of shape [2, 4] needs 64 bytes, the header gives it 48" in error.message


def test_a_type_that_is_not_read(tmp_path: Path) -> None:
    header = {"w": {"dtype": "F8_E4M3", "shape": [4], "data_offsets": [0, 4]}}
    raw = json.dumps(header).encode()
    error = refusal(model_folder(tmp_path, len(raw).to_bytes(8, "little") + raw + bytes(4)))
    assert "w has the type F8_E4M3" in error.message


@pytest.mark.parametrize(
    "header",
    [
        "[]",
        "{",
        '{"w": 3}',
        '{"w": {"dtype": "F32"}}',
        '{"w": {"dtype": "F32", "shape": 3, "data_offsets": [0, 4]}}',
        '{"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        '{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
    ],
)
def test_a_header_that_is_none(tmp_path: Path, header: str) -> None:
    raw = header.encode()
    assert refusal(model_folder(tmp_path, len(raw).to_bytes(8, "little") + raw + bytes(4)))


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_a_pickle_is_refused_and_never_opened(tmp_path: Path) -> None:
    mark = tmp_path / "opened"
    for name in ("pytorch_model.bin", "model.pt"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        model_folder(folder, None)
        torch.save({"w": torch.ones(2), "trap": Trap(mark)}, folder / name)
        for offered in (folder, folder / name):
            error = refusal(offered)
            assert f"{name} is a pickle" in error.message
            assert "save_file" in error.hint
            assert str(folder / "model.safetensors") in error.hint
    (tmp_path / "classifier").write_bytes(pickle.dumps(Trap(mark)))
    assert "is a pickle" in refusal(tmp_path / "classifier").message
    assert not mark.exists()


def test_the_steps_that_convert_a_pickle_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_folder(tmp_path, None)
    shared = torch.arange(4.0)
    torch.save({"a": shared, "tied": shared, "part": torch.ones(3, 4).T}, folder / "pytorch_model.bin")
    hint = refusal(folder).hint
    code = hint.partition('python -c "')[2].rpartition('"')[0]
    exec("\n".join(line.removeprefix("  ") for line in code.split("\n")), {})
    assert set(read_model_dir(folder).arrays) == {"a", "tied", "part"}


def test_folders_that_are_something_else(tmp_path: Path) -> None:
    assert "no model folder" in refusal(tmp_path / "nowhere").message
    assert "no config.json" in refusal(tmp_path).message
    (tmp_path / "config.json").write_text("{}")
    assert "no model_type" in refusal(tmp_path).message
    (tmp_path / "config.json").write_text("[1")
    assert "not valid JSON" in refusal(tmp_path).message
    (tmp_path / "config.json").write_text('{"model_type": "bert", "gnomon": 3}')
    assert "not an object" in refusal(tmp_path).message
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert "no weights" in refusal(tmp_path).message
    assert read_config(tmp_path) == {"model_type": "bert"}


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    folder = model_folder(tmp_path)
    assert refusal(folder / "model.safetensors").hint == f"name its folder: {folder}"
    assert "is a file" in refusal(folder / "config.json").message
