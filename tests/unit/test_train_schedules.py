"""Schedules as pure functions: their ends, their shapes, and no step at a rate of zero."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import GnomonError
from gnomon.train.plan import Plan
from gnomon.train.schedules import DECAYS, factor


@given(st.integers(1, 500), st.floats(0, 0.99), st.sampled_from(sorted(DECAYS)))
@settings(deadline=None, derandomize=True, max_examples=60)
def test_factors_rise_to_one_then_never_rise_and_never_reach_zero(total: int, share: float, schedule: str) -> None:
    warmup = round(share * total)
    factors = [factor(step, total=total, warmup=warmup, schedule=schedule) for step in range(1, total + 1)]
    assert all(0 < value <= 1 for value in factors)
    assert factors[:warmup] == sorted(factors[:warmup])
    assert factors[warmup:] == sorted(factors[warmup:], reverse=True)
    if warmup:
        assert factors[warmup - 1] == 1


def test_shapes() -> None:
    def of(schedule: str) -> list[float]:
        return [factor(step, total=6, warmup=2, schedule=schedule) for step in range(1, 7)]

    assert of("constant") == [0.5, 1, 1, 1, 1, 1]
    assert of("linear") == pytest.approx([0.5, 1, 0.8, 0.6, 0.4, 0.2])
    assert of("cosine") == pytest.approx([0.5, 1, *(0.5 + 0.5 * math.cos(math.pi * k / 5) for k in (1, 2, 3, 4))])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"optimizer": "adamww"}, "did you mean 'adamw'"),
        ({"schedule": "linaer"}, "did you mean 'linear'"),
        ({"precision": "float16"}, "did you mean"),
        ({"epochs": 0}, "epochs = 0"),
        ({"accumulation": 0}, "accumulation = 0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"clip_norm": 0.0}, "clip_norm = 0.0"),
        ({"warmup_share": 1.0}, "warmup_share = 1.0"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"optimizer": "adam", "weight_decay": 0.1}, "adam has no weight decay"),
    ],
)
def test_a_plan_is_checked_when_made(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(GnomonError) as caught:
        Plan(**wrong)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_decay_and_score() -> None:
    assert Plan().decay == Plan(optimizer="adam_l2").decay == 0.01
    assert Plan(optimizer="adam").decay == Plan(optimizer="sgd").decay == 0.0
    assert Plan(weight_decay=0.1).decay == 0.1
    assert Plan().score({"accuracy": 0.5}) == 0.5
    assert Plan(metric="loss").score({"loss": 0.5}) == -0.5
    assert Plan().score({"accuracy": float("nan")}) == -math.inf
    with pytest.raises(GnomonError, match="acuracy"):
        Plan(metric="acuracy").score({"accuracy": 0.5})
