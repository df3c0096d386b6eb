"""RNN, LSTM and GRU over texts of different lengths, exactly: each as if it were alone."""

from __future__ import annotations

from torch import Tensor, nn
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
    """`x` [B, T, E], `mask` [B, T] bool, real tokens first -> hidden [B, T, D], zero beyond each text.

    The backward direction starts at each text's last real token.
    """
    if mask is None:
        return _hidden(module(x))
    lengths = mask.sum(dim=1).cpu()
    if int(lengths.min()) == x.shape[1]:  # nothing to leave out, and torch's path without packing is faster
        return _hidden(module(x))
    packed = pack_padded_sequence(x, lengths.clamp_min(1), batch_first=True, enforce_sorted=False)
    hidden, _ = pad_packed_sequence(module(packed)[0], batch_first=True, total_length=x.shape[1])
    return hidden.masked_fill(~mask.unsqueeze(-1), 0.0)


def _hidden(result: tuple[Tensor, object]) -> Tensor:
    return result[0]
