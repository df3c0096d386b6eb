"""Learning-rate schedules: pure functions of the step, counted from 1, to a factor in (0, 1].

Warm-up rises linearly and reaches 1 at its last step; decay falls towards, but never to, 0 at the last
step, so no step is wasted on a rate of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

Decay = Callable[[float], float]
"""Share of the decay that is over, in [0, 1), to a factor."""

DECAYS: Mapping[str, Decay] = {
    "constant": lambda share: 1.0,
    "linear": lambda share: 1.0 - share,
    "cosine": lambda share: 0.5 * (1.0 + math.cos(math.pi * share)),
}


def factor(step: int, *, total: int, warmup: int, schedule: str) -> float:
    """The factor of the peak rate at `step` of `total`, after `warmup` steps of linear rise."""
    if step <= warmup:
        return step / warmup
    return DECAYS[schedule]((step - warmup) / (total - warmup + 1))
