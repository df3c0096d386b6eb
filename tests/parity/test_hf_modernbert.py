"""ModernBERT against the `transformers` library, both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_hf_models import saved, their_logits

from families import WORDS
from gnomon.errors import GnomonError
from gnomon.models.folders import load_language_model, load_model

transformers = pytest.importorskip("transformers")
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}
_SIZES: dict[str, Any] = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 4, "intermediate_size": 48}
_SIZES |= {"num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.2, "local_attention": 6}
_SIZES |= {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
CASES: dict[str, dict[str, Any]] = {
    "usual": _SIZES,
    "biased": _SIZES | {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True},
    "other-layers": _SIZES
    | {"layer_types": ["sliding_attention", "full_attention"] * 2, "tie_word_embeddings": False, "decoder_bias": False},
}
each_case = pytest.mark.parametrize("name", CASES)


def their_model(name: str) -> Any:
    torch.manual_seed(0)
    config = transformers.ModernBertConfig(**CASES[name], attn_implementation="eager", reference_compile=False)
    model = transformers.AutoModelForMaskedLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases too
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def some_ids() -> tuple[torch.Tensor, torch.Tensor]:
    """Three texts of 17, 9 and 1 tokens."""
    torch.manual_seed(1)
    mask = torch.arange(17) < torch.tensor([17, 9, 1])[:, None]
    return torch.randint(5, len(WORDS), (3, 17)), mask


@each_case
def test_logits_are_theirs_and_theirs_are_ours(name: str, tmp_path: Path) -> None:
    theirs = their_model(name)
    ours = load_language_model(saved(theirs, tmp_path / "m"))
    ids, mask = some_ids()
    torch.testing.assert_close(ours.logits(ids, mask)[mask], their_logits(theirs, ids, mask)[mask], **TOLERANCE)
    assert ours.load_report.unused == ours.load_report.missing == ()
    ours.save(tmp_path / "again")
    assert ours.hf_type == "modernbert"
    again, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    torch.testing.assert_close(their_logits(again.eval(), ids, mask)[mask], ours.logits(ids, mask)[mask], **TOLERANCE)


def test_a_pretrained_one_takes_a_new_head_for_labels(tmp_path: Path) -> None:
    folder = saved(their_model("usual"), tmp_path / "m")
    model = load_model(folder, labels=["no", "yes"])
    ids, mask = some_ids()
    assert model.logits(ids, mask).shape == (3, 2)
    assert all(name.startswith("head.") for name in model.load_report.missing)


def test_what_is_not_computed_is_refused(tmp_path: Path) -> None:
    folder = saved(their_model("usual"), tmp_path / "m", attention_dropout=0.1)
    with pytest.raises(GnomonError, match="attention_dropout"):
        load_language_model(folder)
