"""The numba kernels that read and count: bytes to provisional word ids, ids to co-occurrences and to documents.

Each stops early where a table is nearly full and says how far it came; the caller makes room and goes on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gnomon.vectors.compiling import kernel

_ONE = np.uint64(1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(1099511628211)
_LONG = np.uint64(1 << 63)
"""Set in the key of a word of eight bytes or more, which is compared chunk by chunk; a shorter word is its own key."""
_LINE_END = 10
CHUNK = 8
"""Bytes looked at together."""
_EACH = np.uint64(0x0101010101010101)
_HIGH = np.uint64(0x8080808080808080)
_FIRST_NOT_BLANK = np.uint64(0x2121212121212121)


@kernel
def _wide_blank(data: Any, at: Any) -> Any:
    """Bytes of the white space of Unicode beyond ASCII that begins at `at`, in UTF-8; 0 when none does."""
    left = len(data) - np.int64(at)
    first = data[at]
    second = data[at + _ONE] if left > 1 else 0
    if first == 0xC2:
        return 2 if second in (0x85, 0xA0) else 0
    third = data[at + _ONE + _ONE] if left > 2 else 0
    if first == 0xE2 and second == 0x80:
        return 3 if 0x80 <= third <= 0x8A or third in (0xA8, 0xA9, 0xAF) else 0
    whole = (np.uint32(first) << 16) | (np.uint32(second) << 8) | np.uint32(third)
    return 3 if whole in (0xE19A80, 0xE2819F, 0xE38080) else 0


@kernel
def _blank(data: Any, at: Any) -> Any:
    """Bytes of the white space (or control character) that begins at `at`; 0 inside a word."""
    byte = data[at]
    if byte <= 32:
        return 1
    if byte < 0xC2 or byte > 0xE3:
        return 0
    return _wide_blank(data, at)


@kernel
def _word_end(data: Any, chunks: Any, begin: Any) -> Any:
    """Where the word that begins at `begin` ends: eight bytes at a time while they are ASCII, then byte by byte."""
    end = begin
    while True:
        chunk = chunks[end]
        # The lowest byte below 33 gets its top bit set; those above it may, wrongly (Mycroft 1987).
        blanks = (chunk - _FIRST_NOT_BLANK) & ~chunk & _HIGH
        before = (blanks & (~blanks + _ONE)) - _ONE  # the bits below that one; all of them where no byte is blank
        if chunk & _HIGH & before:
            break
        if blanks:
            return end + ((((before & _EACH) * _EACH) >> np.uint64(56)) - _ONE)
        end += np.uint64(CHUNK)
    while _blank(data, end) == 0:
        end += _ONE
    return end


@kernel
def _character_end(data: Any, begin: Any) -> Any:
    """Where the character that begins at `begin` ends: its first byte tells."""
    first = data[begin]
    return begin + np.uint64(1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0))


@kernel
def _key(chunks: Any, begin: Any, length: Any) -> Any:
    """A short word's bytes, or a hash of a long one's; never 0, for no word has a byte of 0."""
    whole, key = length >> np.uint64(3), np.uint64(0)
    for place in range(np.uint64(0), whole, _ONE):
        key = (key ^ chunks[begin + np.uint64(CHUNK) * place]) * _PRIME
        key ^= key >> np.uint64(32)
    key ^= _rest(chunks, begin, length)
    return key if whole == 0 else key | _LONG


@kernel
def _rest(chunks: Any, begin: Any, length: Any) -> Any:
    """The bytes of a word after its whole chunks, 0 to 7 of them, as a number."""
    over = length & np.uint64(CHUNK - 1)
    return chunks[begin + length - over] & ((_ONE << np.uint64(8) * over) - _ONE)


@kernel
def _same(chunks: Any, begin: Any, length: Any, arena: Any, start: Any, stop: Any) -> Any:
    """Whether the word at `begin` is the known one of arena[start:stop]."""
    whole = length >> np.uint64(3)
    if np.uint64(stop - start) != whole + _ONE or arena[stop - 1] != _rest(chunks, begin, length):
        return False
    for place in range(whole):  # noqa: SIM110 - numba compiles no generator expression
        if chunks[begin + np.uint64(CHUNK) * place] != arena[np.uint64(start) + place]:
            return False
    return True


@kernel
def scan(
    data: Any, chunks: Any, begin: Any, by_character: Any, keys: Any, numbers: Any, starts: Any, arena: Any,
    counts: Any, words: Any, out: Any,
) -> Any:  # fmt: skip
    """Count the words of a text (UTF-8) from `begin` on, writing the id of each and -1 at each line end to `out`.

    The text ends with white space that `data` has CHUNK - 1 bytes more of; chunks[i] is data[i:i + CHUNK] as a number.
    Ids number the words by first appearance; word i's chunks, the last filled with 0, are
    arena[starts[i]:starts[i + 1]]. `keys` is an open table of words' keys (0: free), `numbers` has their ids at the
    same places. Returns (place reached, ids written, words known): the place is short of the end when there is no room
    for a new word.
    """
    mask = np.uint64(len(keys) - 1)
    at = np.uint64(begin)
    size = np.uint64(len(chunks))
    written = np.uint64(0)
    while at < size:
        blank = _blank(data, at)
        if blank > 0:
            if data[at] == _LINE_END:
                out[written] = -1
                written += _ONE
            at += np.uint64(blank)
            continue
        end = _character_end(data, at) if by_character else _word_end(data, chunks, at)
        length = end - at
        key = _key(chunks, at, length)
        slot = (key * _GOLDEN) >> np.uint64(32) & mask
        while keys[slot] != 0:
            if keys[slot] == key:
                if key & _LONG == 0:
                    break
                word = numbers[slot]
                if _same(chunks, at, length, arena, starts[word], starts[word + 1]):
                    break
            slot = (slot + _ONE) & mask
        word = numbers[slot]
        if keys[slot] == 0:
            start, whole = starts[words], np.int64(length >> np.uint64(3))
            if words == len(counts) or start + whole >= len(arena):
                return np.int64(at), np.int64(written), words
            for place in range(whole):  # an assignment of slices takes 1.7 s longer to compile
                arena[start + place] = chunks[at + np.uint64(CHUNK * place)]
            arena[start + whole] = _rest(chunks, at, length)
            starts[words + 1] = start + whole + 1
            keys[slot] = key
            numbers[slot] = words
            word = words
            words += 1
        counts[word] += 1
        out[written] = word
        written += _ONE
        at = end
    return np.int64(at), np.int64(written), words


@kernel
def renumber(ids: Any, numbers: Any) -> Any:
    """Give each id its number in place, dropping those whose number is negative and sentences left empty.

    Returns (places used, sentences); -1 ends a sentence, before and after.
    """
    used = sentences = 0
    open_ = False
    for place in range(len(ids)):
        word = ids[place]
        if word >= 0:
            number = numbers[word]
            if number >= 0:
                ids[used] = number
                used += 1
                open_ = True
        elif open_:
            ids[used] = -1
            used += 1
            sentences += 1
            open_ = False
    return used, sentences


@kernel
def count_pairs(
    ids: Any, start: Any, stop: Any, distances: Any, share: Any, shares: Any, dense: Any, words: Any, keys: Any,
    sums: Any, used: Any,
) -> Any:  # fmt: skip
    """Add distances[d] for every two words d apart in a sentence to the sum of their unordered pair.

    The first word of a pair stands in [start, stop); only pairs whose lower id is `share` modulo `shares` count. Pairs
    of frequent words are summed in dense[low, high], the others in an open table under low * words + high + 1. Returns
    (place reached, table places used): the place is short of `stop` when the table needs room.
    """
    mask = np.uint64(len(keys) - 1)
    reach = len(distances) - 1
    for place in range(start, stop):
        word = np.int64(ids[place])
        if word < 0:
            continue
        if 2 * (used + reach) > len(keys):
            return place, used
        for near in range(place + 1, min(place + reach + 1, len(ids))):
            other = np.int64(ids[near])
            if other < 0:
                break
            low, high = min(word, other), max(word, other)
            if low % shares != share:
                continue
            if high < len(dense):
                dense[low, high] += distances[near - place]
                continue
            key = np.uint64(low * words + high + 1)
            slot = (key * _GOLDEN) >> np.uint64(32) & mask
            while keys[slot] != 0 and keys[slot] != key:
                slot = (slot + _ONE) & mask
            used += np.int64(keys[slot] == 0)
            keys[slot] = key
            sums[slot] += distances[near - place]
    return stop, used


@kernel
def move_entries(keys: Any, values: Any, new_keys: Any, new_values: Any) -> None:
    """Put the entries of one open table into a larger, empty one."""
    mask = np.uint64(len(new_keys) - 1)
    for place in range(len(keys)):
        if keys[place] != 0:
            slot = (keys[place] * _GOLDEN) >> np.uint64(32) & mask
            while new_keys[slot] != 0:
                slot = (slot + _ONE) & mask
            new_keys[slot] = keys[place]
            new_values[slot] = values[place]


@kernel
def count_in_sentences(ids: Any, starts: Any, words: Any, counts: Any, last: Any) -> None:
    """The different words of each sentence and how often each occurs in it, one sentence after another.

    Sentence s fills places from starts[s] to starts[s + 1], which is set here. `last` is a work array of -1 [V].
    """
    used = sentence = 0
    for place in range(len(ids)):
        word = ids[place]
        if word < 0:
            sentence += 1
            starts[sentence] = used
            continue
        found = last[word]
        if found >= starts[sentence]:
            counts[found] += 1
        else:
            last[word] = used
            words[used] = word
            counts[used] = 1
            used += 1


@kernel
def times_dense(starts: Any, columns: Any, values: Any, dense: Any, product: Any, first: Any, last: Any) -> None:
    """Rows [first, last) of a CSR matrix times a dense one [M, K], added to the same rows of `product` [N, K]."""
    width = np.uint64(dense.shape[1])
    for row in range(first, last):
        target = product[row]
        for place in range(starts[row], starts[row + 1]):
            value, source = values[place], dense[columns[place]]
            for column in range(width):
                target[column] += value * source[column]
