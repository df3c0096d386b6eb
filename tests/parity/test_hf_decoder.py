"""Language models against the `transformers` library, both ways, and the real Llama beside the checkout."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from families import WORDS, small_tokenizer
from gnomon.decoding.logprobs import score_rows
from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.folders import load_language_model, load_model, read_folder
from gnomon.models.stepper import TorchStepper

transformers = pytest.importorskip("transformers")
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}

_SIZES: dict[str, Any] = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 3, "intermediate_size": 48}
_SIZES |= {"num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.2}
_SIZES |= {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
_GROUPED = _SIZES | {"num_key_value_heads": 2}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 1000.0}
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 5000.0}
_LLAMA3 |= {"original_max_position_embeddings": 24}
_GPT2: dict[str, Any] = {"vocab_size": len(WORDS), "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}
_GPT2 |= {"initializer_range": 0.2, "bos_token_id": 2, "eos_token_id": 3}

CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(**_GROUPED),
    "llama-tied-biased": lambda: transformers.LlamaConfig(
        **_GROUPED, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=10, hidden_act="gelu"
    ),
    "llama-linear": lambda: transformers.LlamaConfig(
        **_SIZES, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}
    ),
    "llama-llama3": lambda: transformers.LlamaConfig(**_GROUPED, rope_parameters=dict(_LLAMA3)),
    "llama-yarn": lambda: transformers.LlamaConfig(**_GROUPED, rope_parameters=dict(_YARN)),
    "qwen2": lambda: transformers.Qwen2Config(**_GROUPED, tie_word_embeddings=True),
    "qwen2-sliding": lambda: transformers.Qwen2Config(
        **_GROUPED, use_sliding_window=True, sliding_window=5, max_window_layers=1
    ),
    "qwen3": lambda: transformers.Qwen3Config(**_GROUPED, head_dim=12, tie_word_embeddings=True),
    "mistral": lambda: transformers.MistralConfig(**_GROUPED, sliding_window=6),
    "mistral-full": lambda: transformers.MistralConfig(**_GROUPED, sliding_window=None),
    "gpt2": lambda: transformers.GPT2Config(**_GPT2),
    "gpt2-untied": lambda: transformers.GPT2Config(
        **_GPT2, n_inner=40, activation_function="relu", tie_word_embeddings=False, resid_pdrop=0.2
    ),
}
each_type = pytest.mark.parametrize("name", CONFIGS)


def their_model(name: str) -> Any:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def saved(model: Any, folder: Path, **changes: Any) -> Path:
    """Their folder, with our small tokenizer."""
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = small_tokenizer()
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer.config))
    return folder


def some_ids() -> tuple[torch.Tensor, torch.Tensor]:
    """Three texts of 17, 9 and 1 tokens."""
    torch.manual_seed(1)
    mask = torch.arange(17) < torch.tensor([17, 9, 1])[:, None]
    return torch.randint(5, len(WORDS), (3, 17)), mask


def their_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=ids, attention_mask=mask.long()).logits
    return logits


@each_type
def test_their_folder_gives_their_logits_here(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    ours = load_language_model(saved(theirs, tmp_path / "m"))
    ids, mask = some_ids()
    torch.testing.assert_close(ours.logits(ids, mask)[mask], their_logits(theirs, ids, mask)[mask], **TOLERANCE)
    assert ours.load_report.unused == ours.load_report.missing == ()
    assert ours.max_length == 64
    assert ours.end_ids == (3,)
    assert ours.num_parameters == sum(p.numel() for p in theirs.parameters())


@each_type
def test_our_folder_gives_our_logits_there(name: str, tmp_path: Path) -> None:
    ours = load_language_model(saved(their_model(name), tmp_path / "m"))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    ours.save(tmp_path / "again")
    assert ours.hf_type == CONFIGS[name]().model_type
    theirs, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    ids, mask = some_ids()
    torch.testing.assert_close(their_logits(theirs.eval(), ids, mask)[mask], ours.logits(ids, mask)[mask], **TOLERANCE)
    assert theirs.generation_config.eos_token_id == theirs.config.eos_token_id == 3


@each_type
def test_settings_survive_the_round_trip(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    ours = load_language_model(saved(theirs, tmp_path / "m"))
    ours.save(tmp_path / "again")
    again = read_folder(tmp_path / "again")
    assert (again.config, again.head, again.end_ids) == (ours.backbone.config, ours.head_config, (3,))
    before = theirs.config.to_dict()
    after = transformers.AutoConfig.from_pretrained(tmp_path / "again").to_dict()
    about_the_file = {"dtype", "transformers_version", "_name_or_path", "architectures", "gnomon", "use_cache"}
    unused_here = {"max_window_layers", "n_inner", "bos_token_id", "sliding_window", "num_key_value_heads"}
    assert {key for key in before if before[key] != after.get(key)} - about_the_file - unused_here == set()


@pytest.mark.parametrize("name", ["llama-llama3", "llama-linear", "mistral"])
def test_configurations_from_before_transformers_5_are_read(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    folder = saved(theirs, tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = None if rope["rope_type"] == "default" else {"type": rope.pop("rope_type"), **rope}
    (folder / "config.json").write_text(json.dumps(config))
    ids, mask = some_ids()
    ours = load_language_model(folder)
    torch.testing.assert_close(ours.logits(ids, mask)[mask], their_logits(theirs, ids, mask)[mask], **TOLERANCE)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "'dynamic'"),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0], "rope_theta": 1e4}}, "'longrope'"),
        ({"rope_parameters": {"rope_type": "liner", "rope_theta": 1e4}}, "'liner'"),
        ({"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4}}, "lack factor"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "speed": 3}}, "speed"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "between layers"),
        ({"hidden_act": "swiglu"}, "unknown activation 'swiglu'"),
        ({"num_key_value_heads": 3}, "do not divide"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(changes: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    folder = saved(their_model("llama"), tmp_path / "m", **changes)
    with pytest.raises(GnomonError, match=complaint):
        load_language_model(folder)


def test_gpt2_variations_are_refused(tmp_path: Path) -> None:
    folder = saved(their_model("gpt2"), tmp_path / "m", scale_attn_by_inverse_layer_idx=True)
    with pytest.raises(GnomonError, match="scale_attn_by_inverse_layer_idx"):
        load_language_model(folder)


def test_a_language_model_is_no_classifier_until_tuned(tmp_path: Path) -> None:
    folder = saved(their_model("qwen3"), tmp_path / "m")
    with pytest.raises(GnomonError, match="no classifier"):
        load_model(folder)
    classifier = load_model(folder, labels=["x", "y"])
    assert set(classifier.load_report.missing) == {"head.out.weight", "head.out.bias"}
    ids, mask = some_ids()
    assert classifier.logits(ids, mask).shape == (3, 2)
    classifier.save(tmp_path / "c")
    assert classifier.hf_type is None
    torch.testing.assert_close(load_model(tmp_path / "c").logits(ids, mask), classifier.logits(ids, mask))
    with pytest.raises(GnomonError, match="no language model"):
        load_language_model(tmp_path / "c")
    with pytest.raises(GnomonError, match="not labels"):
        load_language_model(folder).predict("a")


def test_several_end_tokens_are_kept(tmp_path: Path) -> None:
    folder = saved(their_model("llama"), tmp_path / "m")
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 9]}')
    model = load_language_model(folder)
    assert model.end_ids == (3, 9)
    model.save(tmp_path / "again")
    assert load_language_model(tmp_path / "again").end_ids == (3, 9)
    assert transformers.GenerationConfig.from_pretrained(tmp_path / "again").eos_token_id == [3, 9]


@pytest.fixture(scope="module")
def stories(shared: Path) -> Path:
    folder = shared / "stories260K" / "hf"
    if not folder.exists():
        pytest.skip("the stories260K model is not there")
    return folder


STORY = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw"


def test_a_real_llama_gives_their_perplexity(stories: Path) -> None:
    ours: Model = load_language_model(stories)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(stories).eval()
    ids = torch.tensor([ours.tokenizer.encode(STORY).ids])
    (scores,) = score_rows(TorchStepper(ours), ids.tolist(), pad_id=0)
    with torch.inference_mode():
        expected = theirs(input_ids=ids, labels=ids).loss.item()
    assert abs(-float(np.mean(scores)) - expected) < 1e-5
    assert np.exp(expected) < 10, "it is a trained model"
