"""Recurrent encoders: RNN, LSTM, GRU, in one or both directions.

Tensor names: `tokens.weight` [V, E] and torch's own `recurrent.weight_ih_l0`, `recurrent.weight_hh_l0_reverse` ...
(gate order: torch's; LSTM i f g o, GRU r z n).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gnomon.models.base import Backbone, Output, Taps
from gnomon.nn.init import init_recurrent, init_table
from gnomon.nn.recurrent import make_recurrent, run_recurrent


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


class RecurrentBackbone(Backbone):
    """A token table and torch's recurrent layers; hidden is [forward, backward]."""

    family = "recurrent"

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        self.causal = not config.bidirectional
        self.hidden_size = config.hidden_size * (2 if config.bidirectional else 1)
        self.tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.recurrent = make_recurrent(
            config.cell,
            config.embedding_size,
            config.hidden_size,
            num_layers=config.num_hidden_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        init_table(self.tokens)
        init_recurrent(self.recurrent)

    @property
    def token_embedding(self) -> nn.Embedding:
        """The input table [V, E]."""
        return self.tokens

    def forward(self, ids: Tensor, *, mask: Tensor | None = None, taps: Taps | None = None) -> Output:
        """`ids`, `mask` [B, T], real tokens first -> hidden [B, T, D]. Taps: embeddings, layers (the last one's)."""
        x: Tensor = self.dropout(self.tokens(ids))
        hidden = run_recurrent(self.recurrent, x, mask)
        if taps is not None:
            taps("embeddings", x)
            taps("layers", hidden)
        return Output(hidden)
