"""The models of `benchmarks/generate.py`, made once in build/generate: folders, graphs and GGUF files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnomon.formats.gguf import read_gguf
from gnomon.formats.modeldir import write_model_dir
from gnomon.recipes import export
from gnomon.recipes.demo import demo_questions
from gnomon.recipes.language_models import write_gguf_as_folder
from gnomon.recipes.smollm2 import smollm2
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_training import train_on

RANDOM = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 32_000,
    "hidden_size": 288,
    "intermediate_size": 768,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "head_dim": 48,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def smollm2_folder(work: Path) -> Path:
    """SmolLM2-135M of its package, whose 4-bit weights are written out in full, as a Hugging Face folder."""
    folder = work / "smollm2"
    if not folder.exists():
        write_gguf_as_folder(read_gguf(smollm2()), folder)
    return folder


def random_folder(work: Path) -> Path:
    """A Llama of 15 M parameters drawn at random."""
    folder = work / "15m"
    if folder.exists():
        return folder
    generator = np.random.default_rng(0)
    size, inner, layers = RANDOM["hidden_size"], RANDOM["intermediate_size"], RANDOM["num_hidden_layers"]
    shapes = {"model.embed_tokens": (RANDOM["vocab_size"], size)}
    for layer in range(layers):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.self_attn.{part}_proj": (size, size) for part in "qkvo"}
        shapes |= {f"{name}.mlp.{part}_proj": (inner, size) for part in ("gate", "up")}
        shapes[f"{name}.mlp.down_proj"] = (size, inner)
    arrays = {f"{name}.weight": generator.normal(0, 0.02, shape).astype(np.float32) for name, shape in shapes.items()}
    norms = [f"model.layers.{n}.{part}_layernorm" for n in range(layers) for part in ("input", "post_attention")]
    arrays |= {f"{name}.weight": np.ones(size, np.float32) for name in (*norms, "model.norm")}
    tokenizer = train_on(demo_questions().texts[:500], size=1000).tokenizer
    write_model_dir(
        folder,
        config=RANDOM,
        arrays=arrays,
        tokenizer_json=tokenizer.to_json(),
        tokenizer_config=tokenizer.config,
        card="# A Llama of random weights\n",
    )
    return folder


def exported(folder: Path, *, bits: int, to: str = "onnx") -> Path:
    """The folder's graph, or its GGUF file, with weights of `bits`."""
    out = folder.with_name(f"{folder.name}-{to}-{bits}") / ("" if to == "onnx" else "model.gguf")
    if not out.exists():
        print(export.run(export.Config(model=str(folder), out=out, to=to, bits=bits)).shown())
    return out


def prompts(folder: Path, rows: int, length: int) -> np.ndarray:
    """Real questions as ids [rows, length] where the tokenizer is the model's, drawn at random for the other."""
    if folder.name == "15m":
        return np.random.default_rng(0).integers(3, RANDOM["vocab_size"], (rows, length))
    return np.array(question_ids(folder)[: rows * length]).reshape(rows, length)


def question_ids(folder: Path) -> list[int]:
    """The demonstration's questions, one a line, as ids."""
    return Tokenizer.from_dir(folder).encode("\n".join(demo_questions().texts[:2000])).ids
