"""All layers of a decoder in one compiled call: RMSNorm, grouped attention with rotary positions, SwiGLU.

A call reads any tokens of any rows of the state, one row of activations each: keys and values are written before any
token looks at them, and a token sees what stands before it in its own row. Threads share out the rows, heads and tiles
of each phase and meet before the next; one thread or many, the same numbers come out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gnomon.runtime.attention_lanes import HEADS, KEYS, compare, exponentials, shorten, weigh
from gnomon.runtime.block_kernels import BLOCKS, SIZE, TILES, Numbers, round_row, times
from gnomon.runtime.block_lanes import LANES, gate
from gnomon.runtime.team import meet, share
from gnomon.vectors.compiling import kernel

QKV, OUTPUT, GATE_UP, DOWN = range(4)
"""Matrices of a layer."""

_LOWEST, _NOTHING = -3e38, -1000.0
_SHORT = 2  # bytes of a 16-bit float
Array = npt.NDArray[Any]


class Shape(NamedTuple):
    """What layers are like: heads of queries and groups of keys, a head's width, and what its scores are scaled by."""

    layers: int
    heads: int
    groups: int
    head_size: int
    scale: float
    eps: float
    head_eps: float
    head_norms: bool


class Weights(NamedTuple):
    """Descriptions of the matrices int64 [L, 4, 8], norms float32 [2 L + 1, D], head norms [L, 2, d], cosines and sines
    [P, d / 2], and how many columns each layer sees, int64 [L]."""

    matrices: Array
    norms: Array
    head_norms: Array
    cosines: Array
    sines: Array
    windows: Array


class Tokens(NamedTuple):
    """What is read: each token's row in the state and place in that row, int64 [M]."""

    rows: Array
    places: Array


class Memory(NamedTuple):
    """16-bit floats as uint16: keys [L, B, G, capacity / LANES, d, LANES] and values [L, B, G, d / LANES, capacity,
    LANES]; the capacity is a multiple of `KEYS`."""

    keys: Array
    values: Array


class Room(NamedTuple):
    """Memory to work in: the stream `x`, one layer's results `wide` and `mixed`, float32 of M rows; `normed` float32
    [threads, I]; rounded activations; `scores` float32 [threads, HEADS, capacity]."""

    x: Array
    wide: Array
    mixed: Array
    normed: Array
    numbers: Numbers
    scores: Array


@kernel
def _norm(x: Any, weight: Any, eps: Any, out: Any) -> None:
    """RMSNorm (Zhang and Sennrich 2019)."""
    total = np.float32(0)
    for place in range(weight.shape[0]):
        total += x[place] * x[place]
    factor = np.float32(1) / np.sqrt(total / np.float32(weight.shape[0]) + np.float32(eps))
    for place in range(weight.shape[0]):
        out[place] = x[place] * factor * weight[place]


@kernel
def _norm_and_round(room: Any, weight: Any, eps: Any, matrix: Any, count: Any, team: Any) -> None:
    """The norms of the stream, as activations of the described matrix."""
    first, last = share(count, team)
    normed = room.normed[team.thread]
    for row in range(first, last):
        _norm(room.x[row], weight, eps, normed)
        round_row(normed, room.numbers, row, matrix)


@kernel
def _multiply(matrix: Any, room: Any, count: Any, out: Any, adding: Any, team: Any) -> None:
    first, last = share(matrix[TILES], team)
    times(matrix, first, last, room.numbers, count, out, adding)


@kernel
def _turn(head: Any, cosines: Any, sines: Any) -> None:
    """Turn each pair (i, i + d / 2) by the angles of its position."""
    half = cosines.shape[0]
    for place in range(half):
        low, high = head[place], head[half + place]
        head[place] = low * cosines[place] - high * sines[place]
        head[half + place] = high * cosines[place] + low * sines[place]


@kernel
def _place_heads(layer: Any, shape: Any, weights: Any, tokens: Any, memory: Any, room: Any, team: Any) -> None:
    """Norm and turn queries and keys, and write keys and values where the state has them."""
    first, last = share(tokens.rows.shape[0], team)
    size = shape.head_size
    for row in range(first, last):
        place = tokens.places[row]
        for head in range(shape.heads + shape.groups):
            vector = room.wide[row, head * size : (head + 1) * size]
            if shape.head_norms:
                _norm(vector, weights.head_norms[layer, 0 if head < shape.heads else 1], shape.head_eps, vector)
            _turn(vector, weights.cosines[place], weights.sines[place])
        for group in range(shape.groups):
            key = (shape.heads + group) * size
            _keep(room.wide[row, key : key + size], memory.keys[layer, tokens.rows[row], group], place, True)
            value = key + shape.groups * size
            _keep(room.wide[row, value : value + size], memory.values[layer, tokens.rows[row], group], place, False)


@kernel
def _keep(vector: Any, parts: Any, place: Any, is_key: Any) -> None:
    """Write a key into its tile, of [T / LANES, d, LANES], or a value into its parts, [d / LANES, T, LANES]."""
    if is_key:
        out = parts[place // LANES, 0, place % LANES :]
        shorten(vector.ctypes.data, vector.shape[0] // LANES, out.ctypes.data, LANES * _SHORT)
    else:
        for part in range(parts.shape[0]):
            source, out = vector[part * LANES :], parts[part, place]
            shorten(source.ctypes.data, 1, out.ctypes.data, _SHORT)


@kernel
def _attend(layer: Any, shape: Any, weights: Any, tokens: Any, memory: Any, room: Any, team: Any) -> None:
    """Every token's heads over what its row holds up to it."""
    first, last = share(tokens.rows.shape[0] * shape.groups, team)
    size, each = shape.head_size, shape.heads // shape.groups
    scores = room.scores[team.thread]
    for unit in range(first, last):
        row, group = unit // shape.groups, unit % shape.groups
        stop = tokens.places[row] + 1
        start = max(0, stop - weights.windows[layer])
        begin = start // KEYS * KEYS
        keys = memory.keys[layer, tokens.rows[row], group, begin // LANES :]
        values = memory.values[layer, tokens.rows[row], group, :, begin:]
        for head in range(group * each, (group + 1) * each, HEADS):
            heads = min(HEADS, (group + 1) * each - head)
            queries = room.wide[row, head * size : (head + heads) * size]
            out = room.mixed[row, head * size : (head + heads) * size]
            _compare(queries, keys, heads, stop - begin, np.float32(shape.scale), scores)
            for one in range(heads):
                _softmax(scores[one], start - begin, stop - begin)
            _weigh(scores, values, heads, stop - begin, out)


@kernel
def _compare(queries: Any, keys: Any, heads: Any, count: Any, scale: Any, scores: Any) -> None:
    """Scaled products of queries [heads d] with the first `count` keys, in `scores` [heads, >= count up to KEYS]."""
    size, tiles, stride = queries.shape[0] // heads, (count + LANES - 1) // LANES, scores.shape[1] * 4
    query, key, out = queries.ctypes.data, keys.ctypes.data, scores.ctypes.data
    compare(heads, query, key, size, tiles, scale, out, stride)


@kernel
def _softmax(scores: Any, start: Any, stop: Any) -> None:
    """The softmax of the scores from `start` to `stop`; 0 before, and after up to a whole register."""
    end = (stop + LANES - 1) // LANES * LANES
    highest = np.float32(_LOWEST)
    for place in range(start, stop):
        highest = max(highest, scores[place])
    for place in range(start):
        scores[place] = highest + np.float32(_NOTHING)
    for place in range(stop, end):
        scores[place] = highest + np.float32(_NOTHING)
    factor = np.float32(1) / exponentials(scores.ctypes.data, end // LANES, highest)
    for place in range(end):
        scores[place] *= factor


@kernel
def _weigh(scores: Any, values: Any, heads: Any, count: Any, out: Any) -> None:
    """The values that `count` scores of each head weigh: `out` [heads d]."""
    stride, weights, size = scores.shape[1] * 4, scores.ctypes.data, out.shape[0] // heads
    for part in range(values.shape[0]):
        value, place = values[part].ctypes.data, out.ctypes.data + part * LANES * 4
        weigh(heads, weights, stride, value, count, place, size * 4)


@kernel
def _round_mixed(matrix: Any, room: Any, count: Any, team: Any) -> None:
    """What the heads gave, as activations of the output matrix."""
    first, last = share(count, team)
    for row in range(first, last):
        round_row(room.mixed[row], room.numbers, row, matrix)


@kernel
def _gate_and_round(matrix: Any, room: Any, count: Any, team: Any) -> None:
    """SwiGLU of the wide results, as activations of the matrix back."""
    first, last = share(count, team)
    inner = matrix[BLOCKS] * matrix[SIZE]
    for row in range(first, last):
        gates = room.wide[row].ctypes.data
        gate(gates, gates + inner * 4, gates, inner // LANES)
        round_row(room.wide[row], room.numbers, row, matrix)


@kernel
def read_layers(shape: Any, weights: Any, tokens: Any, memory: Any, room: Any, team: Any) -> None:
    """Take the stream `room.x` of the tokens through all layers, keeping their keys and values."""
    count, meetings = tokens.rows.shape[0], 0
    for layer in range(shape.layers):
        matrices = weights.matrices[layer]
        _norm_and_round(room, weights.norms[2 * layer], shape.eps, matrices[QKV], count, team)
        meetings = meet(team, meetings)
        _multiply(matrices[QKV], room, count, room.wide, False, team)
        meetings = meet(team, meetings)
        _place_heads(layer, shape, weights, tokens, memory, room, team)
        meetings = meet(team, meetings)
        _attend(layer, shape, weights, tokens, memory, room, team)
        meetings = meet(team, meetings)
        _round_mixed(matrices[OUTPUT], room, count, team)
        meetings = meet(team, meetings)
        _multiply(matrices[OUTPUT], room, count, room.x, True, team)
        meetings = meet(team, meetings)
        _norm_and_round(room, weights.norms[2 * layer + 1], shape.eps, matrices[GATE_UP], count, team)
        meetings = meet(team, meetings)
        _multiply(matrices[GATE_UP], room, count, room.wide, False, team)
        meetings = meet(team, meetings)
        _gate_and_round(matrices[DOWN], room, count, team)
        meetings = meet(team, meetings)
        _multiply(matrices[DOWN], room, count, room.x, True, team)
        meetings = meet(team, meetings)


@kernel
def read_out(shape: Any, weights: Any, matrix: Any, room: Any, count: Any, out: Any, team: Any) -> None:
    """The scores of the first `count` rows of the stream: last norm and output matrix."""
    _norm_and_round(room, weights.norms[2 * shape.layers], shape.eps, matrix, count, team)
    meet(team, 0)
    _multiply(matrix, room, count, out, False, team)
