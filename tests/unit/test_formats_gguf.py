"""GGUF files written and read: values, types, metadata, names, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.formats.ggml_blocks import BY_NAME
from gnomon.formats.gguf import read_gguf, write_gguf
from gnomon.formats.gguf_models import Storage, from_gguf, to_gguf

METADATA = {
    "general.architecture": "llama",
    "text": "né 你",
    "yes": True,
    "count": 4_000_000_000,
    "below": -3,
    "share": 0.5,
    "names": ["a", "", "你"],
    "kinds": [1, -2, 3],
    "scores": [0.5, -1.0],
    "none": [],
}
CONFIG = {
    "model_type": "llama",
    "vocab_size": 7,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}


@pytest.fixture
def arrays():
    generator = np.random.default_rng(0)
    return {
        "token_embd.weight": generator.normal(size=(7, 64)).astype(np.float32),
        "norm": generator.normal(size=5).astype(np.float32),
        "cube": generator.normal(size=(2, 3, 32)).astype(np.float32),
    }


def model_arrays(config=CONFIG, *, biases=False):
    generator = np.random.default_rng(1)
    width, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    shared = width // heads * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (7, width), "model.norm.weight": (width,), "lm_head.weight": (7, width)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        for name, shape in (
            ("self_attn.q_proj", (width, width)),
            ("self_attn.k_proj", (shared, width)),
            ("self_attn.v_proj", (shared, width)),
            ("self_attn.o_proj", (width, width)),
            ("mlp.gate_proj", (inner, width)),
            ("mlp.up_proj", (inner, width)),
            ("mlp.down_proj", (width, inner)),
        ):
            shapes[f"{prefix}{name}.weight"] = shape
            if biases and "attn" in name:
                shapes[f"{prefix}{name}.bias"] = shape[:1]
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def test_metadata_and_float32_come_back_exactly(tmp_path, arrays):
    path = tmp_path / "a" / "model.gguf"
    write_gguf(path, metadata=METADATA, arrays=arrays, type_of=lambda name, shape: "F32")
    found = read_gguf(path)
    assert found.metadata == METADATA
    assert list(found.arrays) == list(arrays)
    assert found.types() == {"F32": 3}
    for name, array in arrays.items():
        assert found.arrays[name].dtype == np.float32
        assert (found.arrays[name] == array).all()
    assert all(entry.start % 32 == 0 for entry in found.arrays.entries.values())


@pytest.mark.parametrize(("name", "step"), [("F16", 1e-3), ("Q8_0", 0.02), ("Q4_0", 0.4)])
def test_narrow_types_come_back_near(tmp_path, arrays, name, step):
    path = tmp_path / "model.gguf"
    del arrays["norm"]
    write_gguf(path, metadata={}, arrays=arrays, type_of=lambda tensor, shape: name)
    found = read_gguf(path).arrays
    assert all(np.abs(found[tensor] - array).max() < step for tensor, array in arrays.items())
    again = tmp_path / "again.gguf"
    write_gguf(again, metadata={}, arrays=found, type_of=lambda tensor, shape: name)
    assert again.read_bytes() == path.read_bytes()


@given(st.lists(st.floats(-100, 100, width=32), min_size=32, max_size=32))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_blocks_err_by_at_most_half_a_step(values):
    row = np.array(values, np.float32)
    largest = float(np.abs(row).max())
    for name, levels in (("Q8_0", 127), ("Q4_0", 8)):
        kind = BY_NAME[name]
        found = kind.decode(kind.encode(row).reshape(-1)).reshape(-1)
        slack = 0.51 if name == "Q8_0" else 1.01  # Q4_0 has no +8: the value opposite the largest loses a whole step
        assert np.abs(found - row).max() <= slack * largest / levels + largest * 1e-3


@pytest.mark.parametrize("biases", [False, True])
def test_a_llama_folder_survives_the_way_there_and_back(tmp_path, biases):
    config, arrays = {**CONFIG, "attention_bias": biases}, model_arrays(biases=biases)
    metadata, renamed = to_gguf(config, arrays, storage=Storage("F32"))
    path = tmp_path / "model.gguf"
    write_gguf(path, metadata=metadata, arrays=renamed, type_of=Storage("F32"))
    again, back = from_gguf(read_gguf(path))
    assert set(back) == set(arrays)
    assert all((back[name] == array).all() for name, array in arrays.items())
    assert {key: again[key] for key in config} == config
    query = read_gguf(path).arrays["blk.0.attn_q.weight"]
    assert (query != arrays["model.layers.0.self_attn.q_proj.weight"]).any()  # llama.cpp's order of rows
    assert (query[:4] == arrays["model.layers.0.self_attn.q_proj.weight"][[0, 4, 1, 5]]).all()


def test_a_qwen3_folder_keeps_its_rows_and_drops_a_tied_head(tmp_path):
    config = {**CONFIG, "model_type": "qwen3", "head_dim": 8, "tie_word_embeddings": True}
    arrays = model_arrays()
    arrays |= {f"model.layers.{n}.self_attn.{p}_norm.weight": np.ones(8, np.float32) for n in range(2) for p in "qk"}
    metadata, renamed = to_gguf(config, arrays, storage=Storage("F32"))
    write_gguf(tmp_path / "m.gguf", metadata=metadata, arrays=renamed, type_of=Storage("F32"))
    again, back = from_gguf(read_gguf(tmp_path / "m.gguf"))
    assert set(back) == set(arrays) - {"lm_head.weight"}
    assert again["tie_word_embeddings"]
    assert again["head_dim"] == 8
    name = "model.layers.1.self_attn.k_proj.weight"
    assert (renamed["blk.1.attn_k.weight"] == arrays[name]).all()


def test_storage_keeps_vectors_wide_and_falls_back_where_blocks_do_not_fit():
    four = Storage("Q4_0")
    assert four("output_norm.weight", (64,)) == "F32"
    assert four("blk.0.ffn_up.weight", (48, 64)) == "Q4_0"
    assert four("blk.0.ffn_down.weight", (64, 172)) == "F16"
    assert four("token_embd.weight", (7, 64)) == "Q8_0"
    assert Storage("F32")("blk.0.ffn_down.weight", (64, 172)) == "F32"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "bert"}, "'bert' are not written"),
        ({"hidden_act": "gelu"}, "'gelu'"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "rope scaling"),
        ({"model_type": "mistral", "sliding_window": 32}, "sliding window"),
    ],
)
def test_models_gguf_cannot_express_are_refused(change, message):
    with pytest.raises(GnomonError, match=message):
        to_gguf({**CONFIG, **change}, model_arrays(), storage=Storage("F32"))


def test_a_tensor_without_a_counterpart_is_named(tmp_path, arrays):
    with pytest.raises(GnomonError, match=r"model\.layers\.0\.extra\.weight"):
        extra = {"model.layers.0.extra.weight": arrays["norm"]}
        to_gguf(CONFIG, model_arrays() | extra, storage=Storage("F32"))
    metadata, renamed = to_gguf(CONFIG, model_arrays(), storage=Storage("F32"))
    for name, message in (("blk.0.ffn_gate_inp.weight", "ffn_gate_inp"), ("rope_freqs.weight", "stretched context")):
        more = {**renamed, name: arrays["norm"]}
        write_gguf(tmp_path / "m.gguf", metadata=metadata, arrays=more, type_of=Storage("F32"))
        with pytest.raises(GnomonError, match=message):
            from_gguf(read_gguf(tmp_path / "m.gguf"))


def test_other_types_and_architectures_are_refused_by_name(tmp_path, arrays):
    path = tmp_path / "model.gguf"
    write_gguf(path, metadata=METADATA, arrays=arrays, type_of=lambda name, shape: "F32")
    data = path.read_bytes()
    row = struct.pack("<Q4sIQIQ", 4, b"norm", 1, 5, 0, read_gguf(path).arrays.entries["norm"].start)
    place = data.index(row[:-12])
    path.write_bytes(data[: place + 24] + struct.pack("<I", 12) + data[place + 28 :])
    with pytest.raises(GnomonError, match=r"norm is stored as Q4_K"):
        read_gguf(path)
    write_gguf(path, metadata={"general.architecture": "gemma"}, arrays={}, type_of=Storage("F32"))
    with pytest.raises(GnomonError, match="'gemma'"):
        from_gguf(read_gguf(path))
    for name in ("Q4_K", "Q4_1", "BF16"):
        with pytest.raises(GnomonError, match="not written as"):
            write_gguf(path, metadata={}, arrays=arrays, type_of=lambda tensor, shape, name=name: name)
    with pytest.raises(GnomonError, match="whole blocks"):
        write_gguf(path, metadata={}, arrays=arrays, type_of=lambda tensor, shape: "Q8_0")
    with pytest.raises(GnomonError, match="Q5_1"):
        Storage("Q5_1")


def test_a_file_cut_anywhere_is_refused_and_never_read_in_part(tmp_path, arrays):
    path, cut = tmp_path / "model.gguf", tmp_path / "cut.gguf"
    write_gguf(path, metadata=METADATA, arrays=arrays, type_of=lambda name, shape: "F32")
    data = path.read_bytes()
    last = read_gguf(path).arrays.entries["cube"]
    end = last.start + 4 * 2 * 3 * 32
    for length in [*range(4, 700, 23), len(data) // 2, end - 1]:
        cut.write_bytes(data[:length])
        with pytest.raises(GnomonError, match=r"is cut"):
            read_gguf(cut)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no GGUF file"),
        (b"PK\x03\x04 more", "no GGUF file"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(16), "version 1"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60), "cut or damaged"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**61), "cut or damaged"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 99), "unknown kind"),
    ],
)
def test_what_is_no_gguf_is_refused(tmp_path, content, message):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(GnomonError, match=message):
        read_gguf(path)


def test_a_missing_file_and_a_failed_write(tmp_path, arrays):
    with pytest.raises(GnomonError, match="cannot read"):
        read_gguf(tmp_path / "no.gguf")
    path = tmp_path / "model.gguf"
    write_gguf(path, metadata={}, arrays=arrays, type_of=Storage("F32"))
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_gguf(path, metadata={"bad": object()}, arrays=arrays, type_of=Storage("F32"))
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["model.gguf"]
