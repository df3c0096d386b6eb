"""Small language models of every family and position scheme: one line here tests one everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from families import WORDS, small_tokenizer
from gnomon.decoding.loop import decode
from gnomon.decoding.sampling import Sampling
from gnomon.decoding.stepper import Stepper
from gnomon.deploy.blocks import to_blocks
from gnomon.deploy.decoder import TOKENS, build_decoder
from gnomon.deploy.head_padding import PaddedHeads
from gnomon.models.base import Model
from gnomon.models.families import FAMILIES
from gnomon.models.heads import LanguageHeadConfig, MaskedLanguageHeadConfig
from gnomon.recipes import export, generate

CONTEXT = 520
_SIZES: dict[str, Any] = {"vocab_size": len(WORDS)}
_DECODER = _SIZES | {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
_DECODER |= {"max_position_embeddings": CONTEXT}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 130, "rope_theta": 10000.0}

LANGUAGE_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "rope": ("decoder", _DECODER),
    "rope-grouped-normed": ("decoder", _DECODER | {"num_key_value_heads": 2, "qk_norm": True, "head_dim": 10}),
    "rope-yarn": ("decoder", _DECODER | {"rope_parameters": _YARN}),
    "rope-sliding": (
        "decoder",
        _DECODER | {"sliding_window": 7, "layer_types": ("sliding_attention", "full_attention")},
    ),
    "learned": (
        "decoder",
        _DECODER
        | {"position_embedding_type": "learned", "norm": "layer", "gated": False, "hidden_act": "gelu_new"}
        | {"attention_bias": True, "attention_output_bias": True, "mlp_bias": True},
    ),
    "sinusoidal": ("decoder", _DECODER | {"position_embedding_type": "sinusoidal", "norm_position": "post"}),
    "alibi": ("decoder", _DECODER | {"position_embedding_type": "alibi", "num_attention_heads": 6}),
    "alibi-sliding": ("decoder", _DECODER | {"position_embedding_type": "alibi", "sliding_window": 9}),
    "none": ("decoder", _DECODER | {"position_embedding_type": "none", "norm": "none"}),
    "ngrams": (
        "decoder",
        _DECODER
        | {"num_ngram_buckets": 200, "ngram_sizes": (2, 3), "embedding_norm": True}
        | {"gated": False, "hidden_act": "relu2"},
    ),
    "lstm": ("recurrent", _SIZES | {"embedding_size": 16, "hidden_size": 20, "bidirectional": False}),
    "gru-2": (
        "recurrent",
        _SIZES | {"embedding_size": 16, "hidden_size": 20, "cell": "gru", "bidirectional": False}
        | {"num_hidden_layers": 2},
    ),
    "rnn": ("recurrent", _SIZES | {"embedding_size": 16, "hidden_size": 20, "cell": "rnn", "bidirectional": False}),
    "convolutional": (
        "convolutional",
        _SIZES | {"embedding_size": 16, "channels": 10, "kernel_sizes": (1, 3, 4), "num_hidden_layers": 3}
        | {"causal": True},
    ),
}  # fmt: skip
"""Name -> family and config fields of causal models."""

each_language_model = pytest.mark.parametrize("name", LANGUAGE_CASES)
ENCODER: dict[str, Any] = _SIZES | {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
ENCODER |= {"intermediate_size": 32, "max_position_embeddings": 40}


def language_model(name: str, *, seed: int = 0, spread: float = 0.25, **changes: Any) -> Model:
    """The case called `name`, in evaluation mode, its weights wide enough for each to matter; `changes`: to fields."""
    family, fields = LANGUAGE_CASES[name]
    fields = fields | changes
    torch.manual_seed(seed)
    backbone = FAMILIES[family].backbone(FAMILIES[family].config(**fields))
    tied = backbone.token_embedding.embedding_dim == backbone.hidden_size
    model = Model(backbone, LanguageHeadConfig(tied=tied), tokenizer=small_tokenizer(), max_length=CONTEXT)
    return spread_out(model, by=spread)


def masked_language_model(*, seed: int = 0) -> Model:
    """A BERT for masked tokens."""
    torch.manual_seed(seed)
    backbone = FAMILIES["encoder"].backbone(FAMILIES["encoder"].config(**ENCODER))
    return spread_out(Model(backbone, MaskedLanguageHeadConfig(), tokenizer=small_tokenizer(), max_length=40))


def spread_out(model: Model, *, by: float = 0.25) -> Model:
    """The model with every weight moved at random, in evaluation mode."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * by)
            if name.endswith("ngrams.table.weight"):
                parameter[0] = 0.0
    return model.eval()


def some_ids(count: int, *, seed: int = 0) -> list[int]:
    """So many random ids of ordinary tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(5, len(WORDS), (count,), generator=generator).tolist()


def greedy(stepper: Stepper, prompts: list[list[int]], count: int, chunk: int | None = None) -> list[list[int]]:
    """The `count` likeliest tokens after each prompt, read in pieces of `chunk`."""
    found: list[list[int]] = [[] for _ in prompts]
    for choices in decode(
        stepper, prompts, sampling=Sampling(), max_new_tokens=count, end_ids=(), pad_id=0, prefill_chunk=chunk
    ):
        for choice in choices:
            found[choice.row].append(choice.id)
    return found


def exported(folder: Path) -> Path:
    """The folder beside `folder` that holds its model as a graph of full width."""
    out = folder.parent / "deployed"
    export.run(export.Config(model=str(folder), out=out, bits=32, threads=1))
    return out


def generated(model: Path | str, *prompts: str, **settings: object) -> generate.GenerateResult:
    """What `gnomon generate` answers."""
    result = generate.run(generate.Config(str(model), prompts, **settings))  # type: ignore[arg-type]
    assert isinstance(result, generate.GenerateResult)
    return result


def graph_of(model: Model, *, bits: int = 32) -> bytes:
    """The exported graph of a decoder, its matrices in `bits`."""
    config: Any = model.backbone.config
    tensors = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    arrays = PaddedHeads(config, tensors)
    stored = (lambda name: None) if bits == 32 else (lambda name: to_blocks(arrays[name], bits=bits_of(name, bits)))
    return build_decoder(config, model.head_config, arrays, stored=stored).SerializeToString()


def bits_of(name: str, bits: int) -> int:
    """What a matrix is stored in where `bits` are asked for: an input table never has fewer than 8."""
    return max(bits, 8) if name == TOKENS else bits
