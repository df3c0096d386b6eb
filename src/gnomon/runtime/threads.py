"""Which thread counts are worth measuring: more is often slower for one short text."""

from __future__ import annotations

import os
from pathlib import Path

_MOST = 8  # one short text cannot feed more
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def thread_counts() -> tuple[int, ...]:
    """1, 2, 4, 8, as far as this process may use so many processors."""
    available = available_processors()
    return tuple(count for count in (1, 2, 4, _MOST) if count <= available)


def available_processors() -> int:
    """Processors this process may use at once: those it is bound to, within a container's quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _QUOTA.read_text().split()
        return max(1, min(bound, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no container, or one without a quota ("max")
        return bound
