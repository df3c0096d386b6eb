"""Kill a training at random moments, go on each time, and compare with one that was never stopped, bit for bit.

`make bench-resume` runs 20 kills (SIGKILL) for each kind of student on real questions. Each line names the update the
training had reached, and the checkpoint it goes on from. Exits 1 unless every weight and every record is equal.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from gnomon.formats.arrays import read_arrays
from gnomon.formats.files import write_json
from gnomon.models.base import Backbone, Model
from gnomon.models.encoder import EncoderBackbone, EncoderConfig
from gnomon.models.families import FAMILIES
from gnomon.models.recurrent import RecurrentBackbone, RecurrentConfig
from gnomon.models.static import StaticBackbone, StaticConfig
from gnomon.objectives.classification import Classification, LabelledRow
from gnomon.recipes.demo import demo_questions, demo_teacher
from gnomon.runs import Run, host
from gnomon.text.batches import Batches
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.trim import trim
from gnomon.train.engine import Plan, fit
from gnomon.train.hooks import Hook, Step

FAMILIES_HERE = ("static", "recurrent", "encoder")
MAX_LENGTH = 32


def backbone_of(family: str, vocab_size: int) -> Backbone:
    """A small student with dropout."""
    if family == "static":
        return StaticBackbone(StaticConfig(vocab_size, 32, num_ngram_buckets=4096, dropout=0.2))
    if family == "recurrent":
        return RecurrentBackbone(RecurrentConfig(vocab_size, 32, 32))
    return EncoderBackbone(EncoderConfig(vocab_size, 32, 2, 4, 64, max_position_embeddings=MAX_LENGTH))


class Announce(Hook):
    """Says on standard output, after its first update, that it trains, and where it went on from."""

    def __init__(self, last: Path | None) -> None:
        self._line = f"trains from {last.name if last else 'the start'}"

    def on_step(self, step: Step) -> None:
        """The first update of this process."""
        if self._line:
            print(self._line, flush=True)
        self._line = ""


def prepare(path: Path) -> None:
    """The questions as ids, and their tokenizer, once for every process."""
    questions = demo_questions()
    tokenizer = trim(Tokenizer.from_dir(demo_teacher()), questions.texts).tokenizer
    labels = questions.label_names
    data = {
        "ids": [encoded.ids for encoded in tokenizer.encode_batch(questions.texts, max_length=MAX_LENGTH)],
        "labels": [labels.index(label) for label in questions.labels],
        "names": labels,
        "tokenizer": tokenizer.to_json(),
        "tokenizer_config": tokenizer.config,
    }
    path.write_text(json.dumps(data), encoding="utf-8")


def train(folder: Path, data_file: Path, family: str, updates: int, checkpoint_seconds: float) -> None:
    """The training that is killed: start it, or go on."""
    torch.set_num_threads(1)
    data = json.loads(data_file.read_text(encoding="utf-8"))
    tokenizer = Tokenizer.from_json(data["tokenizer"], data["tokenizer_config"])
    rows = [LabelledRow(ids, label) for ids, label in zip(data["ids"], data["labels"], strict=True)]
    lengths = [len(row.ids) for row in rows]
    torch.manual_seed(0)
    backbone = backbone_of(family, tokenizer.vocab_size)
    head = FAMILIES[family].head(backbone.config)
    model = Model(backbone, head, tokenizer=tokenizer, labels=data["names"], max_length=MAX_LENGTH)
    plan = Plan(
        steps=updates, accumulation=2, learning_rate=2e-3, evaluate_every=50, log_every=7,
        checkpoint_seconds=checkpoint_seconds,
    )  # fmt: skip
    run = Run(folder)
    fit(
        model,
        Classification(data["names"], pad_id=tokenizer.pad_id),
        Batches(rows[200:], lengths[200:], batch_size=16),
        plan,
        run=run,
        valid=Batches(rows[:200], lengths[:200], batch_size=64, shuffle=False),
        hooks=[Announce(run.pointed("last"))],
    )
    model.save(folder / "model")


def start(folder: Path, arguments: argparse.Namespace, family: str) -> subprocess.Popen[str]:
    """A process that trains, and has begun to."""
    command = [
        sys.executable, __file__, "--train", str(folder), str(arguments.data), "--families", family,
        "--updates", str(arguments.updates), "--checkpoint-seconds", str(arguments.checkpoint_seconds),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    print(f"    {process.stdout.readline().strip()}")
    return process


def differences(one: Path, other: Path) -> list[str]:
    """Tensors and records in which two finished trainings are not equal, bit for bit; seconds apart."""
    first, second = read_arrays(one / "model" / "model.safetensors"), read_arrays(other / "model" / "model.safetensors")
    found = [
        name
        for name in sorted({*first, *second})
        if name not in first or name not in second or not np.array_equal(first[name], second[name])
    ]
    records = [[{**record, "seconds": 0} for record in Run(path).records()] for path in (one, other)]
    return found if records[0] == records[1] else [*found, "metrics.jsonl"]


def compare(family: str, arguments: argparse.Namespace, folder: Path) -> bool:
    """One training left alone and one killed again and again; whether they are equal."""
    print(f"{family}: {arguments.updates} updates, uninterrupted")
    whole, killed = folder / "whole", folder / "killed"
    process = start(whole, arguments, family)
    begun = time.monotonic()
    if process.wait():
        raise SystemExit("the uninterrupted training failed")
    # Spread over the training's length, so that the last kills find it near its end.
    longest = 2 * (time.monotonic() - begun) / (arguments.kills + 1)
    moments = random.Random(arguments.seed)
    kills = 0
    while kills < arguments.kills:
        process = start(killed, arguments, family)
        try:
            code = process.wait(timeout=moments.uniform(0, longest))
            if code:
                raise SystemExit(f"the training failed with exit code {code}")
            print("    it ended before its kill; the training begins anew")
            if differences(whole, killed):
                break
            killed = folder / f"killed-{kills}"
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            reached = max((record.get("step", 0) for record in Run(killed).records()), default=0)
            print(f"  kill {kills} after record {reached}")
    if start(killed, arguments, family).wait():
        raise SystemExit("the resumed training failed")
    found = differences(whole, killed)
    print(f"{family}: " + (f"DIFFERENT: {', '.join(found)}" if found else f"equal bit for bit after {kills} kills"))
    return not found


def main() -> None:
    """Parse, compare each family, exit 1 unless all are equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", default=FAMILIES_HERE, choices=FAMILIES_HERE)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--checkpoint-seconds", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train", type=Path, nargs=2, help="used by the script itself")
    arguments = parser.parse_args()
    if arguments.train:
        train(*arguments.train, arguments.families[0], arguments.updates, arguments.checkpoint_seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        arguments.data = Path(folder) / "data.json"
        prepare(arguments.data)
        equal = [compare(family, arguments, Path(folder) / family) for family in arguments.families]
    rows = [
        {
            "work": f"resume, {family}",
            "settings": {"kills": arguments.kills, "updates": arguments.updates},
            "equal": same,
        }
        for family, same in zip(arguments.families, equal, strict=True)
    ]
    write_json(Path("build") / "bench-resume.json", {"host": host(), "rows": rows})
    sys.exit(0 if all(equal) else 1)


if __name__ == "__main__":
    main()
