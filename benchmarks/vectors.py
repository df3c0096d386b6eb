"""`make bench-vectors`: skip-gram training, reading and whole runs against gensim, and memory against corpus size.

Interleaved medians of 5. Training is timed without reading; "end to end" is a whole process with its imports, the
compile cache warm. `--text` takes any text with one sentence a line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from gnomon.text.encodings import decoded_lines, opened
from harness import Row, compared, interleaved, report

TEXT = Path(__file__).resolve().parents[2] / "shared" / "data" / "wikipedia-en" / "corpus.txt.gz"
NEGATIVES, WINDOW, SUBSAMPLE, MIN_COUNT = 5, 5, 1e-4, 5
COMMON = "window 5, negatives 5, subsample 1e-4, min count 5"
TRAINED = (("skipgram 100 1 thread", 100, 1), ("skipgram 300 1 thread", 300, 1), ("skipgram 100 2 threads", 100, 2))


def main() -> None:
    """Run every row that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT, help="one sentence or document a line, plain or .gz")
    parser.add_argument("--words", type=int, default=2_000_000, help="words of it to train on")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # gensim's BLAS calls are on single vectors
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        whole, part = Path(folder) / "whole.txt", Path(folder) / "part.txt"
        words = write_part(options.text, whole, None)
        taken = write_part(options.text, part, options.words)
        for name, size, threads in TRAINED:
            if options.only in name:
                rows.append(train_row(name, part, taken, size, threads, options.repeats))
        if options.only in "read and count":
            rows.append(read_row(whole, words, options.repeats))
        if options.only in "end to end":
            rows.append(end_to_end_row(part, taken, options.repeats))
        if options.only in "memory of ten copies":
            rows.append(memory_row(whole, Path(folder)))
    report("vectors", rows, packages=("gensim", "numba", "scipy"), keep=bool(options.only))


def write_part(text: Path, out: Path, words: int | None) -> int:
    """Copy whole lines until there are `words` words; returns how many there are."""
    count = 0
    with opened(text) as stream, out.open("w", encoding="utf-8") as file:
        for line in decoded_lines(stream, str(text)):
            file.write(line)
            count += len(line.split())
            if words is not None and count >= words:
                break
    return count


def train_row(name: str, text: Path, words: int, size: int, threads: int, repeats: int) -> Row:
    """One epoch, without reading, in words a second."""
    contenders = {"ours": our_training(text, size, threads), "theirs": their_training(text, size, threads)}
    contenders["ours"]()  # compiles
    seconds = interleaved(contenders, repeats=repeats)
    ours, theirs = ([words / value / 1e6 for value in seconds[who]] for who in ("ours", "theirs"))
    return compared(name, f"{COMMON}, 1 epoch of {words:,} words", "gensim", ours, theirs, unit="million words/s",
                    lower_is_better=False)  # fmt: skip


def our_training(text: Path, size: int, threads: int) -> Callable[[], float]:
    """A function that trains one epoch anew and gives the seconds."""
    from gnomon.vectors.encode import encode
    from gnomon.vectors.settings import Settings
    from gnomon.vectors.skipgram import skipgram
    from gnomon.vectors.source import Files

    corpus = encode(Files([text]), min_count=MIN_COUNT)
    settings = Settings(size=size, window=WINDOW, negatives=NEGATIVES, subsample=SUBSAMPLE, epochs=1, threads=threads)

    def run() -> float:
        start = time.perf_counter()
        skipgram(corpus, settings)
        return time.perf_counter() - start

    return run


def their_training(text: Path, size: int, threads: int) -> Callable[[], float]:
    """The same with gensim reading the file, its fastest way."""
    from gensim.models import Word2Vec

    model = Word2Vec(vector_size=size, window=WINDOW, negative=NEGATIVES, sg=1, hs=0, sample=SUBSAMPLE,
                     min_count=MIN_COUNT, workers=threads, epochs=1)  # fmt: skip
    model.build_vocab(corpus_file=str(text))

    def run() -> float:
        start = time.perf_counter()
        model.train(corpus_file=str(text), total_words=model.corpus_total_words,
                    total_examples=model.corpus_count, epochs=1)  # fmt: skip
        return time.perf_counter() - start

    return run


def read_row(text: Path, words: int, repeats: int) -> Row:
    """Reading and counting; ours encodes to ids in the same pass."""
    from gensim.models import Word2Vec

    from gnomon.vectors.encode import encode
    from gnomon.vectors.source import Files

    def ours() -> float:
        start = time.perf_counter()
        encode(Files([text]), min_count=MIN_COUNT)
        return time.perf_counter() - start

    def theirs() -> float:
        model = Word2Vec(min_count=MIN_COUNT)
        start = time.perf_counter()
        model.build_vocab(corpus_file=str(text))
        return time.perf_counter() - start

    ours()
    seconds = interleaved({"ours": ours, "theirs": theirs}, repeats=repeats)
    return compared("read and count", f"{words:,} words", "gensim", seconds["ours"], seconds["theirs"], unit="s")


OURS = """
import sys
from gnomon.vectors import train
train(sys.argv[1], size=100, window=5, negatives=5, subsample=1e-4, min_count=5, epochs=5, threads=1, out=sys.argv[2])
"""
THEIRS = """
import sys
from gensim.models import Word2Vec
model = Word2Vec(corpus_file=sys.argv[1], vector_size=100, window=5, negative=5, sg=1, sample=1e-4, min_count=5,
                 epochs=5, workers=1)
model.wv.save(sys.argv[2])
"""


def process(program: str, *arguments: str) -> float:
    """The seconds a whole Python process takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *arguments], check=True)
    return time.perf_counter() - start


def end_to_end_row(text: Path, words: int, repeats: int) -> Row:
    """Import, read, count, encode, five epochs, save; one thread each."""
    with tempfile.TemporaryDirectory() as folder:
        contenders = {
            "ours": lambda: process(OURS, str(text), f"{folder}/ours"),
            "theirs": lambda: process(THEIRS, str(text), f"{folder}/theirs"),
        }
        contenders["ours"]()  # fills the compile cache
        seconds = interleaved(contenders, repeats=repeats)
    settings = f"skipgram 100, {COMMON}, 1 thread, 5 epochs of {words:,} words"
    return compared("end to end", settings, "gensim", seconds["ours"], seconds["theirs"], unit="s")


MEMORY = """
import sys, threading, time
from gnomon.vectors import train
peak = 0
def watch():
    global peak
    while True:
        fields = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
        peak = max(peak, int(fields["RssAnon"].split()[0]))
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
train(sys.argv[1:-2], min_count=int(sys.argv[-2]), epochs=1, threads=1, out=sys.argv[-1])
print(peak / 1024)
"""


def memory_row(text: Path, folder: Path) -> Row:
    """The highest RssAnon of a training process on the text once and ten times over, with the same vocabulary."""

    def peak(copies: int) -> float:
        arguments = [*[str(text)] * copies, str(MIN_COUNT * copies), str(folder / f"memory-{copies}")]
        out = subprocess.run(
            [sys.executable, "-c", MEMORY, *arguments],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return float(out.stdout)

    ten, one = peak(10), peak(1)
    settings = "highest RssAnon, min count 5 for one and 50 for ten, skipgram 100, 1 epoch"
    return compared("memory of ten copies", settings, "the text once", [ten], [one], unit="MB")


if __name__ == "__main__":
    main()
