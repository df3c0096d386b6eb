"""A save that fails or is killed half-way: a clear error, and the last good checkpoint stays whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tiny_training as tiny
from gnomon.errors import GnomonError
from gnomon.models.folders import load_model
from gnomon.runs import Run
from gnomon.train.engine import fit
from gnomon.train.hooks import Hook, Step


class _FillDiskAt(Hook):
    """Another program that takes all the space that is left, during the update `number`."""

    def __init__(self, number: int, disk: Path) -> None:
        self._number = number
        self._disk = disk

    def on_step(self, step: Step) -> None:
        if step.number == self._number:
            with pytest.raises(OSError, match="No space"), (self._disk / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))


def test_a_full_disk_is_told_and_the_last_checkpoint_stays(small_disk: Path) -> None:
    run = Run(small_disk / "run")
    plan = tiny.plan(checkpoint_seconds=0.0, log_every=100)
    whole = tiny.tiny_model()
    fit(whole, tiny.objective(), tiny.batches(60), plan, run=Run(small_disk.parent / "elsewhere"))
    with pytest.raises(GnomonError, match=r"cannot write .*no space left on device") as caught:
        fit(tiny.tiny_model(), tiny.objective(), tiny.batches(60), plan, run=run, hooks=[_FillDiskAt(5, small_disk)])
    assert "what was there before is untouched" in caught.value.hint
    last = run.pointed("last")
    assert last is not None
    assert last.name == "step-4"
    load_model(last)
    (small_disk / "filler").unlink()
    resumed = tiny.tiny_model()
    fit(resumed, tiny.objective(), tiny.batches(60), plan, run=run)
    assert tiny.same(tiny.weights(resumed), tiny.weights(whole))


def _train(folder: Path, *, checkpoint_seconds: float) -> dict[str, torch.Tensor]:
    model = tiny.tiny_model()
    plan = tiny.plan(checkpoint_seconds=checkpoint_seconds, evaluate_every=2)
    fit(model, tiny.objective(), tiny.batches(40), plan, run=Run(folder), valid=tiny.batches(20))
    return tiny.weights(model)


# Forks a process for each moment, which kills itself at its n-th fsync or rename: whatever a save consists of, it is
# cut there, and no clean-up runs.
_CHILD = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
import torch
import test_train_saving

left = 0

def counted(function):
    def call(*args, **kwargs):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call

torch.set_num_threads(1)
os.fsync, os.rename, os.replace = counted(os.fsync), counted(os.rename), counted(os.replace)
for moment in sys.argv[2].split(","):
    left = int(moment)
    if os.fork() == 0:
        try:
            test_train_saving._train(Path(sys.argv[1]) / moment, checkpoint_seconds=0.0)
        finally:
            os._exit(3)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
def test_killed_at_any_point_of_a_save_nothing_truncated_is_last(tmp_path: Path) -> None:
    moments = [str(moment) for moment in range(2, 120, 11)]
    here = Path(__file__).resolve().parent
    command = [sys.executable, "-c", _CHILD, str(tmp_path), ",".join(moments), str(here), str(here.parent)]
    codes = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert codes == [str(-signal.SIGKILL)] * len(moments)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        whole = _train(tmp_path / "whole", checkpoint_seconds=60.0)
        lasts = set()
        for moment in moments:
            run = Run(tmp_path / moment)
            last = run.pointed("last")
            lasts.add(last.name if last else "none")
            if last is not None:
                load_model(last)
            assert tiny.same(_train(run.path, checkpoint_seconds=60.0), whole)
            if last is not None:  # what the kill left of a save is gone
                assert all(name.startswith("step-") for name in tiny.folder(run.checkpoints))
    finally:
        torch.set_num_threads(before)
    assert {"none", "step-1", "step-2"} <= lasts
