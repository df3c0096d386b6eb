"""Texts packed into one row, taken apart: for layers that have no mask to keep them apart."""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.nn.positions import token_positions

Place = tuple[Tensor, Tensor]
"""For each column of the packed rows, its row and column among the texts taken apart, [B, T] each."""


def take_apart(ids: Tensor, mask: Tensor | None, documents: Tensor) -> tuple[Tensor, Tensor, Place]:
    """`ids`, `mask`, `documents` [B, T] -> one row a text: ids [N, L], mask [N, L], and where each column went.

    `documents` numbers the texts of a row; a row ends a text in any case. `vectors[place]` puts [N, L, D] together
    again as [B, T, D].
    """
    columns = token_positions(ids.shape[1], documents=documents)
    if isinstance(columns, range):
        raise TypeError("positions of packed texts are a tensor")
    texts = (columns == 0).flatten().cumsum(0).view_as(ids) - 1
    shape = int(texts[-1, -1]) + 1, int(columns.max()) + 1
    rows, real = ids.new_zeros(shape), torch.zeros(shape, dtype=torch.bool, device=ids.device)
    rows[texts, columns] = ids
    real[texts, columns] = torch.ones_like(real[texts, columns]) if mask is None else mask
    return rows, real, (texts, columns)
