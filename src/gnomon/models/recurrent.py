"""Recurrent encoders: RNN, LSTM, GRU, in one or both directions.

Tensor names: `tokens.weight` [V, E] and torch's own `recurrent.weight_ih_l0`, `recurrent.weight_hh_l0_reverse` ...
(gate order: torch's; LSTM i f g o, GRU r z n).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RecurrentConfig:
    """`hidden_size` is per direction; the backbone gives twice that when bidirectional. `dropout` falls on the
    embeddings and between layers."""

    vocab_size: int
    embedding_size: int
    hidden_size: int
    num_hidden_layers: int = 1
    cell: str = "lstm"
    bidirectional: bool = True
    dropout: float = 0.2
    pad_token_id: int = 0
