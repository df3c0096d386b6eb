"""A deployed decoder with 8- or 4-bit weights, run by gnomon's own kernels instead of onnxruntime.

It reads the same onnx file. Needs numba and an x86 processor with AVX2, and knows decoders of Llama's kind (RMSNorm
before each part, rotary positions, SwiGLU; Llama, Mistral, Qwen); `deploy/decoder.py` notes in a graph that it is one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gnomon.decoding.stepper import Floats, Ids, Mask
from gnomon.formats.onnx_file import LAYERS, OnnxFile
from gnomon.runtime.attention_lanes import HEADS, KEYS
from gnomon.runtime.block_kernels import Arena, Matrix, Numbers, aligned
from gnomon.runtime.block_lanes import LANES
from gnomon.runtime.decoder_kernels import Memory, Room, Shape, Tokens, Weights, read_layers, read_out
from gnomon.runtime.team import Team

_PIECE = 128  # tokens read at once: their activations stay in the processor's caches
_TOKENS, _OUT = "backbone.tokens", "head.out"
_PARTS = ("attention.qkv", "attention.output", "feedforward.gate_up", "feedforward.down")


class CompiledModel:
    """The weights of a model laid out for the kernels, and the threads that run them."""

    def __init__(self, file: OnnxFile, *, threads: int) -> None:
        """Lay out the constants of a file whose notes have `LAYERS`: the fields of `Shape`, and `windows`.

        The first time on a processor this compiles the kernels, for about ten seconds; they are kept on disk.
        """
        said = json.loads(file.notes[LAYERS])
        windows = said.pop("windows")
        self.shape = Shape(**said)
        constants = file.constants
        layers = [f"backbone.layers.{layer}" for layer in range(self.shape.layers)]
        packed = (constant for name, constant in constants.items() if name.endswith(".packed"))
        arena = Arena(sum(map(Matrix.bytes_of, packed)))
        self._matrices = [[_matrix(constants, f"{layer}.{part}", arena) for part in _PARTS] for layer in layers]
        tied = f"{_OUT}.weight.packed" not in constants
        self._head = _matrix(constants, _TOKENS if tied else _OUT, arena)
        self._table = self._head if tied else _input_table(constants, arena)
        norms = [constants[f"{layer}.{part}_norm.weight"] for layer in layers for part in ("attention", "feedforward")]
        ones = np.ones(self.shape.head_size, np.float32)
        kinds = ("query", "key")
        head_norms = [[constants.get(f"{one}.attention.{kind}_norm.weight", ones) for kind in kinds] for one in layers]
        self._weights = Weights(
            np.array([[matrix.description for matrix in layer] for layer in self._matrices]),
            np.stack([*norms, constants["backbone.final_norm.weight"]]),
            np.stack([np.stack(pair) for pair in head_norms]),
            constants["rotation.cosines"].copy(),
            constants["rotation.sines"].copy(),
            np.array(windows, np.int64),
        )
        self._turn = threading.Lock()
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._room = self._make_room(1, 0)
        self.rows(1).step(np.zeros(1, np.int64))

    @property
    def vocab_size(self) -> int:
        """Tokens the model knows."""
        return int(self._head.rows)

    def rows(self, count: int) -> CompiledRows:
        """An empty state of `count` texts."""
        return CompiledRows(self, count)

    def read(self, ids: Ids, rows: Ids, places: Ids, memory: Memory, wanted: Mask) -> Floats:
        """Read tokens [M] at `places` of `rows`, those of a row in order -> the scores [N, V] of the `wanted` ones.

        Several threads may call this; they take turns.
        """
        found = []
        with self._turn:
            for start in range(0, len(ids), _PIECE):
                piece = slice(start, start + _PIECE)
                found.append(self._read(ids[piece], Tokens(rows[piece], places[piece]), memory, wanted[piece]))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _read(self, ids: Ids, tokens: Tokens, memory: Memory, wanted: Mask) -> Floats:
        room = self._room_for(len(ids), memory.values.shape[4])
        room.x[: len(ids)] = self._table.take(ids)
        self._together(lambda team: read_layers(self.shape, self._weights, tokens, memory, room, team))
        count = int(wanted.sum())
        logits = np.empty((count, self._head.tiles * LANES), np.float32)
        if count:
            room.x[:count] = room.x[: len(ids)][wanted]
            self._together(
                lambda team: read_out(self.shape, self._weights, self._head.description, room, count, logits, team)
            )
        return logits[:, : self.vocab_size]

    def _together(self, work: Callable[[Team], None]) -> None:
        """Run `work` on every thread of the team, this one among them."""
        meetings = np.zeros(1, np.int64)
        teams = [Team(thread, self._threads, meetings.ctypes.data) for thread in range(self._threads)]
        others = [self._pool.submit(work, team) for team in teams[1:]] if self._pool else []
        work(teams[0])
        for other in others:
            other.result()

    def _room_for(self, count: int, columns: int) -> Room:
        """The memory to work in, made larger where it must be."""
        if len(self._room.x) < count or self._room.scores.shape[2] < columns:
            self._room = self._make_room(max(count, len(self._room.x)), columns)
        return self._room

    def _make_room(self, count: int, columns: int) -> Room:
        matrices = [self._head, *(matrix for layer in self._matrices for matrix in layer)]
        widest = max(matrix.columns for matrix in matrices)
        results = LANES * max(matrix.tiles for matrix in matrices[1:])
        return Room(
            aligned((count, self._table.columns), np.float32),
            aligned((count, results), np.float32),
            aligned((count, self.shape.heads * self.shape.head_size), np.float32),
            aligned((self._threads, widest), np.float32),
            Numbers.room(count, widest),
            aligned((self._threads, HEADS, columns), np.float32),
        )


class CompiledRows:
    """The keys and values of B texts, and how many tokens each holds."""

    def __init__(self, model: CompiledModel, count: int) -> None:
        self._model = model
        self.lengths = np.zeros(count, np.int64)
        self._capacity = 0
        self._memory = self._allocated()

    def begin(self, ids: Ids, mask: Mask) -> Floats:
        """The first tokens of each row, padding before them -> the next scores [B, V]; 0 where a row is padding."""
        return self.append(ids, mask)

    def step(self, ids: Ids) -> Floats:
        """One token of each row [B] -> the next scores [B, V]."""
        places, rows = self.lengths, np.arange(len(ids))
        self.lengths = self.lengths + 1
        self._make_room()
        return self._model.read(ids, rows, places, self._memory, np.ones(len(ids), np.bool_))

    def append(self, ids: Ids, mask: Mask) -> Floats:
        """More tokens of each row -> the next scores [B, V]; 0 where a row is padding still."""
        rows = mask.nonzero()[0]
        places = (self.lengths[:, None] + mask.cumsum(axis=1) - 1)[mask]
        counts = mask.sum(axis=1)
        self.lengths = self.lengths + counts
        self._make_room()
        wanted = np.zeros(len(rows), np.bool_)
        real = counts > 0
        wanted[counts.cumsum()[real] - 1] = True
        logits = np.zeros((len(ids), self._model.vocab_size), np.float32)
        if real.any():
            logits[real] = self._model.read(ids[mask], rows, places, self._memory, wanted)
        return logits

    def read(self, ids: Ids) -> Floats:
        """More tokens [T] of the only row -> the scores after each, [T, V]."""
        places = np.arange(self.lengths[0], self.lengths[0] + len(ids))
        self.lengths = self.lengths + len(ids)
        self._make_room()
        return self._model.read(ids, np.zeros_like(places), places, self._memory, np.ones(len(ids), np.bool_))

    def reorder(self, rows: Ids) -> None:
        """Row i becomes what row `rows[i]` was."""
        same, used = len(rows) == len(self.lengths), -(-int(self.lengths.max(initial=0)) // LANES) * LANES
        self.lengths = self.lengths[rows]
        kept = (self._memory.keys[:, :, :, : used // LANES], self._memory.values[:, :, :, :, :used])
        if same:
            for part in kept:
                part[:] = part[:, rows]
        else:
            self._memory = self._allocated([part[:, rows] for part in kept])

    def _make_room(self) -> None:
        length = int(self.lengths.max(initial=0))
        if length > self._capacity:
            self._capacity = max(KEYS, 1 << (length - 1).bit_length())
            self._memory = self._allocated(self._memory)

    def _allocated(self, kept: Iterable[np.ndarray] = ()) -> Memory:
        """Memory of the present capacity, holding what was kept."""
        shape, capacity = self._model.shape, self._capacity
        size = (shape.layers, len(self.lengths), shape.groups)
        memory = Memory(
            np.zeros((*size, capacity // LANES, shape.head_size, LANES), np.uint16),
            np.zeros((*size, shape.head_size // LANES, capacity, LANES), np.uint16),
        )
        for new, old in zip(memory, kept, strict=False):
            new[:, :, :, : old.shape[3], : old.shape[4]] = old
        return memory


def _matrix(constants: Mapping[str, np.ndarray], name: str, arena: Arena) -> Matrix:
    packed, scales = constants[f"{name}.weight.packed"], constants[f"{name}.weight.scales"]
    centres = constants.get(f"{name}.weight.centres")  # [n, O]
    centres = None if centres is None else centres.T
    return Matrix(packed, scales, centres, constants.get(f"{name}.bias"), arena=arena)


def _input_table(constants: Mapping[str, np.ndarray], arena: Arena) -> Matrix:
    """The table of an untied model."""
    return Matrix(constants[f"{_TOKENS}.weight.packed"], constants[f"{_TOKENS}.weight.row_scales"], arena=arena)
