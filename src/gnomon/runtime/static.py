"""A classifier of static vectors in plain numpy: tables, a weighted mean and a small head.

The file holds the tensors of `models/static.py` and the label head under their own names, but of the n-gram
table only the rows that are not zero: `ngrams.rows` int32 [num_ngram_buckets] says which row a bucket has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import GnomonError
from gnomon.text.ngrams import ngram_buckets

Floats = NDArray[np.float32]

_LOWEST = np.float32(np.finfo(np.float32).min / 2)


class StaticScorer:
    """Token ids to logits by table look-ups; the same function as the torch model's."""

    def __init__(self, arrays: Mapping[str, np.ndarray], section: Mapping[str, Any]) -> None:
        """From the arrays of the runtime file and the "gnomon" section of config.json."""
        head = section["head"]
        self._pooling = str(head["pooling"])
        self._activation = activation(str(head["activation"]))
        self._ngram_sizes = tuple(section["config"]["ngram_sizes"])
        self._tokens = arrays["backbone.tokens.weight"]
        self._scores = np.ascontiguousarray(arrays["backbone.scores.weight"][:, 0])
        self._rows = arrays.get("ngrams.rows")
        self._ngrams = arrays.get("backbone.ngrams.table.weight")
        self._pool_score = arrays.get("head.pool.score.weight")
        dense = arrays.get("head.dense.weight")
        self._dense = None if dense is None else (np.ascontiguousarray(dense.T), arrays["head.dense.bias"])
        self._out = np.ascontiguousarray(arrays["head.out.weight"].T), arrays["head.out.bias"]

    def logits(self, ids: np.ndarray, mask: np.ndarray) -> Floats:
        """Class scores float32 [B, C] of ids int64 [B, T] and `mask` bool [B, T], as `Scorer` asks for them."""
        pooled = self._pool(self._hidden(ids, mask), mask)
        if self._dense is not None:
            pooled = self._activation(_linear(pooled, *self._dense))
        return _linear(pooled, *self._out)

    def _hidden(self, ids: np.ndarray, mask: np.ndarray) -> Floats:
        """[B, T, E]: each token's vector times its share of the text, and the n-grams that end there."""
        shares = _masked_softmax(self._scores[ids], mask)
        hidden: Floats = self._tokens[ids]
        hidden *= (shares * mask.sum(axis=1, keepdims=True, dtype=np.float32))[..., None]
        if self._ngrams is not None and self._rows is not None:
            for buckets in ngram_buckets(ids, mask, sizes=self._ngram_sizes, num_buckets=len(self._rows)):
                hidden += self._ngrams[self._rows[buckets]]
        return hidden

    def _pool(self, hidden: Floats, mask: np.ndarray) -> Floats:
        """[B, T, E] -> [B, E], as `nn/heads.py` does, for texts of at least one token."""
        pooled: Floats
        if self._pooling == "first":
            pooled = hidden[:, 0]
        elif self._pooling == "last":
            pooled = hidden[np.arange(len(hidden)), mask.sum(axis=1) - 1]
        elif self._pooling == "max":
            pooled = np.where(mask[..., None], hidden, _LOWEST).max(axis=1)
        else:
            pooled = np.matmul(self._weights(hidden, mask)[:, None, :], hidden)[:, 0]
        return pooled

    def _weights(self, hidden: Floats, mask: np.ndarray) -> Floats:
        """What each position [B, T] counts for in the pooled vector, by mean or by attention."""
        if self._pool_score is not None:
            return _masked_softmax(hidden @ self._pool_score[0], mask)
        weights: Floats = mask / mask.sum(axis=1, keepdims=True, dtype=np.float32)
        return weights


def activation(name: str) -> Callable[[Floats], Floats]:
    """The activation of Hugging Face's name `name`."""
    functions: dict[str, Callable[[Floats], Floats]] = {
        "relu": lambda x: np.maximum(x, np.float32(0)),
        "tanh": np.tanh,
        "gelu": _gelu,
        "gelu_new": _gelu_by_tanh,
        "gelu_pytorch_tanh": _gelu_by_tanh,
    }
    if name not in functions:
        raise GnomonError(f"the runtime of static models does not know the activation {name!r}", "use relu or tanh")
    return functions[name]


def _linear(x: Floats, weight: Floats, bias: Floats) -> Floats:
    y: Floats = x @ weight
    y += bias
    return y


def _masked_softmax(scores: Floats, mask: np.ndarray) -> Floats:
    """Shares [B, T] that sum to 1 over the positions of the mask."""
    shares: Floats = np.where(mask, scores, _LOWEST)
    shares -= shares.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _gelu(x: Floats) -> Floats:
    error_function = np.frompyfunc(math.erf, 1, 1)
    share: Floats = np.asarray(error_function(x / math.sqrt(2)), dtype=np.float32)
    return np.float32(0.5) * x * (1 + share)


def _gelu_by_tanh(x: Floats) -> Floats:
    inner: Floats = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
    inner = 1 + np.tanh(inner)
    inner *= np.float32(0.5) * x
    return inner
