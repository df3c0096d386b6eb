"""A causal language model as an onnx graph, run by onnxruntime on the CPU; `deploy/decoder.py` says what it holds.

The buffers of keys and values are bound once and written in place: a step costs what its operators cost. Of a prompt in
pieces, those after the first are read row by row.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnxruntime import OrtValue

from gnomon.decoding.stepper import Floats, Ids, Mask
from gnomon.errors import GnomonError
from gnomon.runtime.session import open_session
from gnomon.text.ngrams import ngram_buckets

_SMALLEST = 64  # columns of the first buffers


class OnnxLanguageModel:
    """A session and what its inputs say of the model."""

    def __init__(self, model: Path | bytes, *, threads: int = 1) -> None:
        """Open a graph, from a file or from memory. Raises GnomonError when onnxruntime cannot read it."""
        session = open_session(model, threads=threads)
        shapes = {one.name: one.shape for one in session.get_inputs()}
        self.session = session
        self.kinds = [name.removeprefix("past.") for name in shapes if name.startswith("past.")]
        if not self.kinds or "seqlens_k" not in shapes:
            raise GnomonError("the graph is no language model that gnomon exported", "export the model again")
        _, self.groups, _, self.head_size = shapes[f"past.{self.kinds[0]}"]
        self.vocab_size = int(session.get_outputs()[0].shape[1])
        self.has_positions = "position_ids" in shapes
        notes = session.get_modelmeta().custom_metadata_map
        self.ngram_sizes = tuple(json.loads(notes.get("ngram_sizes", "[]")))
        self.ngram_buckets = int(notes.get("num_ngram_buckets", 0))

    def rows(self, count: int) -> OnnxRows:
        """An empty state of `count` texts."""
        return OnnxRows(self, count)


class OnnxRows:
    """The keys and values of B texts, and how many tokens each holds; where n-grams are hashed, the tokens too."""

    def __init__(self, graph: OnnxLanguageModel, count: int) -> None:
        self._graph = graph
        self.lengths = np.zeros(count, np.int64)
        self._capacity = 0
        self._buffers: list[npt.NDArray[np.float32]] = []
        self._tokens = np.zeros((count, 0), np.int64)
        self._stepping: _Call | None = None

    def begin(self, ids: Ids, mask: Mask) -> Floats:
        """The first tokens of each row, padding before them -> the next scores [B, V].

        A row of padding alone reads one column that is then forgotten; its scores are 0.
        """
        lengths = mask.sum(axis=1)
        longest = int(lengths.max())
        if longest == 0:
            return np.zeros((len(ids), self._graph.vocab_size), np.float32)
        aligned = np.zeros((len(ids), longest), np.int64)
        aligned[np.arange(longest) < lengths[:, None]] = ids[mask]
        self._make_room(longest)
        self.lengths = lengths
        call = _Call(self._graph, self._buffers, len(ids), longest, len(ids))
        wanted = np.stack([np.arange(len(ids)), np.maximum(lengths - 1, 0)], axis=1)
        before = np.zeros_like(lengths)
        logits = call.run(aligned, before, np.maximum(lengths, 1), self._ngrams(aligned, before), wanted)
        return np.where(lengths[:, None] > 0, logits, 0)

    def step(self, ids: Ids) -> Floats:
        """One token of each row [B] -> the next scores [B, V]."""
        before, self.lengths = self.lengths, self.lengths + 1
        self._make_room(int(self.lengths.max()))
        if self._stepping is None:
            self._stepping = _Call(self._graph, self._buffers, len(ids), 1, len(ids))
        columns = ids[:, None]
        return self._stepping.run(columns, before, self.lengths, self._ngrams(columns, before)).copy()

    def append(self, ids: Ids, mask: Mask) -> Floats:
        """More tokens of each row, row by row -> the next scores [B, V]; 0 where a row is padding still."""
        logits = np.zeros((len(ids), self._graph.vocab_size), np.float32)
        for row, real in enumerate(mask):
            if real.any():
                logits[row] = self.read(ids[row, real], row=row, all_places=False)[-1]
        return logits

    def read(self, ids: Ids, *, row: int = 0, all_places: bool = True) -> Floats:
        """More tokens [T] of one row -> the scores after each, [T, V], or only after the last, [1, V]."""
        length, only = len(ids), slice(row, row + 1)
        before = self.lengths[only].copy()
        self.lengths[row] += length
        self._make_room(int(self.lengths[row]))
        places = np.arange(length) if all_places else np.array([length - 1])
        call = _Call(self._graph, [buffer[only] for buffer in self._buffers], 1, length, len(places))
        wanted = np.stack([np.zeros_like(places), places], axis=1)
        return call.run(ids[None], before, self.lengths[only], self._ngrams(ids[None], before, only), wanted)

    def reorder(self, rows: Ids) -> None:
        """Row i becomes what row `rows[i]` was."""
        same, used = len(rows) == len(self.lengths), int(self.lengths.max(initial=0))
        self.lengths, self._tokens = self.lengths[rows], self._tokens[rows]
        if same:
            for buffer in self._buffers:
                buffer[:, :, :used] = buffer[rows, :, :used]
        else:
            self._allocate(self._capacity, [buffer[rows, :, :used] for buffer in self._buffers])

    def _ngrams(self, ids: Ids, before: Ids, only: slice = slice(None)) -> Ids | None:
        """The buckets [B, T, S] of the n-grams that end at ids [B, T], and the tokens kept for the next."""
        graph = self._graph
        if not graph.ngram_sizes:
            return None
        tokens, lengths = self._tokens[only], self.lengths[only, None]
        reach = max(graph.ngram_sizes) - 1
        rows = np.arange(len(ids))[:, None]
        tokens[rows, before[:, None] + np.arange(ids.shape[1])] = ids
        places = before[:, None] + np.arange(-reach, ids.shape[1])
        real = (places >= 0) & (places < lengths)
        seen = tokens[rows, np.maximum(places, 0)]
        found = ngram_buckets(seen, real, sizes=graph.ngram_sizes, num_buckets=graph.ngram_buckets)
        return np.stack(found, axis=-1)[:, reach:]

    def _make_room(self, length: int) -> None:
        if length > self._capacity:
            self._allocate(max(_SMALLEST, 1 << (length - 1).bit_length()), self._buffers)

    def _allocate(self, capacity: int, kept: list[npt.NDArray[np.float32]]) -> None:
        graph, count = self._graph, len(self.lengths)
        self._buffers = [np.zeros((count, graph.groups, capacity, graph.head_size), np.float32) for _ in graph.kinds]
        for new, old in zip(self._buffers, kept, strict=False):
            new[:, :, : old.shape[2]] = old
        self._tokens = np.pad(self._tokens, ((0, 0), (0, capacity - self._tokens.shape[1])))
        self._capacity, self._stepping = capacity, None


class _Call:
    """Memory for the inputs and outputs of calls of one shape, bound to the graph."""

    def __init__(
        self, graph: OnnxLanguageModel, buffers: list[npt.NDArray[np.float32]], rows: int, length: int, wanted: int
    ) -> None:
        self._graph = graph
        self._inputs: dict[str, np.ndarray] = {
            "input_ids": np.zeros((rows, length), np.int64),
            "seqlens_k": np.zeros(rows, np.int32),
            "total_sequence_length": np.zeros((), np.int32),
            "logits_of": np.stack([np.arange(wanted), np.zeros(wanted, np.int64)], axis=1),
        }
        if graph.has_positions:
            self._inputs["position_ids"] = np.zeros((rows, length), np.int64)
        if graph.ngram_sizes:
            self._inputs["ngrams"] = np.zeros((rows, length, len(graph.ngram_sizes)), np.int64)
        self._logits = np.zeros((wanted, graph.vocab_size), np.float32)
        self._binding = graph.session.io_binding()
        # An OrtValue does not copy what it is made of: writing into the arrays is all that a further call needs.
        self._values = {name: OrtValue.ortvalue_from_numpy(array) for name, array in self._inputs.items()}
        memory = {kind: OrtValue.ortvalue_from_numpy(buffer) for kind, buffer in zip(graph.kinds, buffers, strict=True)}
        self._values |= memory | {"logits": OrtValue.ortvalue_from_numpy(self._logits)}
        for name in self._inputs:
            self._binding.bind_ortvalue_input(name, self._values[name])
        for kind in memory:
            self._binding.bind_ortvalue_input(f"past.{kind}", memory[kind])
            self._binding.bind_ortvalue_output(f"present.{kind}", memory[kind])
        self._binding.bind_ortvalue_output("logits", self._values["logits"])

    def run(
        self, ids: Ids, before: Ids, after: Ids, ngrams: Ids | None = None, wanted: Ids | None = None
    ) -> npt.NDArray[np.float32]:
        """The scores of `wanted` places (column 0 of each row unless told) of ids [B, T], when rows hold `before` and
        `after` tokens before and after the call. They are in memory that the next call writes again."""
        inputs = self._inputs
        inputs["input_ids"][:] = ids
        inputs["seqlens_k"][:] = after - 1
        inputs["total_sequence_length"][()] = after.max()
        if wanted is not None:
            inputs["logits_of"][:] = wanted
        if self._graph.has_positions:
            inputs["position_ids"][:] = before[:, None] + np.arange(ids.shape[1])
        if ngrams is not None:
            inputs["ngrams"][:] = ngrams
        self._graph.session.run_with_iobinding(self._binding)
        return self._logits
