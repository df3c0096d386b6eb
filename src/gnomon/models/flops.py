"""How much arithmetic a model takes for a token, counted from its modules."""

from __future__ import annotations

from torch import nn

from gnomon.models.base import Model
from gnomon.nn.grouped_attention import GroupedAttention
from gnomon.nn.vocabulary import VocabularyProjection

_PASSES = 3  # forward, and backward to the inputs and to the weights


def training_flops(model: Model, *, context: int, scored_share: float = 1.0) -> float:
    """Floating-point operations to train on one token of a text of `context` tokens, `scored_share` of which have a
    target: two for each weight of a matrix product and pass, and attention's. What an optimiser adds is not counted."""
    total = 0.0
    for module in model.modules():
        if isinstance(module, VocabularyProjection):
            total += 2 * module.matrix.numel() * scored_share
        elif isinstance(module, nn.Linear | nn.Conv1d):
            total += 2 * module.weight.numel()
        elif isinstance(module, nn.RNNBase):
            total += sum(2 * weight.numel() for weight in module.parameters() if weight.ndim == 2)
        elif isinstance(module, GroupedAttention):
            seen = context / 2 if model.backbone.causal else context
            total += 4 * module.num_heads * module.head_size * seen
    return _PASSES * total


def layer_parameters(model: Model) -> int:
    """Numbers in matrices that every token goes through: all but tables and the vocabulary's."""
    return sum(
        parameter.numel()
        for module in model.backbone.modules()
        if not isinstance(module, nn.Embedding)
        for parameter in module.parameters(recurse=False)
    )
