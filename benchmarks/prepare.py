"""`make bench-prepare`: raw text to token shards, beside the `tokenizers` library's own batch encoding.

English Wikipedia, a document a line, a byte-level BPE of 16,384 tokens learnt from it. The peer encodes the same lines,
already in memory, in batches of 1,024, and writes nothing. Ours reads the file, finds duplicates, divides by hash,
encodes, writes and hashes. The last row is our peak memory on all of the text against that on a quarter of it.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import tokenizers

import gnomon
from gnomon.measure.memory import footprint
from gnomon.text.prepare import Layout, prepare
from gnomon.text.tokenizer import Tokenizer
from harness import compared, interleaved, report

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "wikipedia-en" / "corpus.txt.gz"
BATCH = 1024


def lines_of(megabytes: float) -> list[str]:
    """The first lines of the text, so many megabytes of them."""
    found, size = [], 0
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                found.append(line.rstrip("\n"))
                size += len(line.encode("utf-8"))
            if size >= megabytes * 1e6:
                break
    return found


def encode(library: tokenizers.Tokenizer, lines: Sequence[str]) -> float:
    """Seconds of the library alone."""
    started = time.perf_counter()
    for start in range(0, len(lines), BATCH):
        library.encode_batch(lines[start : start + BATCH])
    return time.perf_counter() - started


def peak_mb(path: Path, tokenizer: Path, out: Path) -> float:
    """The most memory `gnomon prepare` holds, in a process of its own."""
    program = "import sys; from gnomon.cli.main import main; main(sys.argv[1:])"
    words = ["prepare", str(path), "--tokenizer", str(tokenizer), "--out", str(out), "--separator", "\n", "--quiet"]
    return footprint([sys.executable, "-c", program, *words]).peak_memory_mb


def main() -> int:
    """Measure both in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=24.0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    lines = lines_of(options.megabytes)
    megabytes = sum(len(line.encode("utf-8")) for line in lines) / 1e6
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, count in (("whole", len(lines)), ("quarter", len(lines) // 4)):
            (folder / f"{part}.txt").write_text("\n".join(lines[:count]), encoding="utf-8")
        gnomon.train_tokenizer(folder / "whole.txt", out=folder / "tokenizer", size=16_384)
        tokenizer = Tokenizer.from_dir(folder / "tokenizer")
        library = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        number = itertools.count()

        def ours() -> float:
            started = time.perf_counter()
            out = folder / f"out-{next(number)}"
            prepare([folder / "whole.txt"], out, tokenizer=tokenizer, layout=Layout(separator="\n"))
            return time.perf_counter() - started

        times = interleaved({"ours": ours, "theirs": lambda: encode(library, lines)}, repeats=options.repeats)
        speeds = [[megabytes / seconds for seconds in times[side]] for side in ("ours", "theirs")]
        memory = [
            [peak_mb(folder / f"{part}.txt", folder / "tokenizer", folder / f"memory-{part}")]
            for part in ("whole", "quarter")
        ]
    settings = f"{len(lines):,} lines, {megabytes:.0f} MB"
    rows = [
        compared("prepare", settings, "tokenizers", *speeds, unit="MB/s", lower_is_better=False),
        compared("prepare: peak memory", settings, "a quarter of the text", *memory, unit="MB"),
    ]
    report("prepare", rows, packages=("tokenizers",))
    return 0


if __name__ == "__main__":
    sys.exit(main())
