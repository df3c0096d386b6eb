"""From hidden vectors to one answer a text: pooling and the label head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gnomon.errors import GnomonError, did_you_mean
from gnomon.nn.feedforward import activation

POOLINGS = ("first", "mean", "max", "attention", "last")


class Pool(nn.Module):
    """One vector a text, from real positions only; zeros for a text without any.

    `attention` learns one score a position, linear in its hidden vector, and takes the softmax-weighted mean.
    """

    def __init__(self, kind: str, size: int) -> None:
        super().__init__()
        if kind not in POOLINGS:
            raise GnomonError(f"unknown pooling {kind!r}", did_you_mean(kind, POOLINGS))
        self.kind = kind
        if kind == "attention":
            self.score = nn.Linear(size, 1, bias=False)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """`hidden` [B, T, D], `mask` [B, T] bool -> [B, D]."""
        if self.kind == "first":
            return _take(hidden, mask.int().argmax(dim=1), mask)
        if self.kind == "last":
            return _take(hidden, mask.shape[1] - 1 - mask.flip(1).int().argmax(dim=1), mask)
        if self.kind == "max":
            lowest = torch.finfo(hidden.dtype).min
            highest = hidden.masked_fill(~mask.unsqueeze(-1), lowest).amax(dim=1)
            return highest.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)
        if self.kind == "mean":
            weights = mask.to(hidden.dtype)
        else:
            lowest = torch.finfo(hidden.dtype).min
            scores = self.score(hidden).squeeze(-1).masked_fill(~mask, lowest)
            weights = scores.softmax(dim=1).masked_fill(~mask, 0.0)
        total = torch.bmm(weights.unsqueeze(1), hidden.masked_fill(~mask.unsqueeze(-1), 0.0)).squeeze(1)
        return total / weights.sum(dim=1, keepdim=True).clamp_min(1.0) if self.kind == "mean" else total


class LabelHead(nn.Module):
    """Pool, an optional dense layer with its activation, and one linear layer to the labels.

    BERT's pooler and classifier are `pooling="first", dense_size=D, act="tanh"`; DistilBERT's the same with
    "relu"; RoBERTa's with "tanh" and `input_dropout` too.
    """

    def __init__(
        self,
        size: int,
        num_labels: int,
        *,
        pooling: str,
        dense_size: int | None = None,
        act: str = "tanh",
        dropout: float = 0.1,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.pool = Pool(pooling, size)
        self.input_dropout = nn.Dropout(input_dropout)
        self.dense = nn.Linear(size, dense_size) if dense_size is not None else None
        self._act = activation(act)
        self.dropout = nn.Dropout(dropout)
        self.feature_size = size if dense_size is None else dense_size
        self.out = nn.Linear(self.feature_size, num_labels)

    def features(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """`hidden` [B, T, D], `mask` [B, T] bool -> [B, P], what the last linear layer sees but for its dropout."""
        pooled: Tensor = self.input_dropout(self.pool(hidden, mask))
        return pooled if self.dense is None else self._act(self.dense(pooled))

    def logits(self, features: Tensor) -> Tensor:
        """[B, P] -> [B, C]."""
        result: Tensor = self.out(self.dropout(features))
        return result


def _take(hidden: Tensor, index: Tensor, mask: Tensor) -> Tensor:
    rows = hidden[torch.arange(hidden.shape[0], device=hidden.device), index]
    return rows.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)
