"""The numba kernel of skip-gram and CBOW: one call trains on one stretch of text, without the GIL.

Words are ids in a flat int32 stream in which -1 ends a sentence. Frequent words are dropped and windows shrunk at
random as in word2vec; each window goes to `lanes.step`, its negatives shared by all its words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gnomon.vectors.compiling import kernel
from gnomon.vectors.lanes import LANES, LINE, OUTPUTS, move, prefetch, step
from gnomon.vectors.randomness import below, draw, next_random

MAX_SENTENCE = 4096
"""Words trained as one sentence after dropping; a longer one goes on as another."""
POOL = 256
"""Negatives at hand to pick from: few enough that their rows stay in the second-level cache (+13 to 65 % speed)."""
PICKS_A_DRAW = 4
"""How often, about, a place of the pool is picked before it is drawn anew."""
_TRIES = 16
_LOSS_EVERY = 64
WORDS, LOSS, PAIRS, REPORT_FIELDS = 0, 1, 2, 8
"""Fields of a `report`: words read, the loss of some pairs summed, their number; eight make a cache line."""

Array = npt.NDArray[Any]


class Tables(NamedTuple):
    """The rows being trained: addresses of two float32 tables (or of one, twice), and the floats of a row."""

    input: int
    output: int
    width: int


class Sampling(NamedTuple):
    """What is drawn: chances to keep a word (of 2**32, uint64 [V]), alias tables of the negatives, and their pool."""

    keep: Array
    thresholds: Array
    others: Array
    pool: Array


class Shape(NamedTuple):
    """How windows are made: words on each side, negatives, and whether the mean of the window predicts (CBOW)."""

    window: int
    negatives: int
    mean: bool


@kernel
def _gather(ids: Any, place: Any, stop: Any, keep: Any, state: Any, sentence: Any) -> Any:
    """Read ids up to a sentence's end, keeping each word with its own chance: (place, kept, words read, state)."""
    kept = words = 0
    while place < stop and kept < len(sentence):
        word = ids[place]
        place += 1
        if word < 0:
            break
        words += 1
        state = next_random(state)
        sentence[kept] = word
        kept += int((state >> np.uint64(32)) < keep[word])
    return place, kept, words, state


@kernel
def _near(sentence: Any, kept: Any, place: Any, reach: Any, shared: Any, words: Any) -> Any:
    """Fill `words` with those within `reach` of `place`, and return how many they are.

    With a shared table the centre's own word is left out, for its row would be on both sides.
    """
    count = 0
    for near in range(max(0, place - reach), min(kept, place + reach + 1)):
        words[count] = sentence[near]
        count += int(near != place and not (shared and sentence[near] == sentence[place]))
    return count


@kernel
def _pick(centre: Any, chosen: Any, avoided: Any, count: Any, pool: Any, words: Any, state: Any) -> Any:
    """Fill `chosen` with different words out of the pool, none of them `centre` or among `avoided[:count]`.

    Where the pool keeps giving words that are taken (tiny vocabularies), the next free word serves: there is one, for
    callers ask for fewer than there are. Returns the new state.
    """
    bits = state
    for place in range(len(chosen)):
        if place % 8 == 0:
            state = next_random(state)
            bits = state
        slot = bits & np.uint64(POOL - 1)
        bits >>= np.uint64(8)
        word = pool[slot]
        tries = 0
        while True:
            taken = word == centre
            for earlier in range(place):
                taken |= chosen[earlier] == word
            for other in range(count):
                taken |= avoided[other] == word
            if not taken:
                break
            tries += 1
            slot = (slot + np.uint64(1)) & np.uint64(POOL - 1)
            word = pool[slot] if tries < _TRIES else (word + 1) % words
        chosen[place] = word
    return state


@kernel
def train_window(
    inputs: Any, count: Any, centre: Any, negatives: Any, table: Any, width: Any, spare: Any, outputs: Any, errors: Any,
    rate: Any,
) -> None:  # fmt: skip
    """`count` input rows (by address) against the output rows of `centre` and its negatives, six at a time.

    `spare` is the address of a row of zeros, which stands in where a row is missing.
    """
    total = len(negatives) + 1
    inputs[count] = spare
    for first in range(0, total, OUTPUTS):
        used, label = min(OUTPUTS, total - first), np.float32(first == 0)
        for column in range(used):
            word = centre if first + column == 0 else negatives[first + column - 1]
            outputs[column] = table + 4 * width * word
        outputs[used:] = spare
        step(inputs.ctypes.data, count, outputs.ctypes.data, used, label, rate, errors.ctypes.data, width // LANES)


@kernel
def _mean(inputs: Any, count: Any, before: Any, after: Any, chunks: Any) -> None:
    """The mean of `count` rows, twice: at the addresses `before` and `after`."""
    move(before, before, np.float32(-1.0), chunks)
    for near in range(count):
        move(before, inputs[near], np.float32(1.0) / np.float32(count), chunks)
    move(after, after, np.float32(-1.0), chunks)
    move(after, before, np.float32(1.0), chunks)


@kernel
def _follow(inputs: Any, count: Any, before: Any, after: Any, chunks: Any) -> None:
    """Move `count` rows as far as the mean went from `before` to `after`."""
    move(after, before, np.float32(-1.0), chunks)
    for near in range(count):
        move(inputs[near], after, np.float32(1.0), chunks)


@kernel
def _loss(errors: Any, rows: Any, columns: Any, rate: Any) -> Any:
    """The loss of the last step, -log(1 - |label - sigmoid|) summed over its pairs, from the errors it left."""
    total = 0.0
    for row in range(rows):
        for column in range(columns):
            total -= np.log(max(1.0 - abs(errors[row * LANES + column]) / rate, 1e-7))
    return total


@kernel
def train_stretch(
    ids: Any, span: Any, rates: Any, tables: Any, sampling: Any, shape: Any, state: Any, touched: Any, report: Any,
    halt: Any,
) -> Any:  # fmt: skip
    """Train on ids[span[0]:span[1]] while halt[0] is 0, the learning rate going from rates[0] to rates[1] over it.

    `touched` (uint8 [V], or empty where nobody asks) gets 1 at the words whose input row was trained, 2 where the
    output row was. `report` (float64 [REPORT_FIELDS]) is added to. Returns the random state to go on with.
    """
    input_table, output_table, width = tables
    keep, thresholds, others, pool = sampling
    window, negatives, mean = shape
    sentence, chosen = np.empty(MAX_SENTENCE, np.int64), np.empty(negatives, np.int64)
    words, inputs = np.empty(2 * window + 1, np.int64), np.empty(2 * window + 2, np.int64)
    outputs, errors = np.empty(OUTPUTS, np.int64), np.zeros((2 + 2 * window) * LANES, np.float32)
    size, lines, shared = 4 * width, 4 * width // LINE + 1, input_table == output_table
    own = np.zeros(3 * width, np.float32)
    before, after, spare = own.ctypes.data, own.ctypes.data + size, own.ctypes.data + 2 * size
    mean_row = np.full(2, after, np.int64)
    windows = 0
    place = span[0]
    while place < span[1] and halt[0] == 0:
        rate = np.float32(rates[0] + (rates[1] - rates[0]) * (place - span[0]) / (span[1] - span[0]))
        place, kept, read, state = _gather(ids, place, span[1], keep, state, sentence)
        for ahead in range(min(kept, window + 1)):
            prefetch(input_table + size * sentence[ahead], lines)
        for at in range(kept):
            centre = sentence[at]
            state = next_random(state)
            count = _near(sentence, kept, at, window - below(state, window), shared, words)
            for renewal in range(max(1, negatives // PICKS_A_DRAW)):
                state = next_random(state)
                fresh = draw(state, thresholds, others)
                pool[np.uint64(windows + 97 * renewal) & np.uint64(POOL - 1)] = fresh
                prefetch(output_table + size * fresh, lines)
            state = _pick(centre, chosen, words, count * shared, pool, len(keep), state)
            prefetch(output_table + size * sentence[min(at + 1, kept - 1)], lines)
            prefetch(input_table + size * sentence[min(at + window + 1, kept - 1)], lines)
            windows += 1
            if count == 0:
                continue
            for near in range(count):
                inputs[near] = input_table + size * words[near]
            rows = 1 if mean else count
            if mean:
                _mean(inputs, count, before, after, width // LANES)
            predicting = mean_row if mean else inputs
            train_window(predicting, rows, centre, chosen, output_table, width, spare, outputs, errors, rate)
            if mean:
                _follow(inputs, count, before, after, width // LANES)
            if len(touched) > 0:
                _mark(touched, words, count, centre, chosen)
            if windows % _LOSS_EVERY == 1:
                report[LOSS] += _loss(errors, rows, min(negatives + 1, OUTPUTS), rate)
                report[PAIRS] += rows
        report[WORDS] += read
    return state


@kernel
def _mark(touched: Any, words: Any, count: Any, centre: Any, chosen: Any) -> None:
    for near in range(count):
        touched[words[near]] |= 1
    touched[centre] |= 2
    for word in chosen:
        touched[word] |= 2


@kernel
def combine(master: Any, copies: Any, touched: Any, flag: Any, first: Any, last: Any) -> None:
    """Move each row in [first, last) of `master` [V, W] by the mean move of the copies [T, V, W] that touched it.

    `touched` (uint8 [T, V]) has `flag` set where a copy did; the bit is cleared and every copy set to the new row.
    """
    total = np.empty(master.shape[1], np.float32)
    for row in range(first, last):
        movers = 0
        total[:] = np.float32(0.0)
        for copy in range(len(copies)):
            if touched[copy, row] & flag:
                touched[copy, row] &= np.uint8(255 - flag)
                movers += 1
                for column in range(len(total)):
                    total[column] += copies[copy, row, column] - master[row, column]
        if movers > 0:
            for column in range(len(total)):
                master[row, column] += total[column] / np.float32(movers)
            for copy in range(len(copies)):
                for column in range(len(total)):
                    copies[copy, row, column] = master[row, column]


@kernel
def train_cells(
    rows: Any, columns: Any, logs: Any, weights: Any, rate: Any, values: Any, squares: Any, report: Any, halt: Any
) -> None:  # fmt: skip
    """GloVe with AdaGrad over some cells of the co-occurrence matrix, in order.

    `values` float32 [2, V, D + 1] holds both tables, each row a vector and its bias; `squares` the gradients' squares
    summed so far. The loss of a cell is weight * (w . c + b + b' - log x)**2 / 2.
    """
    size = np.uint64(values.shape[2] - 1)
    loss = 0.0
    for cell in range(len(rows)):
        if halt[0] != 0:
            break
        word, word_squares = values[0, rows[cell]], squares[0, rows[cell]]
        other, other_squares = values[1, columns[cell]], squares[1, columns[cell]]
        dot = np.float32(0.0)
        for column in range(size):
            dot += word[column] * other[column]
        difference = dot + word[size] + other[size] - logs[cell]
        pull = weights[cell] * difference
        loss += np.float64(pull * difference) / 2
        for column in range(size):
            of_word, of_other = pull * other[column], pull * word[column]
            word_squares[column] += of_word * of_word
            other_squares[column] += of_other * of_other
            word[column] -= rate * of_word / np.sqrt(word_squares[column])
            other[column] -= rate * of_other / np.sqrt(other_squares[column])
        word_squares[size] += pull * pull
        other_squares[size] += pull * pull
        word[size] -= rate * pull / np.sqrt(word_squares[size])
        other[size] -= rate * pull / np.sqrt(other_squares[size])
    report[WORDS] += len(rows)
    report[LOSS] += loss
    report[PAIRS] += len(rows)
