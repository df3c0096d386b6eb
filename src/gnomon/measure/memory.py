"""Peak memory and wall time of a command in a fresh process.

The kernel's peak for a child starts at what its parent held when it was forked: a probe started from a process with
torch loaded would be charged for torch. So a small interpreter stands in between; it starts the command, waits for
it and reports.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.errors import GnomonError

# argv: where to report, then the command. The clock starts before the child exists, so its start-up counts.
_LAUNCHER = """
import json, os, sys, time
start = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
unit = 1 if sys.platform == "darwin" else 1024
report = {"code": os.waitstatus_to_exitcode(status), "seconds": time.perf_counter() - start,
          "peak_bytes": usage.ru_maxrss * unit}
with open(sys.argv[1], "w") as file:
    json.dump(report, file)
"""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a command used: peak resident memory in MB (10^6 bytes), wall time in seconds, and what it printed."""

    peak_memory_mb: float
    seconds: float
    output: str


def footprint(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, timeout: float = 600.0
) -> Footprint:
    """Run `command` in a fresh process and report its footprint; a command that fails is a GnomonError with its words.

    `environment` is added to this process's. Needs a POSIX system.
    """
    if not hasattr(os, "wait4"):
        raise GnomonError("peak memory cannot be read on this system", "measure on Linux or macOS")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        words, complaint = _launch([str(report), *command], environment or {}, timeout)
        if not report.exists():
            raise GnomonError(f"cannot start {command[0]}: {_last_line(complaint)}", "check the command")
        figures = json.loads(report.read_text())
    if figures["code"] != 0:
        raise GnomonError(f"{command[0]} ended with code {figures['code']}: {_last_line(complaint)}")
    return Footprint(figures["peak_bytes"] / 1e6, figures["seconds"], words)


def resident_peak_mb() -> float:
    """The most memory that this process has held so far, in MB (10^6 bytes). Needs a POSIX system."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def _launch(arguments: Sequence[str], environment: Mapping[str, str], timeout: float) -> tuple[str, str]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            words, complaint = process.communicate(timeout=timeout)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # the command too, which would hold the pipes open
            if isinstance(error, subprocess.TimeoutExpired):
                raise GnomonError(f"{arguments[1]} did not end within {timeout:g} s") from error
            raise
    return words.decode("utf-8", "replace"), complaint.decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = text.strip().split("\n")
    return lines[-1] if lines[-1] else "it printed nothing"
