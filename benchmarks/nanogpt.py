"""The peer of `make bench-pretrain`: the method that nanoGPT publishes for a CPU, written anew in plain torch.

Its README: 4 layers, 4 heads, width 128, context 64, batch 12, 2,000 updates of AdamW, no dropout; the rest are its
character configuration's settings (learning rate 1e-3 to 1e-4 by a cosine after 100 updates, betas 0.9 and 0.99, decay
0.1, gradients clipped at 1), random windows, learned positions, LayerNorm without bias, GELU, tied tables.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, BATCH, UPDATES = 4, 4, 128, 64, 12, 2000
RATE, LOWEST_RATE, WARMUP, DECAY, BETAS, CLIP = 1e-3, 1e-4, 100, 0.1, (0.9, 0.99), 1.0


class Block(nn.Module):
    """Attention and feed-forward, each after a LayerNorm and beside the residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), nn.LayerNorm(WIDTH, bias=False)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.c_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.c_out = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        rows, length, _ = x.shape
        parts = self.c_attn(self.ln_1(x)).split(WIDTH, dim=2)
        query, key, value = (part.view(rows, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.c_proj(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))


class Peer(nn.Module):
    """The whole model."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln_f = nn.LayerNorm(WIDTH, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                last = name.endswith(("c_proj.weight", "c_out.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if last else 0.02)

    def loss(self, ids: Tensor, targets: Tensor, *, reduction: str = "mean") -> Tensor:
        """Cross-entropy of `targets` [B, T] given `ids` [B, T]."""
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        logits = F.linear(self.ln_f(self.blocks(x)), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction=reduction)


@dataclass(frozen=True)
class Trained:
    """Seconds of training alone, and the loss over all of the validation text."""

    seconds: float
    loss: float


def train(train_ids: Tensor, valid_ids: Tensor, *, vocab_size: int, seed: int, updates: int = UPDATES) -> Trained:
    """Train on `train_ids` [N], measure on all of `valid_ids` [M] in windows of the context."""
    torch.manual_seed(seed)
    model = Peer(vocab_size)
    decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    plain = [parameter for parameter in model.parameters() if parameter.ndim == 1]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS)
    columns = torch.arange(CONTEXT + 1)
    started = time.perf_counter()
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = _rate(update, updates)
        windows = train_ids[torch.randint(len(train_ids) - CONTEXT, (BATCH, 1)) + columns]
        model.loss(windows[:, :-1], windows[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    seconds = time.perf_counter() - started
    return Trained(seconds, over_all(lambda x, y: model.loss(x, y, reduction="sum"), valid_ids))


@torch.no_grad()
def over_all(summed: Callable[[Tensor, Tensor], Tensor], ids: Tensor) -> float:
    """The mean loss in nats over all of `ids`, in windows of the context."""
    count = len(ids) - 1
    total = 0.0
    for start in range(0, count, 256 * CONTEXT):
        stop = min(start + 256 * CONTEXT, count)
        whole = (stop - start) // CONTEXT * CONTEXT
        for first, last, width in ((start, start + whole, CONTEXT), (start + whole, stop, stop - start - whole)):
            if last > first:
                total += float(summed(ids[first:last].view(-1, width), ids[first + 1 : last + 1].view(-1, width)))
    return total / count


def _rate(update: int, updates: int) -> float:
    if update < WARMUP:
        return RATE * (update + 1) / (WARMUP + 1)
    share = (update - WARMUP) / (updates - WARMUP)
    return LOWEST_RATE + 0.5 * (1 + math.cos(math.pi * share)) * (RATE - LOWEST_RATE)
