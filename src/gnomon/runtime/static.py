"""A classifier of static vectors in plain numpy: tables, a weighted mean and a small head.

The file holds the tensors of `models/static.py` and the label head under their own names, but for two things.
Of the n-gram table it has only the rows that are not zero; `ngrams.rows` int32 [num_ngram_buckets] says which row a
bucket has. And where the dense layer follows a mean, both being linear, its weight may be multiplied into the tables
already: then only `head.dense.bias` is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.errors import GnomonError
from gnomon.text.ngrams import buckets_inside, ngram_buckets, ngram_tables

Floats = NDArray[np.float32]

_WIDEST = 60.0  # e^-60 is far above the least float32, so a text of the lightest tokens alone still has a total
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
        self._weights = _weights(self._scores)
        self._rows = arrays.get("ngrams.rows")
        self._ngrams = arrays.get("backbone.ngrams.table.weight")
        self._hashes = ngram_tables(len(self._tokens), self._ngram_sizes if self._ngrams is not None else ())
        self._pool_score = arrays.get("head.pool.score.weight")
        self._dense_weight = _transposed(arrays.get("head.dense.weight"))
        self._dense_bias = arrays.get("head.dense.bias")
        self._out_weight = np.ascontiguousarray(arrays["head.out.weight"].T)
        self._out_bias = arrays["head.out.bias"]

    def logits(self, ids: np.ndarray, mask: np.ndarray | None) -> Floats:
        """Class scores float32 [B, C] of ids int64 [B, T] and `mask` bool [B, T], as `Scorer` asks for them."""
        pooled = self._pooled(ids, mask)
        if self._dense_weight is not None:
            pooled = pooled @ self._dense_weight
        if self._dense_bias is not None:
            pooled = self._activation(pooled + self._dense_bias)
        scores: Floats = pooled @ self._out_weight
        scores += self._out_bias
        return scores

    def _pooled(self, ids: np.ndarray, mask: np.ndarray | None) -> Floats:
        if len(ids) == 1 and mask is None and self._pooling == "mean" and self._weights is not None:
            return self._mean_of_one(ids[0], self._weights)
        if mask is None:
            mask = np.ones(ids.shape, np.bool_)
        return self._mean(ids, mask) if self._pooling == "mean" else self._pool(self._hidden(ids, mask), mask)

    def _mean_of_one(self, ids: np.ndarray, weights: Floats) -> Floats:
        """`_mean` of a single text of ids [T] -> [1, E]: without a batch's dimension numpy needs a third of the time,
        and `take` less than an index."""
        shares = weights.take(ids)
        pooled: Floats = shares @ self._tokens.take(ids, axis=0)
        pooled /= np.add.reduce(shares)
        if self._ngrams is not None and self._rows is not None:
            for size in self._ngram_sizes:
                buckets = buckets_inside(ids, size=size, num_buckets=len(self._rows), tables=self._hashes)
                total = np.add.reduce(self._ngrams.take(self._rows.take(buckets), axis=0))
                total /= len(ids)
                pooled += total
        return pooled[None]

    def _mean(self, ids: np.ndarray, mask: np.ndarray) -> Floats:
        """The mean of `_hidden` over the text [B, E], in a third of the time: positions are never made."""
        if self._weights is None:
            shares = _masked_softmax(self._scores[ids], mask)
        else:
            shares = self._weights[ids] * mask
            shares /= shares.sum(axis=1, keepdims=True)
        pooled: Floats = np.matmul(shares[:, None, :], self._tokens[ids])[:, 0]
        if self._ngrams is not None and self._rows is not None:
            for buckets in self._buckets(ids, mask, self._rows):
                total = self._ngrams[self._rows[buckets]].sum(axis=1)
                pooled += total / mask.sum(axis=1, keepdims=True, dtype=np.float32)
        return pooled

    def _hidden(self, ids: np.ndarray, mask: np.ndarray) -> Floats:
        """[B, T, E]: each token's vector times its share of the text, and the n-grams that end there."""
        shares = _masked_softmax(self._scores[ids], mask)
        hidden: Floats = self._tokens[ids]
        hidden *= (shares * mask.sum(axis=1, keepdims=True, dtype=np.float32))[..., None]
        if self._ngrams is not None and self._rows is not None:
            for buckets in self._buckets(ids, mask, self._rows):
                hidden += self._ngrams[self._rows[buckets]]
        return hidden

    def _buckets(self, ids: np.ndarray, mask: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
        return ngram_buckets(ids, mask, sizes=self._ngram_sizes, num_buckets=len(rows), tables=self._hashes)

    def _pool(self, hidden: Floats, mask: np.ndarray) -> Floats:
        """[B, T, E] -> [B, E] by a pooling that is not the mean, as in `nn/heads.py`; texts have a token or more."""
        pooled: Floats
        if self._pooling == "first":
            pooled = hidden[:, 0]
        elif self._pooling == "last":
            pooled = hidden[np.arange(len(hidden)), mask.sum(axis=1) - 1]
        elif self._pool_score is not None:
            shares = _masked_softmax(hidden @ self._pool_score[0], mask)
            pooled = np.matmul(shares[:, None, :], hidden)[:, 0]
        else:
            pooled = np.where(mask[..., None], hidden, _LOWEST).max(axis=1)
        return pooled


def activation(name: str) -> Callable[[Floats], Floats]:
    """The activation of Hugging Face's name `name`."""
    functions: dict[str, Callable[[Floats], Floats]] = {
        "relu": _relu,
        "relu2": lambda x: np.square(_relu(x)),
        "silu": lambda x: np.float32(0.5) * x * (1 + np.tanh(np.float32(0.5) * x)),  # no exponential to overflow
        "tanh": np.tanh,
        "gelu": _gelu,
        "gelu_new": _gelu_by_tanh,
        "gelu_pytorch_tanh": _gelu_by_tanh,
    }
    if name not in functions:
        raise GnomonError(f"the runtime of static models does not know the activation {name!r}", "use relu or tanh")
    return functions[name]


def _transposed(weight: Floats | None) -> Floats | None:
    return None if weight is None else np.ascontiguousarray(weight.T)


def _weights(scores: Floats) -> Floats | None:
    """Each token's share of a text before it is divided by the text's total, a table instead of an exponential a call.

    None where scores lie so far apart that the lesser ones would vanish.
    """
    highest = scores.max(initial=0.0)
    return None if highest - scores.min(initial=0.0) > _WIDEST else np.exp(scores - highest)


def _masked_softmax(scores: Floats, mask: np.ndarray) -> Floats:
    """Shares [B, T] that sum to 1 over the positions of the mask."""
    shares: Floats = np.where(mask, scores, _LOWEST)
    shares -= shares.max(axis=1, keepdims=True)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def _relu(x: Floats) -> Floats:
    return np.maximum(x, np.float32(0))


def _gelu(x: Floats) -> Floats:
    error_function = np.frompyfunc(math.erf, 1, 1)
    share: Floats = np.asarray(error_function(x / math.sqrt(2)), dtype=np.float32)
    return np.float32(0.5) * x * (1 + share)


def _gelu_by_tanh(x: Floats) -> Floats:
    inner: Floats = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
    inner = 1 + np.tanh(inner)
    inner *= np.float32(0.5) * x
    return inner
