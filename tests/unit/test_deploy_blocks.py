"""Weights in blocks of 8 or 4 bits."""

from __future__ import annotations

import numpy as np
import pytest

from gnomon.deploy.blocks import block_size, to_blocks


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("columns", [32, 64, 80])
def test_no_number_moves_further_than_half_a_step(bits: int, columns: int) -> None:
    weight = np.random.default_rng(0).normal(size=(50, columns)).astype(np.float32)
    blocks = to_blocks(weight, bits=bits)
    assert blocks.values().shape == blocks.shape == weight.shape
    error = np.abs(blocks.values() - weight)
    steps = np.repeat(np.abs(blocks.scales), blocks.size, axis=1)
    # Of 4 bits the shorter end of the range is 7 steps: what lies beyond is cut to it.
    assert (error <= steps * (0.5001 if bits == 8 else 1.0001)).all()
    assert np.median(error / steps) < 0.3


def test_the_number_furthest_from_zero_stays_as_it_is() -> None:
    weight = np.array([[-1.0, 0.5] * 16, [0.25, 3.0] * 16], np.float32)
    for bits in (8, 4):
        values = to_blocks(weight, bits=bits).values()
        np.testing.assert_allclose([values[0, 0], values[1, 1]], [-1.0, 3.0], rtol=1e-6)


def test_a_block_of_zeros_is_zeros() -> None:
    weight = np.zeros((2, 96), np.float32)
    weight[1, 40] = 2.0
    for bits in (8, 4):
        assert (to_blocks(weight, bits=bits).values() == weight).all()


def test_two_numbers_of_four_bits_share_a_byte_the_lower_half_first() -> None:
    weight = np.zeros((1, 32), np.float32)
    weight[0, :2] = -8.0, 3.0
    packed = to_blocks(weight, bits=4).packed()
    assert packed.shape == (1, 1, 16)
    assert packed[0, 0, 0] == (-8 + 8) | ((3 + 8) << 4)
    assert set(packed[0, 0, 1:].tolist()) == {0x88}


def test_blocks_are_as_wide_as_the_columns_allow() -> None:
    assert [block_size(columns, 8) for columns in (576, 288, 48, 40)] == [64, 32, 16, None]
    assert block_size(576, 4) == 32
    with pytest.raises(ValueError, match="40 columns"):
        to_blocks(np.zeros((2, 40), np.float32), bits=8)
