"""One dial: what a depth derives for each family, what may be set, and the arithmetic it takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from families import WORDS, small_tokenizer
from gnomon.errors import GnomonError
from gnomon.models.base import Model
from gnomon.models.flops import layer_parameters, training_flops
from gnomon.models.parts import FamilyName, Parts, PresetName
from gnomon.models.presets import LanguagePlan, make_language_model, plan_language_model
from gnomon.train.peak import measured_peak

quick = settings(deadline=None, derandomize=True, max_examples=20)
FAMILIES: tuple[FamilyName, ...] = ("decoder", "encoder", "recurrent", "convolutional")


def planned(
    family: FamilyName = "decoder", preset: PresetName = "standard", depth: int = 2, **given: Any
) -> LanguagePlan:
    context = given.pop("context", 24)
    return plan_language_model(
        family, preset, depth, vocab_size=len(WORDS), context=context, pad_id=0, parts=Parts(**given)
    )


def made(*arguments: Any, context: int = 24, **given: Any) -> Model:
    torch.manual_seed(0)
    return make_language_model(
        planned(*arguments, context=context, **given), tokenizer=small_tokenizer(), context=context
    )


@quick
@given(family=st.sampled_from(FAMILIES), depth=st.integers(1, 5))
def test_any_depth_gives_a_model_that_reads(family: FamilyName, depth: int) -> None:
    model = made(family, "standard", depth).eval()
    ids = torch.randint(5, len(WORDS), (2, 7))
    with torch.no_grad():
        assert model.logits(ids, torch.ones_like(ids, dtype=torch.bool)).shape == (2, 7, len(WORDS))
    assert model.backbone.causal == (family != "encoder")
    assert 0 < layer_parameters(model) < model.num_parameters
    assert made(family, "standard", depth + 3).num_parameters > model.num_parameters


def test_the_dial_widens_with_depth() -> None:
    shapes = [planned(depth=depth).config for depth in (2, 4, 6, 12, 16)]
    assert [config.hidden_size for config in shapes] == [64, 128, 192, 384, 512]
    assert [config.num_attention_heads for config in shapes] == [2, 4, 6, 12, 8]
    assert [config.intermediate_size for config in shapes] == [192, 352, 512, 1024, 1376]
    assert planned(preset="fast", depth=4).config.intermediate_size == 512


@pytest.mark.parametrize(
    ("family", "given", "expected"),
    [
        ("decoder", {}, "qwen3"),
        ("decoder", {"tied": True, "num_key_value_heads": 1}, "qwen3"),
        ("decoder", {"qk_norm": False}, None),
        ("decoder", {"norm": "layer"}, None),
        ("decoder", {"position_embedding_type": "alibi"}, None),
        ("encoder", {}, "modernbert"),
        ("recurrent", {}, None),
        ("convolutional", {}, None),
    ],
)
def test_what_it_is_saved_as(family: FamilyName, given: dict[str, Any], expected: str | None) -> None:
    assert made(family, **given).hf_type == expected


def test_every_part_can_be_set_and_the_rest_follows() -> None:
    given: dict[str, Any] = {
        "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
        "intermediate_size": 40, "hidden_act": "gelu", "gated": False, "position_embedding_type": "learned",
        "norm": "layer", "norm_position": "post", "qk_norm": False, "embedding_norm": True,
        "num_ngram_buckets": 11, "ngram_sizes": (2, 4), "tied": True, "silent_start": False, "dropout": 0.25,
    }  # fmt: skip
    plan = planned(depth=9, **given)
    found = dataclasses.asdict(plan.config) | dataclasses.asdict(plan.head) | {"silent_start": plan.silent_start}
    assert {name: found.get(name, found["resid_pdrop"]) for name in given} == given
    assert planned("recurrent", cell="rnn", hidden_size=20).config.cell == "rnn"
    assert planned("convolutional", kernel_sizes=(1, 3), hidden_size=20).config.channels == 10
    lists = Parts(ngram_sizes=[2, 3]).given()  # type: ignore[arg-type]  # as a TOML file gives them
    assert lists == {"ngram_sizes": (2, 3)}


def test_a_part_that_a_family_lacks_is_refused() -> None:
    for family, part in (("recurrent", "qk_norm"), ("encoder", "num_ngram_buckets"), ("decoder", "cell")):
        with pytest.raises(GnomonError, match=f"no part '{part}'"):
            planned(family, **{part: "gru" if part == "cell" else 1})
    with pytest.raises(GnomonError, match="fast is for decoders"):
        planned("encoder", "fast")
    with pytest.raises(GnomonError, match="do not divide the width"):
        planned("convolutional", hidden_size=30)
    with pytest.raises(GnomonError, match="depth is 0"):
        planned(depth=0)


def test_a_silent_start_adds_nothing_to_the_stream() -> None:
    model = made().eval()
    ids = torch.randint(5, len(WORDS), (1, 6))
    mask = torch.ones_like(ids, dtype=torch.bool)
    assert not model.logits(ids, mask).any(), "all tokens are alike at first"
    tokens = model.backbone.token_embedding(ids)
    torch.testing.assert_close(model.backbone(ids).hidden, torch.nn.functional.rms_norm(tokens, (64,), eps=1e-6))
    assert made(silent_start=False).logits(ids, mask).any()


def test_large_vocabularies_share_their_table() -> None:
    for vocab_size, tied in ((100, False), (384, False), (385, True)):
        plan = plan_language_model("decoder", "standard", 2, vocab_size=vocab_size, context=8, pad_id=0, parts=Parts())
        assert dataclasses.asdict(plan.head)["tied"] is tied


def test_arithmetic_is_counted_as_by_hand() -> None:
    model = made(depth=2, num_key_value_heads=1)
    width, inner, heads, size = 64, 192, 2, 32
    layer = width * (heads + 2) * size + heads * size * width + 3 * width * inner
    attention = 4 * heads * size * 24 / 2
    expected = 3 * (2 * (2 * layer + attention) + 2 * len(WORDS) * width)
    assert training_flops(model, context=24) == expected
    encoder = made("encoder", depth=2)
    whole, masked = (training_flops(encoder, context=24, scored_share=share) for share in (1.0, 0.3))
    assert whole - masked == pytest.approx(3 * 0.7 * 2 * len(WORDS) * 64)
    assert training_flops(made("recurrent", cell="gru", hidden_size=8, num_hidden_layers=1), context=9) == 3 * (
        2 * 2 * 3 * 8 * 8 + 2 * len(WORDS) * 8
    )


def test_the_peak_is_a_number_of_this_machine() -> None:
    assert 1e8 < measured_peak() < 1e15
