"""What a student takes over from its teacher before it learns anything: token vectors, or whole layers."""

from __future__ import annotations

import torch
from torch import Tensor

from gnomon.errors import GnomonError
from gnomon.models.base import Model, evaluating

_BATCH = 512


def contextual_vectors(teacher: Model, ids: Tensor) -> Tensor:
    """The teacher's output for each token as a text of its own: `ids` int64 [V] -> [V, D].

    One token between the teacher's own end markers, as model2vec and WordLlama do; it carries far more of the
    token's meaning than the input table.
    """
    tokenizer = teacher.tokenizer
    before = [] if tokenizer.cls_id is None else [tokenizer.cls_id]
    after = [] if tokenizer.sep_id is None else [tokenizer.sep_id]
    parts = []
    with evaluating(teacher), torch.inference_mode():
        for chunk in torch.split(ids, _BATCH):
            markers = [torch.full_like(chunk, marker) for marker in (*before, *after)]
            texts = torch.stack([*markers[: len(before)], chunk, *markers[len(before) :]], dim=1)
            parts.append(teacher.backbone(texts).hidden[:, len(before)])
    return torch.cat(parts).clone()


def word_vectors(teacher: Model, ids: Tensor) -> Tensor:
    """The teacher's input rows: `ids` int64 [V] -> [V, E]."""
    return teacher.backbone.token_embedding.weight.detach()[ids].clone()


def principal(vectors: Tensor, size: int) -> Tensor:
    """`vectors` [V, D] about their mean, on their first `size` principal directions: [V, size].

    There are no more than D directions: a narrower teacher gives fewer.
    """
    centred = vectors - vectors.mean(dim=0)
    # eigh gives ascending eigenvalues; the covariance is D x D however many tokens there are.
    _, directions = torch.linalg.eigh((centred.T @ centred).double())
    leading = directions.flip(1)[:, :size].to(vectors.dtype)
    # An eigenvector's sign is arbitrary: fix it, so that every build gives the same student.
    signs = leading.gather(0, leading.abs().argmax(dim=0, keepdim=True)).sign()
    projected: Tensor = centred @ (leading * signs)
    return projected


def chosen_layers(available: int, *, num_layers: int, layers: tuple[int, ...] | None) -> list[int]:
    """The teacher's layers a student takes: those named, or `num_layers` spread evenly from the first to the last."""
    if layers is None:
        if not 1 <= num_layers <= available:
            raise GnomonError(
                f"num_layers is {num_layers}, and the teacher has {available} layers", f"choose 1 to {available}"
            )
        if num_layers == 1:
            return [0]
        return [index * (available - 1) // (num_layers - 1) for index in range(num_layers)]
    for layer in layers:
        if not 0 <= layer < available:
            raise GnomonError(
                f"the teacher has no layer {layer}", f"its layers are 0 to {available - 1}, counted from 0"
            )
    return list(layers)
