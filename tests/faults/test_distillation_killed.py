"""A store after a kill and after damage: what is whole stays, the rest is asked for again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gnomon.distillation.store import Signal, SignalStore

TEXTS = [f"text {i}" for i in range(40)]

WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from gnomon.distillation.store import Signal, SignalStore
store = SignalStore(Path(sys.argv[1]), fingerprint="t", settings={}, num_labels=2)
number = 0
while True:
    store.add([f"killed {number} {i}" for i in range(3000)], Signal(np.full((3000, 2), number % 100, np.float32)))
    number += 1
"""


def opened(root: Path) -> SignalStore:
    return SignalStore(root, fingerprint="t", settings={}, num_labels=2)


def filled(root: Path) -> SignalStore:
    store = opened(root)
    for start in range(0, 40, 10):
        logits = np.repeat(np.arange(start, start + 10, dtype=np.float32)[:, None], 2, axis=1)
        store.add(TEXTS[start : start + 10], Signal(logits))
    return store


@pytest.mark.parametrize("name", ["keys.npy", "logits.npy"])
@pytest.mark.parametrize("damage", ["cut", "gone", "empty", "other"])
def test_a_damaged_shard_is_asked_for_again(tmp_path: Path, name: str, damage: str) -> None:
    path = filled(tmp_path).folder / "shard-00001" / name
    if damage == "gone":
        path.unlink()
    elif damage == "other":
        np.save(path, np.zeros((3, 7), np.float16))
    else:
        path.write_bytes(path.read_bytes()[:-8] if damage == "cut" else b"")
    again = opened(tmp_path)
    assert again.missing(TEXTS) == TEXTS[10:20]
    again.add(TEXTS[10:20], Signal(np.repeat(np.arange(10, 20, dtype=np.float32)[:, None], 2, axis=1)))
    assert opened(tmp_path).read(TEXTS).logits[:, 0].tolist() == list(range(40))


def test_a_shard_half_written_is_removed(tmp_path: Path) -> None:
    folder = filled(tmp_path).folder
    half = folder / ".shard-00004.abc"
    half.mkdir()
    (half / "keys.npy").write_bytes(b"half")
    assert len(opened(tmp_path)) == 40
    assert not half.exists()


def test_a_killed_writer_leaves_whole_shards_only(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    try:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("*/shard-00002")) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    store = opened(tmp_path)
    assert len(store) >= 9000
    assert len(store) % 3000 == 0
    whole = len(store) // 3000
    texts = [f"killed {number} {i}" for number in range(whole) for i in range(3000)]
    assert not store.missing(texts)
    assert store.read(texts[::1000]).logits[:, 0].tolist() == [
        number % 100 for number in range(whole) for _ in range(3)
    ]
