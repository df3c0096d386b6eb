"""The peak is the child's own, whatever the parent holds, and a failing command says why."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gnomon.errors import GnomonError
from gnomon.measure.memory import footprint


def _python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_a_large_parent_is_not_charged_to_a_small_child() -> None:
    held = np.ones(40_000_000)  # 320 MB, which a plain fork would hand down as the child's peak
    small = footprint(_python("print('done')"))
    assert held[-1] == 1
    assert small.output == "done\n"
    assert 2 < small.peak_memory_mb < 100
    large = footprint(_python("b = bytearray(150_000_000); b[::4096] = b'x' * len(b[::4096])"))
    assert 145 < large.peak_memory_mb - small.peak_memory_mb < 200
    assert 0 < small.seconds < 20


def test_the_environment_is_added() -> None:
    command = _python("import os; print(os.environ['GNOMON_PROBE'], 'PATH' in os.environ)")
    assert footprint(command, environment={"GNOMON_PROBE": "7"}).output == "7 True\n"


def test_a_failure_says_why() -> None:
    with pytest.raises(GnomonError, match="ended with code 3: it broke"):
        footprint(_python("import sys; sys.stderr.write('first\\nit broke\\n'); sys.exit(3)"))
    with pytest.raises(GnomonError, match="cannot start /no/such/command"):
        footprint(["/no/such/command"])
    with pytest.raises(GnomonError, match="did not end within"):
        footprint(_python("import time; time.sleep(60)"), timeout=0.3)
