"""What every benchmark shares: the machine's description, interleaved timing, the table of ratios, the JSON file.

A benchmark runs us and its peers side by side in one run, one after the other and around again, so that whatever else
the machine does falls on all of them. A ratio above 1 means that we are better.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gnomon.formats.files import write_json

BUILD = Path("build")
_WIDTH = 160  # of the table where nobody watches it
_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "amx_tile")


@dataclass(frozen=True)
class Row:
    """One comparison. `ours` and `theirs` are medians in `unit`; `spread` is the lowest and highest of each."""

    work: str
    settings: str
    peer: str
    ours: float
    theirs: float
    unit: str
    ratio: float
    spread: Mapping[str, Sequence[float]]


def host(packages: Sequence[str] = ()) -> dict[str, Any]:
    """The processor and what it can do, the cores this process may use, memory, system, and versions."""
    information = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(line.split(":", 1) for line in information.splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    flags = fields.get("flags", "").split()
    return {
        "processor": fields.get("model name", platform.processor()),
        "flags": [flag for flag in _FLAGS if flag in flags],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": sys.version.split()[0],
        "packages": {name: importlib.metadata.version(name) for name in ("gnomon", "numpy", *packages)},
    }


def interleaved(contenders: Mapping[str, Callable[[], float]], *, repeats: int = 5) -> dict[str, list[float]]:
    """Call each contender in turn, `repeats` times around; each returns its own figure."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            figures[name].append(contender())
    return figures


def compared(
    work: str,
    settings: str,
    peer: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    unit: str,
    lower_is_better: bool = True,
) -> Row:
    """A row of medians. The ratio says how many times better ours is; NaN where it would mean nothing."""
    our, their = statistics.median(ours), statistics.median(theirs)
    better, worse = (their, our) if lower_is_better else (our, their)
    ratio = better / worse if worse else float("nan")
    spread = {"ours": [min(ours), max(ours)], "theirs": [min(theirs), max(theirs)]}
    return Row(work, settings, peer, our, their, unit, ratio, spread)


def difference(
    work: str, settings: str, peer: str, ours: Sequence[float], theirs: Sequence[float], *, unit: str
) -> Row:
    """A row of means of a quality, of which higher is better; the ratio is ours over theirs."""
    our, their = statistics.fmean(ours), statistics.fmean(theirs)
    spread = {"ours": [min(ours), max(ours)], "theirs": [min(theirs), max(theirs)]}
    return Row(work, settings, peer, our, their, unit, our / their if their else float("nan"), spread)


def report(
    name: str,
    rows: Sequence[Row],
    *,
    packages: Sequence[str] = (),
    console: Console | None = None,
    keep: bool = False,
) -> Path:
    """Print the table and write build/bench-NAME.json; returns its path.

    `keep`: rows of an earlier run that were not measured now stay, for a benchmark that is run in parts.
    """
    path = BUILD / f"bench-{name}.json"
    if keep and path.exists():
        now = {(row.work, row.peer) for row in rows}
        before = [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]
        rows = [*(row for row in before if (row.work, row.peer) not in now), *rows]
    described = host(packages)
    table = Table("work", "settings", "peer", "ours", "theirs", "unit", "ratio", title=_title(described))
    for row in rows:
        ours, theirs = (
            f"{value:.4g} ({low:.4g} to {high:.4g})"
            for value, (low, high) in ((row.ours, row.spread["ours"]), (row.theirs, row.spread["theirs"]))
        )
        table.add_row(row.work, row.settings, row.peer, ours, theirs, row.unit, f"{row.ratio:.2f}")
    (console or Console(width=None if sys.stdout.isatty() else _WIDTH)).print(table)
    content = {"host": described, "rows": [asdict(row) for row in rows]}
    write_json(path, json.loads(json.dumps(content).replace("NaN", "null")))
    print(f"written to {path}")
    return path


def _title(described: Mapping[str, Any]) -> str:
    return f"{described['processor']}, {described['cores']} cores, {described['system']}"
