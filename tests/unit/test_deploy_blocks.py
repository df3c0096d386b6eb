"""Weights in blocks of 8 or 4 bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.deploy.blocks import block_size, to_blocks


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("columns", [32, 64, 80])
def test_no_number_moves_further_than_a_step(bits: int, columns: int) -> None:
    weight = np.random.default_rng(0).normal(size=(50, columns)).astype(np.float32)
    blocks = to_blocks(weight, bits=bits)
    assert blocks.values().shape == blocks.shape == weight.shape
    steps = np.abs(blocks.values() - weight) / np.repeat(blocks.scales, blocks.size, axis=1)
    # Of 4 bits a smaller range may lose less on the whole, and what lies beyond it is cut to its ends.
    at_an_end = np.isin(blocks.stored, [0, 15]).reshape(weight.shape) & (bits == 4)
    assert (steps[~at_an_end] <= 0.5001).all()
    assert (steps <= 1.2).all()
    assert np.median(steps) < 0.3


def test_the_ends_of_a_block_that_lose_least_are_chosen() -> None:
    weight = np.random.default_rng(1).normal(size=(40, 64)).astype(np.float32)
    blocks = to_blocks(weight, bits=4)
    cut = weight.reshape(40, -1, blocks.size)
    low, high = cut.min(-1, keepdims=True), cut.max(-1, keepdims=True)
    step = (high - low) / 15
    plain = np.rint((cut - low) / step) * step + low
    lost = [np.square(values.reshape(cut.shape) - cut).sum(-1) for values in (blocks.values(), plain)]
    assert (lost[0] <= lost[1] * 1.001).all()
    assert lost[0].sum() < 0.97 * lost[1].sum()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 2**20), exponent=st.integers(-12, 3), known=st.booleans())
def test_numbers_of_four_bits_come_through_unchanged(seed: int, exponent: int, known: bool) -> None:
    """Weights that were rounded to 4 bits by block before, as in a GGUF file of Q4_1, lose nothing more."""
    generator = np.random.default_rng(seed)
    stored = generator.integers(0, 16, (8, 3, 32))
    stored[..., :2] = 0, 15  # whoever rounds takes the smallest and the largest for the ends
    scales = np.ldexp(generator.uniform(1, 2, (8, 3, 1)), exponent).astype(np.float16)
    lows = (-scales * generator.uniform(5, 10, (8, 3, 1))).astype(np.float16)
    weight = (stored * scales.astype(np.float32) + lows).reshape(8, 96).astype(np.float32)
    moments = torch.eye(96) + 0.3 if known else None
    blocks = to_blocks(weight, bits=4, moments=moments)
    assert (blocks.stored == stored).all()
    np.testing.assert_allclose(blocks.values(), weight, atol=2e-3 * float(scales.max()))


def test_scales_and_centres_of_four_bits_fit_16_bit_floats() -> None:
    weight = np.random.default_rng(4).normal(size=(20, 64)).astype(np.float32)
    blocks = to_blocks(weight, bits=4)
    assert blocks.centres is not None
    for part in (blocks.scales, blocks.centres):
        assert (part.astype(np.float16) == part).all()


def test_the_number_furthest_from_zero_stays_as_it_is() -> None:
    weight = np.array([[-1.0, 0.5] * 16, [0.25, 3.0] * 16], np.float32)
    values = to_blocks(weight, bits=8).values()
    np.testing.assert_allclose([values[0, 0], values[1, 1]], [-1.0, 3.0], rtol=1e-6)


def test_rounding_by_columns_loses_less_of_the_product() -> None:
    generator = np.random.default_rng(2)
    inputs = generator.normal(size=(4000, 96)) @ generator.normal(size=(96, 96)) * generator.lognormal(size=96)
    weight = generator.normal(size=(50, 96)).astype(np.float32)
    moments = torch.from_numpy(inputs.T @ inputs / len(inputs)).float()
    known = [moments, torch.diag(moments.diagonal()), None]
    lost = [np.square(inputs @ (to_blocks(weight, bits=4, moments=one).values() - weight).T).mean() for one in known]
    assert lost[0] < 0.7 * lost[1] < 0.7 * lost[2]


def test_a_block_of_zeros_is_zeros() -> None:
    weight = np.zeros((2, 96), np.float32)
    weight[1, 40] = 2.0
    for bits in (8, 4):
        values = to_blocks(weight, bits=bits).values()
        np.testing.assert_allclose(values, weight, atol=1e-3)
        assert (values[0] == 0).all()


def test_two_numbers_of_four_bits_share_a_byte_the_lower_half_first() -> None:
    weight = np.zeros((1, 96), np.float32)
    weight[0, :2] = -8.0, 7.0
    blocks = to_blocks(weight, bits=4)
    packed = blocks.packed()
    assert packed.shape == (1, weight.size // blocks.size, blocks.size // 2)
    assert packed[0, 0, 0] == (-8 + 8) | ((7 + 8) << 4)
    assert set(packed[0, 0, 1:].tolist()) == {0x88}


def test_blocks_are_as_wide_as_the_columns_allow() -> None:
    assert [block_size(columns, 8) for columns in (576, 288, 48, 40)] == [64, 32, 16, None]
    assert block_size(576, 4) == 32
    with pytest.raises(ValueError, match="40 columns"):
        to_blocks(np.zeros((2, 40), np.float32), bits=8)
