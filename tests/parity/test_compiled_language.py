"""Decoders run by gnomon's own kernels: what they compute, and that nothing around a text changes it by a bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding.stepper import read_prompts
from gnomon.deploy.blocks import to_blocks
from gnomon.deploy.decoder import matrices
from gnomon.formats.onnx_file import read_onnx
from gnomon.models.base import Model
from gnomon.models.stepper import TorchStepper
from gnomon.runtime.language import LanguageStepper, open_runtime
from language_models import CONTEXT, bits_of, graph_of, greedy, language_model, some_ids

block_lanes = pytest.importorskip("gnomon.runtime.block_lanes", reason="numba is not installed")
if not block_lanes.available():
    pytest.skip("this is no x86 processor with AVX2", allow_module_level=True)

from gnomon.runtime.attention_lanes import KEYS  # noqa: E402
from gnomon.runtime.block_kernels import Arena, Matrix, Numbers, round_row, times  # noqa: E402
from gnomon.runtime.compiled import CompiledModel  # noqa: E402

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "rope": ("rope", {}),
    "grouped": ("rope-grouped-normed", {"num_attention_heads": 6, "num_key_value_heads": 2}),
    "yarn": ("rope-yarn", {}),
    "sliding": ("rope-sliding", {"num_key_value_heads": 1}),
    "biased": ("rope", {"attention_bias": True, "attention_output_bias": True, "mlp_bias": True}),
    "many-heads": ("rope", {"num_attention_heads": 7, "num_key_value_heads": 1, "head_dim": 16}),
}
each_case = pytest.mark.parametrize("name", CASES)
each_width = pytest.mark.parametrize("bits", [8, 4])


def small(name: str) -> Model:
    base, changes = CASES[name]
    return language_model(base, spread=0.05, **({"hidden_size": 32} | changes))


def compiled(model: Model, bits: int, *, threads: int = 1) -> LanguageStepper:
    runtime = CompiledModel(read_onnx(graph_of(model, bits=bits)), threads=threads)
    return LanguageStepper(runtime, max_length=CONTEXT)


@each_width
@pytest.mark.parametrize(("rows", "blocks"), [(16, 1), (40, 3), (7, 2)])
@pytest.mark.parametrize("count", [1, 4, 7])
def test_products_are_those_of_the_rounded_numbers(bits: int, rows: int, blocks: int, count: int) -> None:
    generator = np.random.default_rng(rows)
    size = 32 if bits == 4 else 64
    weight = (generator.normal(size=(rows, blocks * size)) * 1e-3 + 1e-3).astype(np.float32)
    stored = to_blocks(weight, bits=bits)
    bias = generator.normal(size=rows).astype(np.float32)
    packed = stored.packed()
    matrix = Matrix(packed, stored.scales, stored.centres, bias, arena=Arena(Matrix.bytes_of(packed)))
    x = generator.normal(size=(count, blocks * size)).astype(np.float32)
    numbers = Numbers.room(count, blocks * size)
    for row in range(count):
        round_row(x[row], numbers, row, matrix.description)
    out = generator.normal(size=(count, 16 * matrix.tiles)).astype(np.float32)
    stream = generator.normal(size=out.shape).astype(np.float32)
    spans = x.reshape(count, -1, 32)
    steps = np.abs(spans).max(-1, keepdims=True) / 127
    rounded = (np.rint(spans / steps) * steps).reshape(count, -1)
    wanted = rounded.astype(np.float64) @ stored.values().T.astype(np.float64) + bias
    times(matrix.description, 0, matrix.tiles, numbers, count, out, False)
    np.testing.assert_allclose(out[:, :rows], wanted, atol=1e-5)
    added = stream.copy()
    times(matrix.description, 0, matrix.tiles, numbers, count, added, True)
    np.testing.assert_allclose(added[:, :rows], (stream + out)[:, :rows], atol=1e-5)


@each_width
@each_case
def test_the_model_computes_what_its_numbers_say(name: str, bits: int) -> None:
    """The torch model with the rounded numbers in its place: what is left is the rounding of activations to 8 bits."""
    model = small(name)
    stepper = compiled(model, bits)
    config: Any = model.backbone.config
    with torch.no_grad():
        for key in matrices(config, model.head_config):
            weight = model.get_parameter(key)
            if ".attention.output." in key and config.head_size % 16:
                continue  # whose columns are padded between, so that its blocks are others
            weight.copy_(torch.from_numpy(to_blocks(weight.numpy(), bits=bits_of(key, bits)).values()))
    prompts = [some_ids(150 - 40 * row, seed=row) for row in range(3)]
    found, wanted = (read_prompts(one, prompts, pad_id=0, max_new_tokens=1) for one in (stepper, TorchStepper(model)))
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.99


@each_width
@each_case
@settings(deadline=None, derandomize=True, max_examples=12)
@given(data=st.data())
def test_calls_batch_mates_padding_chunks_and_threads_change_no_bit(name: str, bits: int, data: st.DataObject) -> None:
    model = small(name)
    stepper, alone = compiled(model, bits, threads=data.draw(st.integers(1, 2))), compiled(model, bits)
    rows = [some_ids(data.draw(st.integers(1, 2 * KEYS)), seed=row) for row in range(data.draw(st.integers(1, 5)))]
    chunk = data.draw(st.integers(1, 90))
    logits = read_prompts(stepper, rows, pad_id=0, max_new_tokens=1, chunk=chunk)
    for number in range(data.draw(st.integers(0, 4))):
        call = data.draw(st.sampled_from(["step", "append", "reorder"]))
        if call == "reorder":
            chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=4))
            stepper.reorder(np.array(chosen))
            rows = [list(rows[row]) for row in chosen]
        width = 3 if call == "append" else 1
        new = [some_ids(width, seed=10 * number + row) for row in range(len(rows))]
        rows = [[*row, *more] for row, more in zip(rows, new, strict=True)]
        ids = np.array(new)
        logits = stepper.prefill(ids, np.ones(ids.shape, bool)) if width > 1 else stepper.step(ids[:, 0])
    for row, found in zip(rows, logits, strict=True):
        np.testing.assert_array_equal(found, read_prompts(alone, [row], pad_id=0, max_new_tokens=1)[0])


@each_width
def test_500_cached_tokens_are_those_of_reading_again(bits: int) -> None:
    stepper = compiled(small("grouped"), bits)
    prompt = some_ids(4)
    tokens = greedy(stepper, [prompt], 500)[0]
    for length in (1, 63, 64, 65, 200, 500):
        again = read_prompts(stepper, [[*prompt, *tokens[: length - 1]]], pad_id=0, max_new_tokens=1)
        assert again.argmax() == tokens[length - 1]


@each_width
def test_scores_of_given_text_are_those_of_its_steps_and_leave_the_state_alone(bits: int) -> None:
    stepper = compiled(small("rope"), bits)
    ids, mask = np.zeros((2, 200), np.int64), np.zeros((2, 200), bool)
    for row, length in enumerate((200, 5)):
        ids[row, :length], mask[row, :length] = some_ids(length, seed=length), True
    before = read_prompts(stepper, [some_ids(3)], pad_id=0, max_new_tokens=1)
    scores = stepper.score(ids, mask)
    after = stepper.step(np.array([6]))
    stepper.trim(3)
    np.testing.assert_array_equal(stepper.step(np.array([6])), after)
    assert before.shape == after.shape
    logits = read_prompts(stepper, [ids[0, :150].tolist()], pad_id=0, max_new_tokens=1)[0].astype(np.float64)
    expected = logits[ids[0, 150]] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    assert scores[0, 150] == pytest.approx(expected, abs=1e-4)


def test_a_row_of_padding_alone_waits_for_its_text() -> None:
    stepper = compiled(small("rope"), 8)
    ids = np.array([some_ids(4), some_ids(4, seed=1)])
    mask = np.array([[True] * 4, [False] * 4])
    assert (stepper.prefill(ids, mask)[1] == 0).all()
    logits = stepper.prefill(ids[:, :2], np.ones((2, 2), bool))
    alone = read_prompts(compiled(small("rope"), 8), [ids[1, :2].tolist()], pad_id=0, max_new_tokens=1)
    np.testing.assert_array_equal(logits[1], alone[0])


@each_case
def test_the_runtime_that_opens_narrow_graphs_is_our_own(name: str) -> None:
    model = small(name)
    assert isinstance(open_runtime(graph_of(model, bits=8)), CompiledModel)
    assert not isinstance(open_runtime(graph_of(model)), CompiledModel)


@pytest.mark.parametrize("name", ["learned", "none", "ngrams", "sinusoidal"])
def test_what_our_kernels_do_not_know_onnxruntime_computes(name: str) -> None:
    model = language_model(name, spread=0.05, hidden_size=32)
    assert not isinstance(open_runtime(graph_of(model, bits=8)), CompiledModel)


_OLDER = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c,+avx,+sse4.2,+sse4.1,+ssse3,+popcnt"}
_PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from gnomon.runtime import block_lanes
from gnomon.runtime.language import open_runtime
assert block_lanes.available() and not block_lanes.VNNI
for graph in sys.argv[1:]:
    path = Path(graph)
    ids = np.load(path.with_suffix(".ids.npy"))
    np.save(path.with_suffix(".npy"), open_runtime(path).rows(1).read(ids))
"""


def test_a_processor_without_vnni_computes_the_same(tmp_path: Path) -> None:
    ids = np.array(some_ids(70))
    for bits in (8, 4):
        (tmp_path / f"{bits}.onnx").write_bytes(graph_of(small("grouped"), bits=bits))
        np.save(tmp_path / f"{bits}.ids.npy", ids)
    graphs = [str(tmp_path / f"{bits}.onnx") for bits in (8, 4)]
    subprocess.run([sys.executable, "-c", _PROGRAM, *graphs], check=True, env=os.environ | _OLDER)
    for bits in (8, 4):
        here = CompiledModel(read_onnx(tmp_path / f"{bits}.onnx"), threads=1).rows(1).read(ids)
        np.testing.assert_allclose(np.load(tmp_path / f"{bits}.npy"), here, atol=1e-4)
