"""`fit`, the only training loop: gradient, update, evaluation, checkpoint, and all that may stop it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from gnomon.errors import GnomonError, Interrupted
from gnomon.models.base import Model, evaluating
from gnomon.objectives.base import Batch, Objective
from gnomon.runs import Run
from gnomon.train import randomness
from gnomon.train.checkpoint import Checkpoints, Place, Weights, snapshot
from gnomon.train.distributed import World
from gnomon.train.guard import not_finite
from gnomon.train.hooks import Hook, Step
from gnomon.train.interrupts import StopRequest, stop_requests
from gnomon.train.optimizers import Optimizers
from gnomon.train.plan import FitResult, Plan, Source
from gnomon.train.schedules import factor
from gnomon.train.trackers import installed_trackers
from gnomon.train.window import all_finite, backward, rehearsal, total_weights

__all__ = ["FitResult", "Plan", "Source", "fit"]


def fit(
    model: Model,
    objective: Objective,
    batches: Source,
    plan: Plan,
    *,
    run: Run,
    valid: Source | None = None,
    hooks: Sequence[Hook] = (),
    device: torch.device | str | None = None,
    world: World | None = None,
) -> FitResult:
    """Train `model` with `objective` on `batches`; it ends with its best weights on `valid`, or the last without.

    In a `world` of several processes, which all call this alike, each takes its share of every batch, and the first
    evaluates, writes and calls the hooks.

    Goes on from the last checkpoint in `run`, if there is one, as if it had never stopped: bit for bit, at the thread
    count of then, which is restored. Raises GnomonError when nothing can be learnt or a loss is not finite, and
    Interrupted, after saving, on Ctrl-C or SIGTERM.
    """
    if device is not None:
        model.to(device)
    objective.to(model.device)
    training = _Training(model, objective, batches, plan, run, valid, world or World())
    training.start(hooks)
    with stop_requests() as request:
        return training.go(request)


class _Training:
    """One call of `fit`: its parts and its place."""

    def __init__(
        self,
        model: Model,
        objective: Objective,
        batches: Source,
        plan: Plan,
        run: Run,
        valid: Source | None,
        world: World,
    ) -> None:
        self.model = model
        self.objective = objective
        self.batches = batches
        self.plan = plan
        self.run = run
        self.valid = valid
        self.world = world
        for source, purpose in ((batches, "train"), (valid, "validate")):
            if source is not None and source.steps_per_epoch == 0:
                raise GnomonError(f"there is nothing to {purpose} on", "give at least one row")
        self.total = plan.steps or plan.epochs * math.ceil(batches.steps_per_epoch / plan.accumulation)
        self.warmup = round(plan.warmup_share * self.total)
        self.optimizers = Optimizers(model, objective, plan)
        self.checkpoints = Checkpoints(run, model, objective, self.optimizers, plan)
        self.place = Place()
        self.best: Weights = {}
        self.hooks: list[Hook] = []

    def start(self, hooks: Sequence[Hook]) -> None:
        """Go on from the last checkpoint; or check everything, rehearse a step, and begin."""
        self.objective.check(self.model)
        restored = self.checkpoints.restore()
        if restored is not None:
            self.place, self.best = restored
            self.run.rewind(self.place.step)
        else:
            self._rehearse()
            randomness.seed_all(self.plan.seed)
            self.run.rewind(-1)
            groups = [group.describe() for group in self.optimizers.groups]
            self.run.log({"event": "start", "step": 0, "total": self.total, "warmup": self.warmup, "groups": groups})
        if self.world.leads:
            trackers = installed_trackers(self.run, start=self.place.step, every=self.plan.log_every)
            self.hooks = [*hooks, *trackers]
        self.model.train()
        self.objective.train()

    def go(self, request: StopRequest) -> FitResult:
        """Every update that is left; then the best weights."""
        started = time.perf_counter() - self.place.seconds
        saved = time.monotonic()
        for window in self._windows():
            self._update(window)
            self.place.seconds = time.perf_counter() - started
            if self.valid is not None and self._evaluation_due():
                self._evaluate(self.valid)
            asked = self.world.first(request.name)
            if self.world.leads and (asked or time.monotonic() - saved >= self.plan.checkpoint_seconds):
                self._save()
                saved = time.monotonic()
            if asked:
                raise Interrupted(
                    f"{asked}: stopped after update {self.place.step} of {self.total} and saved",
                    self.run.resume_command,
                )
        return self._end()

    def _rehearse(self) -> None:
        """Surface wrong shapes, infinite losses and a metric that nobody computes before the first update."""
        examples = self.batches.epoch(0)[0]
        shares = rehearsal(self.model, self.objective, examples, self.plan.precision)
        if not all_finite(shares.values()):
            raise self._not_finite([self.objective.collate(examples)], shares, step=1)
        if self.valid is not None:
            with randomness.preserved():
                self.plan.score(self._metrics(self.valid.epoch(0)[:1]))

    def _windows(self) -> Iterator[list[Batch]]:
        """The windows from the present place on; when one is given out, the place is already behind it."""
        place = self.place
        while self._goes_on():
            epoch = self.batches.epoch(place.epoch)
            while place.index < len(epoch) and self._goes_on():
                window = epoch[place.index : place.index + self.plan.accumulation]
                place.index += len(window)
                place.step += 1
                if self.world.size > 1:  # checkpoints hold the random states of the first process alone
                    randomness.seed_update(self.plan.seed, place.step, self.world.rank)
                parts = [self.world.share(examples) for examples in window]
                yield [self.objective.collate(part) for part in parts if len(part)]
            if self._goes_on():
                place.epoch, place.index = place.epoch + 1, 0

    def _goes_on(self) -> bool:
        return self.place.step < self.total and not self._out_of_patience()

    def _out_of_patience(self) -> bool:
        return self.plan.patience is not None and self.place.unimproved >= self.plan.patience

    def _update(self, window: Sequence[Batch]) -> None:
        """One window's gradient, checked, clipped and applied. A window without any weight changes nothing."""
        plan, place = self.plan, self.place
        rate = factor(place.step, total=self.total, warmup=self.warmup, schedule=plan.schedule)
        totals = self.world.totals(total_weights(window))
        shares = backward(self.model, self.objective, window, totals, plan.precision)
        self.optimizers.exchange(self.world, shares, totals)
        terms: dict[str, float] = {}
        length = 0.0
        if shares:
            norm = self.optimizers.gradient_norm()
            *values, length = torch.stack([*shares.values(), norm]).tolist()  # the only wait for a device
            terms = dict(zip(shares, values, strict=True))
            if not all_finite((*values, length)):
                raise self._not_finite(window, terms, step=place.step)
            if plan.clip_norm is not None and length > plan.clip_norm:
                self.optimizers.scale_gradients(norm, plan.clip_norm)
            self.optimizers.step(rate)
            self.optimizers.zero_grad()
        step = Step(
            place.step, self.total, self._passes(), sum(terms.values(), 0.0), terms, plan.learning_rate * rate, length
        )
        self._log(step)
        for hook in self.hooks:
            hook.on_step(step)

    def _log(self, step: Step) -> None:
        """Every so many updates, a record of the mean loss since the one before."""
        pending = self.place.pending
        for name, value in (
            ("updates", 1),
            ("loss", step.loss),
            *((f"loss_{name}", v) for name, v in step.terms.items()),
        ):
            pending[name] = pending.get(name, 0) + value
        if step.number % self.plan.log_every and step.number != step.of:
            return
        updates = pending.pop("updates")
        means = {name: value / updates for name, value in pending.items()}
        self.place.pending = {}
        self.run.log(
            {
                "event": "train",
                "step": step.number,
                "epoch": step.epoch,
                **means,
                "learning_rate": step.learning_rate,
                "gradient_norm": step.gradient_norm,
                "seconds": round(self.place.seconds, 3),
            }
        )

    def _evaluation_due(self) -> bool:
        place, every = self.place, self.plan.evaluate_every
        due = place.index >= self.batches.steps_per_epoch if every is None else place.step % every == 0
        return due or place.step == self.total

    def _metrics(self, batches: Sequence[Sequence[Any]]) -> dict[str, float]:
        with evaluating(self.model), evaluating(self.objective), torch.no_grad():
            return self.objective.evaluate(self.model, batches)

    def _evaluate(self, valid: Source) -> None:
        """Measure on the validation batches, and keep the weights if they are the best so far."""
        place = self.place
        metrics = self.world.told(self._metrics(valid.epoch(0)) if self.world.leads else {})
        place.history.append({"step": place.step, "epoch": self._passes(), **metrics})
        if not place.best or self.plan.score(metrics) > self.plan.score(place.best):
            place.best, place.best_step, place.unimproved = metrics, place.step, 0
            place.warnings = list(self.objective.warnings())
            self.best = snapshot(self.model)
        else:
            place.unimproved += 1
        self.run.log({"event": "eval", **place.history[-1], "seconds": round(place.seconds, 3)})
        for hook in self.hooks:
            hook.on_eval(place.step, metrics)

    def _save(self) -> None:
        path = self.checkpoints.save(self.place, self.best)
        for hook in self.hooks:
            hook.on_save(self.place.step, path)

    def _end(self) -> FitResult:
        place = self.place
        if self.best and place.best_step != place.step:
            self.model.load_state_dict(self.best)
        self.model.eval()
        self.objective.eval()
        result = FitResult(
            steps=place.step,
            best_step=place.best_step if place.best else place.step,
            best=place.best,
            seconds=place.seconds,
            history=tuple(place.history),
            stopped="finished" if place.step == self.total else "patience",
            warnings=tuple(place.warnings),
        )
        for hook in self.hooks:
            hook.on_end(result)
        return result

    def _passes(self) -> float:
        """Passes over the data so far."""
        return round(self.place.epoch + self.place.index / self.batches.steps_per_epoch, 4)

    def _not_finite(self, window: Sequence[Batch], terms: Mapping[str, float], *, step: int) -> GnomonError:
        last = self.checkpoints.last()
        kept = f"the last good checkpoint is {last}" if last else "no checkpoint had been written yet"
        return not_finite(self.model, self.objective, window, self.plan, step=step, shares=terms, kept=kept)
