"""The parts around a predictor: activations in numpy, thread counts, the probe of a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from families import TEXTS, small_model
from gnomon.deploy.deploy import deploy
from gnomon.errors import GnomonError
from gnomon.nn.feedforward import ACTIVATIONS
from gnomon.runtime import threads
from gnomon.runtime.probe import peak_memory_mb, process_start
from gnomon.runtime.static import activation


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_numpy_activations_are_torchs(name: str) -> None:
    x = np.linspace(-6, 6, 101, dtype=np.float32)[None]
    found = activation(name)(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ACTIVATIONS[name](torch.from_numpy(x)), atol=1e-6)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(GnomonError, match="swish"):
        activation("swish")


@pytest.mark.parametrize(
    ("content", "expected"),
    [("100000 100000", 1), ("250000 100000", 2), ("max 100000", 6), ("900000 100000", 6), ("1000 100000", 1), ("", 6)],
)
def test_a_containers_quota_counts(
    content: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(content)
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert threads.available_processors() == expected
    assert threads.thread_counts() == tuple(count for count in (1, 2, 4) if count <= expected)


def test_the_probe_measures_a_fresh_process(tmp_path: Path) -> None:
    small_model("static").save(tmp_path / "m")
    deploy(tmp_path / "m", check_texts=TEXTS)
    (tmp_path / "texts.json").write_text(json.dumps(list(TEXTS)))
    command = [
        sys.executable,
        "-m",
        "gnomon.runtime.probe",
        str(tmp_path / "m"),
        "--texts",
        str(tmp_path / "texts.json"),
    ]
    found = json.loads(subprocess.run([*command, "--rounds", "1"], capture_output=True, check=True).stdout)
    assert 0.02 < found["cold_start_seconds"] < 60
    assert 1 < found["memory_before_mb"] <= found["peak_memory_mb"] < 1000
    assert 0 < found["latency_ms"]["1"]["p50"] <= found["latency_ms"]["1"]["p99"]
    assert found["texts_per_second"]["1"] > 1


def test_this_process_began_before_now() -> None:
    import time

    assert time.time() - 100_000 < process_start() < time.time()
    assert peak_memory_mb() > 10
