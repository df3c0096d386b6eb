"""A fresh process that serves a model and says what that took: `python -m gnomon.runtime.probe FOLDER --texts FILE`.

FILE holds a JSON list of texts. The answer is one JSON object on standard output: seconds from the start of the
process to the first answer, memory before the model was opened and at its peak, and, with --rounds, the time
of one text (tokenizing included) with each thread count and texts a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_BEGIN = time.time()


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m gnomon.runtime.probe")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=Path, required=True, help="a file with a JSON list of texts")
    parser.add_argument("--threads", default="1", help="thread counts, divided by commas; the first one starts cold")
    parser.add_argument("--rounds", type=int, default=0, help="how often each text is timed; 0: only the first answer")
    options = parser.parse_args(arguments)
    threads = [int(count) for count in options.threads.split(",")]
    texts = json.loads(options.texts.read_text(encoding="utf-8"))
    print(json.dumps(probe(options.folder, texts, threads=threads, rounds=options.rounds)))


def probe(folder: Path, texts: Sequence[str], *, threads: Sequence[int], rounds: int) -> dict[str, Any]:
    """Serve `texts` and measure; memory in MB (10^6 bytes), cold start in seconds, latency in milliseconds."""
    from gnomon.runtime.predictor import load_predictor

    before = peak_memory_mb()
    predictor = load_predictor(folder, threads=threads[0])
    predictor.predict(texts[0])
    found: dict[str, Any] = {
        "cold_start_seconds": time.time() - process_start(),
        "memory_before_mb": before,
        "peak_memory_mb": peak_memory_mb(),
    }
    if rounds:
        found |= _speed(folder, texts, threads, rounds)
    return found


def _speed(folder: Path, texts: Sequence[str], threads: Sequence[int], rounds: int) -> dict[str, Any]:
    from gnomon.measure.latency import interleaved, throughput
    from gnomon.runtime.predictor import load_predictor

    predictors = {count: load_predictor(folder, threads=count) for count in threads}
    times = interleaved({count: one.predict for count, one in predictors.items()}, texts, rounds=rounds)
    return {
        "latency_ms": {str(count): {"p50": one.p50_ms, "p99": one.p99_ms} for count, one in times.items()},
        "texts_per_second": {str(count): throughput(one.predict, texts) for count, one in predictors.items()},
    }


def process_start() -> float:
    """When this process began, in seconds of the system's clock; where the system does not say, when this file ran."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot)
    except (OSError, AttributeError, ValueError):
        return _BEGIN


def peak_memory_mb() -> float:
    """The most memory this process has held, in MB (10^6 bytes); 0 where the system does not say.

    Linux says it per program; the figure of `getrusage` begins at what the parent held when it was forked.
    """
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().split("\n")
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
    if sys.platform == "win32":
        return 0.0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main()
