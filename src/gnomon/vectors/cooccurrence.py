"""How often which words stand near each other: what PPMI and GloVe learn from.

Memory grows with the number of different pairs, not with the text; pairs of frequent words are summed in a square.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from gnomon.vectors.counting import count_pairs, move_entries
from gnomon.vectors.encode import Corpus
from gnomon.vectors.workers import Meter, Watch, new_halt, run_together, unwatched

Array = npt.NDArray[Any]
Falling = Callable[[int, int], float]
_SQUARE = 2048
"""Words whose pairs are summed in a square: half of all pairs or more, in 32 MB."""
_FIRST_TABLE = 1 << 20
_STRETCH = 1 << 20


def as_word2vec(distance: int, window: int) -> float:
    """The weight that word2vec's random windows give to a distance, on average."""
    return (window + 1 - distance) / window


def as_glove(distance: int, window: int) -> float:
    """One over the distance."""
    return 1 / distance


def cooccurrences(corpus: Corpus, *, window: int, falling: Falling, threads: int, watch: Watch = unwatched) -> Any:
    """A symmetric scipy CSR matrix float32 [V, V]: `falling(distance, window)` summed for each two words.

    The same at any number of threads. Ctrl-C raises KeyboardInterrupt.
    """
    words = len(corpus.vocabulary)
    distances = np.array([0.0, *(falling(distance, window) for distance in range(1, window + 1))])
    square = np.zeros((min(_SQUARE, words),) * 2)
    done = np.zeros(threads)
    halt = new_halt()
    shares = [_Share(corpus.ids, distances, (number, threads), square, words) for number in range(threads)]
    meter = Meter("counting", len(corpus.ids), watch)
    tasks = [lambda share=share: share.count(done, halt) for share in shares]
    if run_together(tasks, halt=halt, tick=lambda: meter.tell(float(done.mean()), 0.0, 0.0)):
        raise KeyboardInterrupt
    low, high = np.nonzero(square)
    parts = [(low, high, square[low, high]), *(share.pairs() for share in shares)]
    rows, columns, sums = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    upper = sparse.coo_matrix((sums.astype(np.float32), (rows, columns)), shape=(words, words)).tocsr()
    whole = (upper + upper.T).tocsr()
    whole.sort_indices()
    return whole


class _Share:
    """One thread's pairs: those whose lower id is `share[0]` modulo `share[1]`."""

    def __init__(self, ids: Array, distances: Array, share: tuple[int, int], square: Array, words: int) -> None:
        self._ids, self._distances, self._share, self._square, self._words = ids, distances, share, square, words
        self._keys = np.zeros(_FIRST_TABLE, np.uint64)
        self._sums = np.zeros(_FIRST_TABLE)

    def count(self, done: Array, halt: Array) -> None:
        place = used = 0
        while place < len(self._ids) and not halt[0]:
            stop = min(place + _STRETCH, len(self._ids))
            tables = (self._square, self._words, self._keys, self._sums)
            place, used = count_pairs(self._ids, place, stop, self._distances, *self._share, *tables, used)
            if place < stop:
                self._make_room()
            done[self._share[0]] = place

    def _make_room(self) -> None:
        keys, sums = np.zeros(2 * len(self._keys), np.uint64), np.zeros(2 * len(self._sums))
        move_entries(self._keys, self._sums, keys, sums)
        self._keys, self._sums = keys, sums

    def pairs(self) -> tuple[Array, Array, Array]:
        """(lower ids, higher ids, sums) of the pairs that are not in the square."""
        taken = np.flatnonzero(self._keys)
        low, high = np.divmod(self._keys[taken].astype(np.int64) - 1, self._words)
        return low, high, self._sums[taken]
