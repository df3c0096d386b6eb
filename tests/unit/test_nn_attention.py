"""Attention, masks and blocks: two paths that agree, worked examples C5 and C11."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from gnomon.errors import GnomonError
from gnomon.nn.attention import SelfAttention, attend
from gnomon.nn.block import Block
from gnomon.nn.feedforward import FeedForward, activation
from gnomon.nn.masks import attention_bias, forbidden

quick = settings(deadline=None, derandomize=True, max_examples=25)


def random_mask(rows: int, length: int) -> torch.Tensor:
    return torch.arange(length) < torch.randint(1, length + 1, (rows, 1))


@quick
@given(
    st.integers(1, 3), st.integers(1, 7), st.sampled_from([1, 2, 4]), st.booleans(), st.booleans(), st.integers(0, 9)
)
def test_the_readable_path_equals_the_fast_one(
    rows: int, length: int, heads: int, causal: bool, masked: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    attention = SelfAttention(8, heads).eval()
    x = torch.randn(rows, length, 8)
    mask = random_mask(rows, length) if masked else None
    bias = attention_bias(mask, length=length, causal=causal, dtype=x.dtype)
    readable, weights = attention.forward_with_weights(x, bias=bias)
    torch.testing.assert_close(readable, attention(x, bias=bias), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights.sum(-1), torch.ones(rows, heads, length))
    if causal:
        assert not weights.triu(1).any()
    if mask is not None:
        assert not weights.transpose(1, 3)[~mask].any()


def test_attend_is_torchs_scaled_dot_product() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 7, 4), torch.randn(2, 3, 7, 6)
    bias = torch.randn(2, 1, 5, 7)
    mixed, _ = attend(query, key, value, bias=bias)
    torch.testing.assert_close(mixed, F.scaled_dot_product_attention(query, key, value, attn_mask=bias))


def test_attention_is_torchs_multihead_attention() -> None:
    torch.manual_seed(0)
    ours, theirs = SelfAttention(12, 3).eval(), torch.nn.MultiheadAttention(12, 3, batch_first=True).eval()
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x, mask = torch.randn(4, 6, 12), random_mask(4, 6)
    expected, expected_weights = theirs(x, x, x, key_padding_mask=~mask, average_attn_weights=False)
    mixed, weights = ours.forward_with_weights(x, bias=attention_bias(mask, length=6, causal=False, dtype=x.dtype))
    torch.testing.assert_close(mixed, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(weights, expected_weights, atol=1e-6, rtol=1e-5)


def test_c5_one_projection_and_reshape_is_eight_separate_heads() -> None:
    torch.manual_seed(0)
    attention = SelfAttention(512, 8).eval()
    x = torch.randn(2, 5, 512)
    heads = []
    for index in range(8):
        rows = slice(64 * index, 64 * (index + 1))
        query, key, value = (
            x @ part.weight[rows].T + part.bias[rows] for part in (attention.query, attention.key, attention.value)
        )
        weights = (query @ key.transpose(1, 2) / math.sqrt(64)).softmax(-1)
        heads.append(weights @ value)
    expected = attention.output(torch.cat(heads, dim=-1))
    torch.testing.assert_close(attention(x), expected, atol=1e-5, rtol=1e-5)


def test_c11_layer_norm_and_feed_forward_see_one_position_each() -> None:
    torch.manual_seed(0)
    norm, feedforward = torch.nn.LayerNorm(16), FeedForward(16, 32)
    x = torch.randn(2, 6, 16)
    changed = x.clone()
    changed[:, 3] = torch.randn(2, 16)
    for part in (norm, feedforward):
        same = (part(x) == part(changed)).all(-1)
        assert same[:, [0, 1, 2, 4, 5]].all()
        assert not same[:, 3].any()


@quick
@given(st.floats(0.01, 100), st.floats(-50, 50), st.integers(0, 9))
def test_c11_layer_norm_ignores_scale_and_shift(scale: float, shift: float, seed: int) -> None:
    torch.manual_seed(seed)
    norm = torch.nn.LayerNorm(16, eps=1e-12).double()
    x = torch.randn(3, 16, dtype=torch.float64)
    torch.testing.assert_close(norm(scale * x + shift), norm(x), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_a_row_that_may_see_nothing_stays_finite(dtype: torch.dtype) -> None:
    mask = torch.tensor([[True, True, False], [False, False, False]])
    bias = attention_bias(mask, length=3, causal=True, dtype=dtype)
    assert bias is not None
    query = torch.full((2, 1, 3, 4), -6.0, dtype=dtype, requires_grad=True)
    for mixed in (
        attend(query, query, query, bias=bias)[0],
        F.scaled_dot_product_attention(query, query, query, attn_mask=bias),
    ):
        assert mixed.isfinite().all()
        (gradient,) = torch.autograd.grad(mixed.sum(), query)
        assert gradient.isfinite().all()


def test_forbidden_is_exactly_zero_beside_anything_allowed() -> None:
    for dtype in (torch.float32, torch.float64):
        scores = torch.tensor([-1e4, forbidden(dtype)], dtype=dtype)
        assert scores.softmax(0).tolist() == [1.0, 0.0]


def test_masks_have_the_shapes_they_say() -> None:
    mask = torch.ones(2, 5, dtype=torch.bool)
    assert attention_bias(None, length=5, causal=False, dtype=torch.float32) is None
    shapes = [
        attention_bias(given, length=5, causal=causal, dtype=torch.float32).shape  # type: ignore[union-attr]
        for given, causal in ((mask, False), (mask, True), (None, True))
    ]
    assert [tuple(shape) for shape in shapes] == [(2, 1, 1, 5), (2, 1, 5, 5), (1, 1, 5, 5)]


def test_post_and_pre_norm_are_their_formulas() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, 8)
    post, pre = (Block(8, 2, 16, norm_position=where).eval() for where in ("post", "pre"))
    middle = post.attention_norm(x + post.attention(x))
    torch.testing.assert_close(post(x), post.feedforward_norm(middle + post.feedforward(middle)))
    middle = x + pre.attention(pre.attention_norm(x))
    torch.testing.assert_close(pre(x), middle + pre.feedforward(pre.feedforward_norm(middle)))


def test_activations() -> None:
    x = torch.linspace(-4, 4, 33, dtype=torch.float64)
    gelu = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    tanh_gelu = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    torch.testing.assert_close(activation("gelu")(x), gelu)
    torch.testing.assert_close(activation("gelu_new")(x), tanh_gelu)
    torch.testing.assert_close(activation("gelu_pytorch_tanh")(x), tanh_gelu)
    torch.testing.assert_close(activation("relu")(x), x.clamp_min(0))


def test_wrong_settings_are_explained() -> None:
    with pytest.raises(GnomonError, match="3 heads do not divide the width 8"):
        SelfAttention(8, 3)
    with pytest.raises(GnomonError, match="did you mean 'gelu'"):
        FeedForward(8, 16, act="gleu")
    with pytest.raises(GnomonError, match="norm_position 'both'"):
        Block(8, 2, 16, norm_position="both")
