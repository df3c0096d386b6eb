"""A deployed language model as a stepper, whichever of the two runtimes computes it.

Rows lie left-aligned in the state whatever padding came before them, so a row is computed as it would be alone.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np

from gnomon.decoding.loop import log_softmax
from gnomon.decoding.stepper import Floats, Ids, Mask
from gnomon.errors import GnomonError
from gnomon.formats.onnx_file import LAYERS, read_onnx

_PIECE = 128  # columns scored at once: their scores of every token are in memory together


class Rows(Protocol):
    """The state of B texts; `lengths` int64 [B], the tokens each holds, may be set lower."""

    lengths: Ids

    def begin(self, ids: Ids, mask: Mask) -> Floats:
        """The first tokens of each row, padding before them -> the next scores [B, V]; 0 where all is padding."""
        ...

    def step(self, ids: Ids) -> Floats:
        """One token of each row [B] -> the next scores [B, V]."""
        ...

    def append(self, ids: Ids, mask: Mask) -> Floats:
        """More tokens of each row -> the next scores [B, V]; 0 where a row is padding still."""
        ...

    def read(self, ids: Ids) -> Floats:
        """More tokens [T] of the first row -> the scores after each, [T, V]."""
        ...

    def reorder(self, rows: Ids) -> None:
        """Row i becomes what row `rows[i]` was."""
        ...


class LanguageRuntime(Protocol):
    """What computes a deployed model."""

    @property
    def vocab_size(self) -> int:
        """Tokens the model knows."""
        ...

    def rows(self, count: int) -> Rows:
        """An empty state of `count` texts."""
        ...


def open_runtime(model: Path | bytes, *, threads: int = 1) -> LanguageRuntime:
    """Open a graph, from a file or from memory: with our own kernels where the graph, the processor and what is
    installed allow it, which is quicker, else with onnxruntime. Raises GnomonError when it cannot be read."""
    file = read_onnx(model)
    if LAYERS in file.notes and find_spec("numba"):
        from gnomon.runtime.block_lanes import available
        from gnomon.runtime.compiled import CompiledModel

        if available():
            try:
                return CompiledModel(file, threads=threads)
            except (KeyError, TypeError, ValueError) as error:
                raise GnomonError(
                    f"{model if isinstance(model, Path) else 'the graph'} is not what its notes say: {error!r}",
                    "export the model again",
                ) from error
    from gnomon.runtime.onnx_language import OnnxLanguageModel

    return OnnxLanguageModel(model, threads=threads)


class LanguageStepper:
    """A `decoding.stepper.Stepper` of a deployed model. Memory grows with the columns read, by doubling."""

    def __init__(self, model: LanguageRuntime, *, max_length: int) -> None:
        self._model = model
        self._max_length = max_length
        self._rows = model.rows(0)
        self._padding = np.zeros(0, np.int64)
        self._columns = 0

    @property
    def max_length(self) -> int:
        """The model's context in tokens."""
        return self._max_length

    def start(self, source_ids: Ids, mask: Mask) -> None:
        """Raises GnomonError: only an encoder-decoder reads a source text."""
        raise GnomonError("this model has no encoder to read a source text", "give the text as the prompt")

    def prefill(self, ids: Ids, mask: Mask) -> Floats:
        """Read ids [B, T] after what was read before -> the next scores, float32 [B, V]; as the protocol says."""
        self._refuse(ids, self._columns + ids.shape[1])
        if not self._columns:
            self._rows = self._model.rows(len(ids))
            self._padding = np.zeros(len(ids), np.int64)
        self._columns += ids.shape[1]
        self._padding += ids.shape[1] - mask.sum(axis=1)
        if not self._rows.lengths.any():
            return self._rows.begin(ids, mask)
        if ids.shape[1] == 1 and mask.all():
            return self._rows.step(ids[:, 0])
        return self._rows.append(ids, mask)

    def step(self, ids: Ids) -> Floats:
        """Read one token of each row, ids [B] -> the next scores, float32 [B, V]."""
        self._refuse(ids, self._columns + 1)
        self._columns += 1
        return self._rows.step(ids)

    def score(self, ids: Ids, mask: Mask) -> Floats:
        """Log-probabilities float32 [B, T] of given tokens, padding after the text; the state is left alone."""
        self._refuse(ids, ids.shape[1])
        scores = np.zeros(ids.shape, np.float32)
        for row, length in enumerate(mask.sum(axis=1).tolist()):
            alone = self._model.rows(1)
            for start in range(0, length - 1, _PIECE):
                stop = min(start + _PIECE, length - 1)
                logits = alone.read(ids[row, start:stop])
                scores[row, start + 1 : stop + 1] = log_softmax(logits)[
                    np.arange(stop - start), ids[row, start + 1 : stop + 1]
                ]
        return scores

    def reorder(self, rows: Ids) -> None:
        """Row i of the state becomes what row `rows[i]` was."""
        self._padding = self._padding[rows]
        self._rows.reorder(rows)

    def trim(self, length: int) -> None:
        """Keep the first `length` columns; 0 empties the state."""
        self._columns = min(self._columns, length)
        self._padding = np.minimum(self._padding, self._columns)
        self._rows.lengths = np.minimum(self._rows.lengths, self._columns - self._padding)

    def _refuse(self, ids: Ids, columns: int) -> None:
        known = self._model.vocab_size
        if ids.size and not 0 <= ids.min() <= ids.max() < known:
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise GnomonError(
                f"the token id {wrong} is none of the model's {known:,} tokens", "use the tokenizer of this model"
            )
        if columns > self._max_length:
            raise GnomonError(
                f"{columns:,} tokens are more than the {self._max_length:,} of the model's context",
                "shorten the text, or export the model with a longer --max-length where it has one",
            )
