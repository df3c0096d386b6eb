"""How a training goes: a frozen Plan, checked when made, and what `fit` gives back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from gnomon.errors import GnomonError, did_you_mean

OptimizerName = Literal["sgd", "momentum", "adam", "adam_l2", "adamw", "muon"]
ScheduleName = Literal["linear", "cosine", "constant"]
Precision = Literal["float32", "bfloat16"]

_CHOICES = {
    "optimizer": get_args(OptimizerName),
    "schedule": get_args(ScheduleName),
    "precision": get_args(Precision),
}
_LOWER_IS_BETTER = frozenset({"loss", "perplexity", "bits_per_byte"})


class Source(Protocol):
    """Batches of examples, a pure function of the epoch, so that (epoch, index) is a place in the data."""

    @property
    def steps_per_epoch(self) -> int:
        """Batches in every epoch."""
        ...

    def epoch(self, number: int, /) -> Sequence[Sequence[Any]]:
        """The batches of epoch `number`, counted from 0."""
        ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every setting of a training that is not the model, the data or the objective."""

    epochs: int = 1
    """Passes over the data."""
    steps: int | None = None
    """Updates to make instead of whole epochs; the data is passed over as often as that needs."""
    accumulation: int = 1
    """Batches summed up before each update."""
    optimizer: OptimizerName = "adamw"
    """adam_l2 adds weight_decay * weight to the gradient; adamw decays the weight itself; plain adam has no decay. muon
    takes the matrices of the backbone's layers, and leaves tables, heads, biases and norms to adamw."""
    learning_rate: float = 1e-3
    """Peak rate."""
    rest_rate_factor: float = 0.2
    """With muon: what it leaves to adamw learns at this factor of the rate."""
    muon_momentum: float = 0.95
    """Muon's decay rate of the gradient's average."""
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    """Factors of the rate by module (`{"head": 10.0}`); the objective's modules stand under `objective.`."""
    weight_decay: float | None = None
    """Decay of matrices; norms, biases and sparse tables have none. None: 0.01 for adamw and adam_l2, else 0."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates of the first and second moment; the first is also momentum's."""
    epsilon: float = 1e-8
    """Adam's guard against a division by zero."""
    warmup_share: float = 0.1
    """Share of all updates in which the rate rises."""
    schedule: ScheduleName = "linear"
    """How the rate falls after the rise."""
    clip_norm: float | None = 1.0
    """Largest norm of the gradient of all parameters together; None: no limit."""
    evaluate_every: int | None = None
    """Updates between evaluations; None: at the end of each epoch. The last update is always evaluated."""
    metric: str = "accuracy"
    """The figure of an evaluation that names the best weights."""
    patience: int | None = None
    """Stop after so many evaluations without a better figure; None: never."""
    seed: int = 0
    """Seed of dropout and of everything else random in the training."""
    precision: Precision = "float32"
    """bfloat16 runs matrix products in half precision; weights and optimiser stay in float32."""
    checkpoint_seconds: float = 60.0
    """Seconds of training between checkpoints."""
    log_every: int = 20
    """Updates between records of the loss in metrics.jsonl."""

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise GnomonError(
                    f"{name} = {getattr(self, name)!r} is unknown", did_you_mean(str(getattr(self, name)), choices)
                )
        for name in ("epochs", "steps", "accumulation", "evaluate_every", "patience", "log_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise GnomonError(f"{name} = {value} must be at least 1")
        for name in ("learning_rate", "rest_rate_factor", "clip_norm", "epsilon"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise GnomonError(f"{name} = {value} must be a number above 0")
        for name, value in (
            ("warmup_share", self.warmup_share),
            ("betas[0]", self.betas[0]),
            ("betas[1]", self.betas[1]),
            ("muon_momentum", self.muon_momentum),
        ):
            if not 0 <= value < 1:
                raise GnomonError(f"{name} = {value} must lie in [0, 1)")
        if self.optimizer == "adam" and self.weight_decay:
            raise GnomonError("plain adam has no weight decay", "choose adamw or adam_l2, or weight_decay = 0")

    @property
    def decay(self) -> float:
        """The weight decay that holds for matrices."""
        if self.weight_decay is not None:
            return self.weight_decay
        return 0.01 if self.optimizer in ("adamw", "adam_l2") else 0.0

    def score(self, metrics: Mapping[str, float]) -> float:
        """The figure that names the best weights, turned so that higher is better."""
        if self.metric not in metrics:
            raise GnomonError(f"metric = {self.metric!r} is not evaluated", did_you_mean(self.metric, metrics))
        value = metrics[self.metric]
        if math.isnan(value):
            return -math.inf
        return -value if self.metric in _LOWER_IS_BETTER else value


@dataclass(frozen=True)
class FitResult:
    """What a training came to. The model holds the best weights."""

    steps: int
    """Updates made."""
    best_step: int
    """The update after which the model was best; the last one where nothing was evaluated."""
    best: Mapping[str, float]
    """The evaluation at `best_step`."""
    seconds: float
    """Time trained, over all starts."""
    history: tuple[Mapping[str, float], ...]
    """Every evaluation, with its `step` and `epoch`."""
    stopped: str
    """Why it ended: "finished" or "patience"."""
    warnings: tuple[str, ...] = ()
    """What the evaluation of the best weights found worth a look (a class that is never predicted)."""
