"""GloVe: vectors whose dot products, with a bias each, are the logarithms of how often words stand near each other.

The loss is the sum over cells of f(x) (w . c + b + b' - log x)^2 / 2 with f(x) = min(1, x / X)^0.75, learnt with
AdaGrad, cells in random order, each pair both ways. With T threads the words fall into T parts, so the cells into
T x T blocks; blocks that share no row are trained at once: the same every time at the same thread count.
Source: Pennington, Socher and Manning 2014; Gemulla et al. 2011 for the blocks; D7 2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.vectors.cooccurrence import as_glove, cooccurrences
from gnomon.vectors.encode import Corpus
from gnomon.vectors.kernels import LOSS, PAIRS, REPORT_FIELDS, WORDS, train_cells
from gnomon.vectors.negative_sampling import Learnt
from gnomon.vectors.settings import Settings
from gnomon.vectors.workers import Gate, Meter, Watch, new_halt, run_together, unwatched

Array = npt.NDArray[Any]
FULL_WEIGHT = 10.0
"""X: cells of so many or more weigh alike. The paper has 100 for 6 billion words, its code 10 for 17 million."""
WEIGHT_POWER = 0.75


def glove(corpus: Corpus, settings: Settings, *, watch: Watch = unwatched) -> Learnt:
    """Count, then learn. Ctrl-C during learning ends it early, keeping what is there."""
    threads = settings.used_threads
    counts = cooccurrences(corpus, window=settings.window, falling=as_glove, threads=threads, watch=watch)
    blocks = _blocks(counts, threads, settings.seed)
    words, size, epochs = len(corpus.vocabulary), settings.size, settings.used_epochs
    generator = np.random.default_rng([settings.seed, 1])
    values = (generator.random((2, words, size + 1), np.float32) - np.float32(0.5)) / np.float32(size)
    squares = np.ones_like(values)
    halt = new_halt()
    gate = Gate(threads, halt)
    report = np.zeros((threads, REPORT_FIELDS))

    def task(number: int) -> None:
        for _ in range(epochs):
            for shift in range(threads):
                block = blocks[number, (number + shift) % threads]
                train_cells(*block, np.float32(settings.used_rate), values, squares, report[number], halt)
                if not gate.passes():
                    return

    meter = Meter("training", counts.nnz * epochs, watch)

    def tick() -> None:
        done = report.sum(axis=0)
        meter.tell(done[WORDS], done[LOSS], done[PAIRS])

    tasks = [lambda number=number: task(number) for number in range(threads)]
    interrupted = run_together(tasks, halt=halt, tick=tick, gate=gate)
    return Learnt(values[0, :, :size], values[1, :, :size], interrupted, meter.loss, meter.per_second)


def cell_weights(counts: Array) -> Array:
    """f(x) of each count, float32."""
    return np.minimum(counts / np.float32(FULL_WEIGHT), np.float32(1)) ** np.float32(WEIGHT_POWER)


def _blocks(counts: Any, parts: int, seed: int) -> dict[tuple[int, int], tuple[Array, Array, Array, Array]]:
    """The cells (rows, columns, log counts, weights) of each block, shuffled: words go to parts in turn."""
    order = np.random.default_rng([seed, 2]).permutation(counts.nnz)
    rows = np.repeat(np.arange(counts.shape[0], dtype=np.int32), np.diff(counts.indptr))[order]
    columns, sums = counts.indices[order], counts.data[order]
    block = rows % parts * parts + columns % parts
    by_block = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block, minlength=parts * parts))
    cells = [array[by_block] for array in (rows, columns, np.log(sums), cell_weights(sums))]
    found = {}
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        found[divmod(number, parts)] = tuple(array[start:end] for array in cells)
    return found  # type: ignore[return-value]
