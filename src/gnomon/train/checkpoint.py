"""Checkpoints: whole model folders that also hold all a training needs to go on bit for bit.

    checkpoints/step-N/  config.json model.safetensors tokenizer.json ...   the model, ready to use
                         objective.safetensors optimizer.safetensors trainer.json
    last, best           name one of them each

A checkpoint appears whole or not at all, and `last` moves only when everything it needs is on disk. Kept are
the last and the best; the best may hold the model alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.models.base import Model
from gnomon.models.folders import read_folder
from gnomon.objectives.base import Objective
from gnomon.runs import Run
from gnomon.train import randomness
from gnomon.train.optimizers import Optimizers
from gnomon.train.plan import Plan

Weights = dict[str, Tensor]


@dataclass
class Place:
    """Where a training is: what trainer.json holds, beside random states, threads and settings."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    """The next batch of `epoch`."""
    seconds: float = 0.0
    best_step: int = 0
    best: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """What the evaluation of the best weights found."""
    unimproved: int = 0
    """Evaluations since the best one."""
    history: list[dict[str, float]] = field(default_factory=list)
    pending: dict[str, float] = field(default_factory=dict)
    """Sums of what the next record of the loss will average."""


class Checkpoints:
    """The checkpoints of one training, in its run folder."""

    def __init__(self, run: Run, model: Model, objective: Objective, optimizers: Optimizers, plan: Plan) -> None:
        self._run = run
        self._model = model
        self._objective = objective
        self._optimizers = optimizers
        # How often it saves may change between two starts: no result depends on it.
        self._settings = json.loads(json.dumps(dataclasses.asdict(plan)))
        del self._settings["checkpoint_seconds"]

    def save(self, place: Place, best: Weights) -> Path:
        """Write the checkpoint of `place`, and the `best` weights unless they are on disk; then move the pointers.

        Raises GnomonError when it cannot be written (a full disk); the checkpoints before it stay.
        """
        folder = self._folder(place.step)
        self._model.save(folder, extras=self._state(place))
        best_folder = self._folder(place.best_step) if best else folder
        if not best_folder.exists():
            with holding(self._model, best):
                self._model.save(best_folder)
        self._run.point("best", best_folder)
        self._run.point("last", folder)
        self._remove_all_but({folder.name, best_folder.name})
        return folder

    def restore(self) -> tuple[Place, Weights] | None:
        """Put everything back as it was at the last checkpoint; None when there is none.

        Random states and torch's number of threads are restored as well.
        """
        folder = self._run.pointed("last")
        if folder is None or not (folder / "trainer.json").exists():
            return None
        trainer = files.read_json(folder / "trainer.json")
        self._refuse_other_settings(folder, trainer["plan"])
        place = Place(**trainer["place"])
        self._model.load_state_dict(_weights(folder))
        self._objective.load_state_dict(_read(folder / "objective.safetensors"))
        self._optimizers.load(_read(folder / "optimizer.safetensors"))
        best_folder = self._folder(place.best_step)
        best = _weights(best_folder) if place.best else {}
        pointed = self._run.pointed("best") or folder
        self._remove_all_but({folder.name, best_folder.name, pointed.name})
        torch.set_num_threads(trainer["threads"])
        randomness.restore(trainer["random"])
        return place, best

    def last(self) -> Path | None:
        """The folder of the last whole checkpoint."""
        return self._run.pointed("last")

    def _state(self, place: Place) -> dict[str, bytes]:
        trainer = {
            "place": dataclasses.asdict(place),
            "plan": self._settings,
            "threads": torch.get_num_threads(),
            "random": randomness.capture(),
        }
        return {
            "objective.safetensors": save(
                {n: t.detach().contiguous() for n, t in self._objective.state_dict().items()}
            ),
            "optimizer.safetensors": save(self._optimizers.state()),
            "trainer.json": json.dumps(trainer).encode("utf-8"),
        }

    def _refuse_other_settings(self, folder: Path, before: Mapping[str, Any]) -> None:
        now = self._settings
        differing = [f"{n}: {before.get(n)!r} there, {now.get(n)!r} now" for n in now if before.get(n) != now.get(n)]
        if differing:
            raise GnomonError(
                f"{folder} was trained with other settings: {'; '.join(differing)}", "train in another run folder"
            )

    def _folder(self, step: int) -> Path:
        return self._run.checkpoints / f"step-{step}"

    def _remove_all_but(self, kept: set[str]) -> None:
        for item in self._run.checkpoints.iterdir():  # hidden ones are what a kill left of a save
            if item.name not in kept:
                shutil.rmtree(item, ignore_errors=True)


@contextlib.contextmanager
def holding(model: Model, weights: Weights) -> Iterator[None]:
    """The model with other weights inside, and bit for bit its own afterwards."""
    own = snapshot(model)
    model.load_state_dict(weights)
    try:
        yield
    finally:
        model.load_state_dict(own)


def snapshot(model: Model) -> Weights:
    """A copy of the model's weights, in memory."""
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _weights(folder: Path) -> Weights:
    return {name: torch.from_numpy(array) for name, array in read_folder(folder).arrays.items()}


def _read(path: Path) -> Weights:
    try:
        with files.explained(path, doing="read"):
            return dict(load_file(path))
    except SafetensorError as error:
        raise GnomonError(
            f"{path} is damaged: {error}", "remove this checkpoint, or the run, and start again"
        ) from error
