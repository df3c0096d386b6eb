"""`make bench-pretrain`: the seconds until a small language model is as good as nanoGPT's.

Characters of Shakespeare (the usual 90 % to learn from, the loss over all of the rest) and of Penn Treebank. The peer
is nanoGPT's published CPU configuration (`nanogpt.py`). Ours is `gnomon pretrain` with a preset, the same settings for
both texts. Seconds are those of training alone, on both sides. A ratio counts only where our loss is not above the
peer's: where it is, it is 0. Exits 1 then.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gnomon
import nanogpt
from gnomon.models.parts import Parts
from gnomon.text.shards import TokenData, TokenPart
from harness import Row, compared, report

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "lm-pieces"
MORE_TIME = 1.2  # of the peer's, for the row on what is reached in the end

QUICK_STANDARD: dict[str, Any] = {"preset": "standard", "depth": 2, "context": 64, "steps": 170, "batch_tokens": 1536}
QUICK_FAST: dict[str, Any] = {"preset": "fast", "depth": 1, "context": 64, "steps": 75, "batch_tokens": 1536}
LONG_FAST: dict[str, Any] = {"preset": "fast", "depth": 4, "context": 128, "steps": 650, "batch_tokens": 2048}
WIDTH = Parts(hidden_size=128)  # the peer's


@dataclass(frozen=True)
class Text:
    """One text of characters: prepared for us, and as ids for the peer."""

    folder: Path
    vocab_size: int
    train: torch.Tensor
    valid: torch.Tensor


def prepared(folder: Path, train: str, valid: str) -> Text:
    """Write, tokenize and open one text."""
    folder.mkdir()
    paths = [folder / "train.txt", folder / "valid.txt"]
    for path, text in zip(paths, (train, valid), strict=True):
        path.write_text(text, encoding="utf-8")
    gnomon.train_tokenizer(paths, out=folder / "tokenizer", kind="characters")
    gnomon.prepare(paths[0], valid=paths[1], tokenizer=folder / "tokenizer", out=folder / "tokens")
    data = TokenData.open(folder / "tokens")
    return Text(data.path, data.vocab_size, plain(data.train), plain(data.valid))


def plain(part: TokenPart) -> torch.Tensor:
    """The ids of a part without what begins and ends documents, as the peer has them."""
    documents = [part.document(number)[1:-1] for number in range(part.documents)]
    return torch.from_numpy(np.concatenate(documents))


def ours(text: Text, settings: dict[str, Any], *, seed: int, width: Parts) -> nanogpt.Trained:
    """`gnomon pretrain`."""
    out = text.folder.parent / f"run-{time.monotonic_ns()}"
    given = {"model": width, "seed": seed, "evaluations": 1, "samples": 0, "threads": torch.get_num_threads()}
    figures = gnomon.pretrain(text.folder, **settings, **given, out=out).figures
    return nanogpt.Trained(figures["train_seconds"], figures["valid"]["loss"])


def sooner(work: str, our: Sequence[nanogpt.Trained], their: Sequence[nanogpt.Trained]) -> Row:
    """Seconds to the peer's loss; the ratio is 0 where ours is above it."""
    losses = [statistics.median(one.loss for one in side) for side in (our, their)]
    settings = f"{torch.get_num_threads()} threads; loss {losses[0]:.4f}, the peer's {losses[1]:.4f}"
    seconds = [[one.seconds for one in side] for side in (our, their)]
    row = compared(work, settings, "nanoGPT", *seconds, unit="s")
    return row if losses[0] <= losses[1] else replace(row, ratio=0.0)


def reached(work: str, our: Sequence[nanogpt.Trained], their: Sequence[nanogpt.Trained]) -> Row:
    """Losses after about the same time; the ratio is 0 where ours took more than it may."""
    share = statistics.median(one.seconds for one in our) / statistics.median(one.seconds for one in their)
    settings = f"{torch.get_num_threads()} threads; {share:.2f} x the peer's time"
    losses = [[one.loss for one in side] for side in (our, their)]
    row = compared(work, settings, "nanoGPT", *losses, unit="nats")
    return row if share <= MORE_TIME else replace(row, ratio=0.0)


def measured(text: Text, runs: Sequence[tuple[str, dict[str, Any], Parts]], options: argparse.Namespace) -> list[Row]:
    """All rows of one text: ours in turn with the peer, once for each seed."""
    our: dict[str, list[nanogpt.Trained]] = {work: [] for work, _, _ in runs}
    their: list[nanogpt.Trained] = []
    for seed in range(options.repeats):
        for work, settings, width in runs:
            our[work].append(ours(text, settings, seed=seed, width=width))
        their.append(
            nanogpt.train(text.train, text.valid, vocab_size=text.vocab_size, seed=seed, updates=options.updates)
        )
    return [
        reached(work, our[work], their) if settings is LONG_FAST else sooner(work, our[work], their)
        for work, settings, _ in runs
    ]


def main() -> int:
    """Run us and the peer in turn and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("characters", "PTB"), help="one of the texts; the other's rows are kept")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each, with other seeds")
    parser.add_argument("--updates", type=int, default=nanogpt.UPDATES, help="updates of the peer (fewer to try out)")
    options = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        if options.only in (None, "characters"):
            whole = (DATA / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
            cut = int(0.9 * len(whole))
            runs = [
                ("characters standard", QUICK_STANDARD, WIDTH),
                ("characters fast", QUICK_FAST, WIDTH),
                (f"characters fast, {MORE_TIME} x the time", LONG_FAST, Parts()),
            ]
            rows += measured(prepared(Path(name) / "characters", whole[:cut], whole[cut:]), runs, options)
        if options.only in (None, "PTB"):
            parts = [(DATA / f"ptb/ptb.{part}.txt").read_text(encoding="utf-8") for part in ("valid", "test")]
            rows += measured(prepared(Path(name) / "PTB", *parts), [("PTB fast", QUICK_FAST, WIDTH)], options)
    report("pretrain", rows, packages=("torch",), keep=True)
    return int(any(row.ratio == 0 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
