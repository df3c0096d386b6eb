"""Recurrent and convolutional bricks against torch's own, one text at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.nn.convolution import MultiWidthConvolution
from gnomon.nn.init import init_recurrent
from gnomon.nn.recurrent import CELLS, make_recurrent, run_recurrent

quick = settings(deadline=None, derandomize=True, max_examples=20)
lengths_of_texts = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def batch(lengths: list[int], size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random vectors everywhere, padding too."""
    mask = torch.arange(max(1, *lengths)) < torch.tensor(lengths)[:, None]
    return torch.randn(*mask.shape, size), mask


@quick
@given(st.sampled_from(sorted(CELLS)), st.booleans(), st.integers(1, 2), lengths_of_texts)
def test_each_text_is_run_as_if_alone(cell: str, bidirectional: bool, layers: int, lengths: list[int]) -> None:
    torch.manual_seed(0)
    module = make_recurrent(cell, 3, 4, num_layers=layers, bidirectional=bidirectional, dropout=0.1).eval()
    x, mask = batch(lengths, 3)
    hidden = run_recurrent(module, x, mask)
    assert hidden.shape == (*mask.shape, 8 if bidirectional else 4)
    for row, length in enumerate(lengths):
        if length:
            alone = module(x[row : row + 1, :length])[0][0]
            torch.testing.assert_close(hidden[row, :length], alone, atol=1e-6, rtol=1e-5)


def test_a_recurrent_starts_as_documented() -> None:
    torch.manual_seed(0)
    module = make_recurrent("lstm", 3, 4, num_layers=2, bidirectional=True, dropout=0.0)
    init_recurrent(module)
    for name, weight in module.named_parameters():
        if "weight_hh" in name:
            for gate in weight.split(4):
                torch.testing.assert_close(gate @ gate.T, torch.eye(4), atol=1e-5, rtol=0)
        if "bias" in name:
            assert weight.split(4)[1].tolist() == [1.0] * 4 if "bias_ih" in name else not weight.any()


def test_an_unknown_cell_is_explained() -> None:
    with pytest.raises(GnomonError, match="did you mean 'lstm'"):
        make_recurrent("lsmt", 3, 4, num_layers=1, bidirectional=True, dropout=0.0)


@quick
@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 6))
def test_convolutions_are_the_sum_over_the_window(widths: list[int], length: int) -> None:
    torch.manual_seed(0)
    layer = MultiWidthConvolution(3, 2, widths)
    x = torch.randn(2, length, 3)
    found = layer(x)
    assert found.shape == (2, length, 2 * len(widths))
    for index, width in enumerate(widths):
        weight, bias = layer.convolutions[index].weight, layer.convolutions[index].bias
        for position in range(length):
            total = bias.expand(2, -1)
            for shift in range(width):
                seen = position + shift - (width - 1) // 2
                if 0 <= seen < length:
                    total = total + x[:, seen] @ weight[:, :, shift].T
            torch.testing.assert_close(found[:, position, 2 * index : 2 * index + 2], total.relu())


def test_impossible_widths_are_refused() -> None:
    for widths in ((), (2, 0)):
        with pytest.raises(GnomonError, match="kernel_sizes"):
            MultiWidthConvolution(3, 2, widths)
