"""Recurrent models: RNN, LSTM, GRU, in both directions, or in one, which can also be a language model.

Tensor names: `tokens.weight` [V, E] and torch's own `recurrent.weight_ih_l0`, `recurrent.weight_hh_l0_reverse` ...
(gate order: torch's; LSTM i f g o, GRU r z n).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from gnomon.errors import GnomonError
from gnomon.models.base import Backbone, Output, Taps
from gnomon.nn.init import init_recurrent, init_table
from gnomon.nn.packing import take_apart
from gnomon.nn.recurrent import continue_recurrent, make_recurrent, run_recurrent
from gnomon.nn.state import State, Vectors


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
        self.causal = self.can_step = not config.bidirectional
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

    def init_state(self) -> State:
        """An empty state: h, or h and c, of every layer. Raises GnomonError for a model of both directions."""
        return State([Vectors(dim=1)]) if self.can_step else super().init_state()

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        documents: Tensor | None = None,
        state: State | None = None,
        taps: Taps | None = None,
    ) -> Output:
        """`ids`, `mask`, `documents` [B, T], real tokens first (with `state`, last) -> hidden [B, T, D].

        Taps: embeddings, layers (the last one's).
        """
        if documents is not None:
            rows, alone, place = take_apart(ids, mask, documents)
            return Output(self.forward(rows, mask=alone, taps=taps).hidden[place])
        x: Tensor = self.dropout(self.tokens(ids))
        hidden = run_recurrent(self.recurrent, x, mask) if state is None else self._read_on(x, mask, state)
        if taps is not None:
            taps("embeddings", x)
            taps("layers", hidden)
        return Output(hidden, state)

    def _read_on(self, x: Tensor, mask: Tensor | None, state: State) -> Tensor:
        memory = state.memories[0]
        if not self.can_step or not isinstance(memory, Vectors):
            raise GnomonError("this recurrent model cannot read on from a state", "use one with a single direction")
        hidden, memory.tensors = continue_recurrent(self.recurrent, x, mask, memory.tensors)
        state.advance(x.shape[1], state.seen(mask, rows=x.shape[0], length=x.shape[1]))
        return hidden
