"""How far a student's row is from its teacher's: one value per row, never a mean; weights are the objective's.

Divergences work on log-probabilities throughout: a probability is only ever formed to weigh a difference of logarithms,
so nothing is divided by, or taken the logarithm of, a number that can reach zero.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

_SMALLEST_NORM = 1e-6


def forward_kl(student_logits: Tensor, teacher_logits: Tensor, *, temperature: float = 1.0) -> Tensor:
    """T² · KL(teacher ‖ student) of the distributions softened by T: [B, C], [B, C] -> [B], in nats, never negative.

    The factor T² keeps the gradient's size about the same at every temperature (Hinton et al. 2015, section 2).
    The teacher gets no gradient.
    """
    teacher = F.log_softmax(teacher_logits.detach() / temperature, dim=-1)
    student = F.log_softmax(student_logits / temperature, dim=-1)
    divergence = (teacher.exp() * (teacher - student)).sum(dim=-1)
    # Only rounding can take a divergence below zero.
    return temperature**2 * divergence.clamp_min(0.0)


def gold_cross_entropy(student_logits: Tensor, labels: Tensor) -> Tensor:
    """-log p(label): [B, C], [B] -> [B], in nats; rows labelled -1 have no gold answer and give 0."""
    return F.cross_entropy(student_logits, labels, ignore_index=-1, reduction="none")


def hidden_cosine(student_hidden: Tensor, teacher_hidden: Tensor) -> Tensor:
    """1 - cosine: [B, D], [B, D] -> [B], between 0 and 2.

    Written as half the squared distance of the unit vectors, which is the same number and exactly 0 for equal rows.
    """
    return 0.5 * (_unit(student_hidden) - _unit(teacher_hidden.detach())).square().sum(dim=-1)


def hidden_mse(student_hidden: Tensor, teacher_hidden: Tensor) -> Tensor:
    """The squared difference, averaged over the D features: [B, D], [B, D] -> [B]."""
    return (student_hidden - teacher_hidden.detach()).square().mean(dim=-1)


def _unit(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return rows / norms.clamp_min(_SMALLEST_NORM)
