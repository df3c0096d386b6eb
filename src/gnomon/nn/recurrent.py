"""RNN, LSTM and GRU over texts of different lengths, exactly: each as if it were alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from gnomon.errors import GnomonError, did_you_mean

CELLS: dict[str, type[nn.RNN] | type[nn.LSTM] | type[nn.GRU]] = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def make_recurrent(
    cell: str, input_size: int, hidden_size: int, *, num_layers: int, bidirectional: bool, dropout: float
) -> nn.RNNBase:
    """Torch's module for `cell` ("rnn", "lstm", "gru"), batch first; `dropout` falls between layers."""
    if cell not in CELLS:
        raise GnomonError(f"unknown cell {cell!r}", did_you_mean(cell, CELLS))
    return CELLS[cell](
        input_size,
        hidden_size,
        num_layers,
        batch_first=True,
        bidirectional=bidirectional,
        dropout=dropout if num_layers > 1 else 0.0,
    )


def run_recurrent(module: nn.RNNBase, x: Tensor, mask: Tensor | None) -> Tensor:
    """`x` [B, T, E], `mask` [B, T] bool, real tokens first -> hidden [B, T, D], of no meaning beyond each text.

    The forward direction needs no care: padding comes after the text. The backward direction runs forward over each
    text reversed in place, so it too starts at a real token. Packed sequences give the same numbers, but take torch
    off its fast path: an LSTM's step costs 1.4 to 2 times as much.
    """
    if mask is None or not module.bidirectional:
        hidden: Tensor = module(x)[0]
        return hidden
    x = x.transpose(0, 1)
    order = _reversal(mask)
    for layer in range(module.num_layers):
        if layer:
            x = F.dropout(x, module.dropout, module.training)
        ahead = _run_direction(module, x, f"l{layer}")
        back = _run_direction(module, _reordered(x, order), f"l{layer}_reverse")
        x = torch.cat([ahead, _reordered(back, order)], dim=-1)
    return x.transpose(0, 1)


def continue_recurrent(
    module: nn.RNNBase, x: Tensor, mask: Tensor | None, start: tuple[Tensor, ...]
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One direction from `start` on (h, or h and c, [L, B, H] each; empty: zeros) -> hidden [B, T, H] and the end.

    `mask` [B, T] false marks padding, before the text or after it, which changes no row's state.
    """
    given = start if isinstance(module, nn.LSTM) else start[0] if start else None
    if mask is None or bool(mask.all()):
        hidden, end = module(x, given or None) if isinstance(module, nn.LSTM) else module(x, given)
        return hidden, end if isinstance(end, tuple) else (end,)
    length = x.shape[1]
    lengths = mask.sum(dim=1)
    order = (torch.arange(length, device=x.device) + mask.int().argmax(dim=1, keepdim=True)) % length
    turned = x.gather(1, order.unsqueeze(-1).expand_as(x))  # each row's text first
    packed = pack_padded_sequence(turned, lengths.clamp_min(1).cpu(), batch_first=True, enforce_sorted=False)
    result, end = module(packed, given or None) if isinstance(module, nn.LSTM) else module(packed, given)
    unturned, _ = pad_packed_sequence(result, batch_first=True, total_length=length)
    hidden = torch.zeros_like(unturned).scatter_(1, order.unsqueeze(-1).expand_as(unturned), unturned)
    ends = end if isinstance(end, tuple) else (end,)
    before = start or tuple(torch.zeros_like(part) for part in ends)
    empty = (lengths == 0)[:, None]
    return hidden, tuple(torch.where(empty, old, new) for old, new in zip(before, ends, strict=True))


def _reversal(mask: Tensor) -> Tensor:
    """For each place of [T, B], flattened, the place whose vector it takes; padding keeps its own."""
    rows, length = mask.shape
    steps = torch.arange(length, device=mask.device)[:, None]
    mirrored = mask.sum(dim=1) - 1 - steps
    return (torch.where(mirrored >= 0, mirrored, steps) * rows + torch.arange(rows, device=mask.device)).flatten()


def _reordered(x: Tensor, order: Tensor) -> Tensor:
    return x.flatten(0, 1).index_select(0, order).view(x.shape)


def _run_direction(module: nn.RNNBase, x: Tensor, suffix: str) -> Tensor:
    """One layer in one direction, over `x` [T, B, E] -> [T, B, H]."""
    names = (f"{kind}_{suffix}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    weights: list[Tensor] = [module.get_parameter(name) for name in names]
    start = x.new_zeros(1, x.shape[1], module.hidden_size)
    # biases, number of layers, dropout, training, bidirectional, batch first
    options = (True, 1, 0.0, module.training, False, False)
    if isinstance(module, nn.LSTM):
        return torch.lstm(x, (start, start), weights, *options)[0]
    return (torch.gru if isinstance(module, nn.GRU) else torch.rnn_tanh)(x, start, weights, *options)[0]
