"""A torch language model as the decoding loops see it: numpy in, numpy out, with a state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from gnomon.decoding.stepper import Floats, Ids, Mask
from gnomon.errors import GnomonError
from gnomon.models.base import Model, evaluating
from gnomon.models.heads import LanguageHeadConfig
from gnomon.nn.language_heads import LanguageHead
from gnomon.nn.state import State
from gnomon.nn.vocabulary import VocabularyProjection, log_probabilities


class TorchStepper:
    """A `decoding.stepper.Stepper` of any model with a language head and a family that can step.

    Dropout is off while it reads; the model's mode is left as it was. Memory grows with the columns read, by doubling.
    """

    def __init__(self, model: Model) -> None:
        """Raises GnomonError for a model that is no causal language model."""
        if not isinstance(model.head_config, LanguageHeadConfig) or not isinstance(model.head, LanguageHead):
            raise GnomonError(
                f"a model with a {model.head_config.kind.replace('_', ' ')} head cannot generate text",
                "use a causal language model",
            )
        model.backbone.init_state()  # refuses a family that cannot step
        self._model = model
        self._head = model.head
        self._state: State | None = None
        self._read: list[tuple[Ids, Mask]] = []

    @property
    def max_length(self) -> int | None:
        """The model's context in tokens; None for a recurrent or convolutional model, which has no limit."""
        return self._model.backbone.max_positions

    def start(self, source_ids: Ids, mask: Mask) -> None:
        """Raises GnomonError: only an encoder-decoder reads a source text."""
        raise GnomonError("this model has no encoder to read a source text", "give the text as the prompt")

    def prefill(self, ids: Ids, mask: Mask) -> Floats:
        """Read ids [B, T] after what was read before -> the next scores, float32 [B, V]; as the protocol says."""
        self._refuse_unknown(ids)
        if self._state is None:
            self._state = self._model.backbone.init_state()
        if not self._state.can_trim:
            self._read.append((ids, mask))
        with _reading(self._model):
            given = None if mask.all() else self._tensor(mask)
            hidden = self._model.backbone.last(self._tensor(ids), mask=given, state=self._state)
            logits = self._head.logits(hidden[:, 0])
        return logits.float().cpu().numpy()

    def step(self, ids: Ids) -> Floats:
        """Read one token of each row, ids [B] -> the next scores, float32 [B, V]."""
        return self.prefill(ids[:, None], np.ones((len(ids), 1), dtype=np.bool_))

    def score(self, ids: Ids, mask: Mask) -> Floats:
        """Log-probabilities float32 [B, T] of given tokens, padding after the text; the state is left alone."""
        self._refuse_unknown(ids)
        scores = np.zeros(ids.shape, dtype=np.float32)
        judged = mask[:, 1:]
        if not judged.any():
            return scores
        with _reading(self._model):
            given = None if mask.all() else self._tensor(mask)
            hidden: Tensor = self._model.backbone(self._tensor(ids), mask=given).hidden[:, :-1]
            chosen = self._tensor(judged)
            targets = self._tensor(ids)[:, 1:][chosen]
            out = self._head.out
            found = log_probabilities(self._head.features(hidden[chosen]), out.matrix, out.bias, targets)
        scores[:, 1:][judged] = found.cpu().numpy()
        return scores

    def reorder(self, rows: Ids) -> None:
        """Row i of the state becomes what row `rows[i]` was."""
        if self._state is not None:
            with torch.inference_mode():
                self._state.reorder(self._tensor(rows))
        self._read = [(ids[rows], mask[rows]) for ids, mask in self._read]

    def trim(self, length: int) -> None:
        """Keep the first `length` columns; 0 empties the state. A state that holds only the present is made again."""
        if length == 0:
            self._state, self._read = None, []
        elif self._state is not None and length < self._state.length:
            if self._state.can_trim:
                self._state.trim(length)
                return
            ids, mask = (np.concatenate(parts, axis=1)[:, :length] for parts in zip(*self._read, strict=True))
            self.trim(0)
            self.prefill(ids, mask)

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._model.device)

    def _refuse_unknown(self, ids: Ids) -> None:
        rows = self._model.backbone.token_embedding.num_embeddings
        if ids.size and not 0 <= ids.min() <= ids.max() < rows:
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise GnomonError(
                f"the token id {wrong} is none of the model's {rows:,} tokens", "use the tokenizer of this model"
            )


def lay_out_for_steps(model: Model) -> Model:
    """Put the matrices of `model` into memory by columns, in place; values, shapes and names stay. Returns the model.

    One row times a matrix costs what reading the matrix costs, and the CPU's library reads it by columns at 15.7 GB/s
    where it reads rows at 12 (one thread of a Zen 4). Many rows at once are as quick either way.
    """
    if model.device.type == "cpu":
        for module in model.modules():
            if isinstance(module, nn.Linear | VocabularyProjection):
                matrix = module.weight if isinstance(module, nn.Linear) else module.matrix
                matrix.data = matrix.data.t().contiguous().t()
    return model


@contextlib.contextmanager
def _reading(model: Model) -> Iterator[None]:
    with evaluating(model) if model.training else contextlib.nullcontext(), torch.inference_mode():
        yield
