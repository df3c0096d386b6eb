"""One stage of training as a recipe sees it: threads by measuring, a progress bar, and a deployed folder at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gnomon.deploy.deploy import deploy
from gnomon.models.base import Model, TorchScorer
from gnomon.objectives.base import Objective
from gnomon.reporting.console import Console, Tick
from gnomon.runs import MODEL, Run
from gnomon.runtime.predictor import Predictor
from gnomon.text.batches import Batches
from gnomon.train.engine import FitResult, Plan, Source, fit
from gnomon.train.hooks import Progress
from gnomon.train.threads import choose_threads
from gnomon.train.window import rehearsal

VALID_BATCH = 128


def train_stage(
    model: Model,
    objective: Objective,
    batches: Batches[Any],
    plan: Plan,
    *,
    run: Run,
    valid: Batches[Any],
    tick: Tick,
    threads: int | None,
    console: Console,
) -> FitResult:
    """Fit, at the thread count given, or kept from an earlier start, or else measured on one of the first batches."""
    settle_threads(model, objective, batches, run=run, threads=threads, plan=plan)
    result = fit(model, objective, batches, plan, run=run, valid=valid, hooks=(Progress(_shown(tick, plan)),))
    for warning in result.warnings:
        console.warn(warning)
    return result


def settle_threads(
    model: Model, objective: Objective, batches: Source, *, run: Run, threads: int | None, plan: Plan
) -> None:
    """Set torch's thread count, and keep it with the run, whose result depends on it to the last bit."""
    chosen = threads or run.measured.get("threads")
    if chosen is None:
        # A batch of usual length: the median of a few, since short and long ones favour different counts.
        first = sorted(batches.epoch(0)[:9], key=lambda rows: max(len(row.ids) for row in rows))
        rows = first[len(first) // 2]
        chosen = choose_threads(lambda: _discard(rehearsal(model, objective, rows, plan.precision))).threads
    torch.set_num_threads(int(chosen))
    run.settle(threads=int(chosen))


def save_and_deploy(model: Model, run: Run, *, card: str, check_texts: Sequence[str]) -> Path:
    """Write the model folder and its runtime into the run; refused when they differ on any of `check_texts`.

    Gives the folder.
    """
    folder = run.path / MODEL
    model.save(folder, card=card)
    reference = Predictor(model.tokenizer, TorchScorer(model), labels=model.labels, max_length=model.max_length)
    deploy(folder, check_texts=check_texts, reference=lambda texts: reference.logits(texts, batch_size=VALID_BATCH))
    return folder


def _discard(value: object) -> None:
    del value


def _shown(tick: Tick, plan: Plan) -> Any:
    def show(step: int, total: int, loss: float, metrics: Mapping[str, float], seconds_left: float) -> None:
        figure = f", {plan.metric} {metrics[plan.metric]:.3f}" if plan.metric in metrics else ""
        tick(step, total, f"loss {loss:.3f}{figure}")

    return show
