"""Latent semantic analysis: words by the documents they occur in, and the singular vectors of that table.

A document is a line. Cells are tf-idf, (1 + log count) log(documents / documents with the word), each document scaled
to length 1. Vectors are U S: a word is the mean of where it occurs. Source: Deerwester et al. 1990; D7 2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from gnomon.vectors.counting import count_in_sentences
from gnomon.vectors.encode import Corpus
from gnomon.vectors.factorise import truncated_svd
from gnomon.vectors.negative_sampling import Learnt
from gnomon.vectors.settings import Settings
from gnomon.vectors.workers import Watch, unwatched


def lsa(corpus: Corpus, settings: Settings, *, watch: Watch = unwatched) -> Learnt:
    """Weigh and factorise. Raises GnomonError when `size` is more than there are words or documents."""
    matrix = tf_idf(corpus).T.tocsr()
    left, values, _ = truncated_svd(
        matrix, settings.size, seed=settings.seed, threads=settings.used_threads, watch=watch
    )
    return Learnt(left * values, None)


def tf_idf(corpus: Corpus) -> Any:
    """A CSR matrix float32 [documents, V] of tf-idf, each row of length 1."""
    words = np.empty(len(corpus.ids), np.int32)
    counts = np.empty(len(corpus.ids), np.int32)
    starts = np.zeros(corpus.sentences + 1, np.int64)
    count_in_sentences(corpus.ids, starts, words, counts, np.full(len(corpus.vocabulary), -1, np.int64))
    words, counts = words[: starts[-1]], counts[: starts[-1]]
    documents = np.bincount(words, minlength=len(corpus.vocabulary))
    rarity = np.log(corpus.sentences / np.maximum(documents, 1))
    values = (1 + np.log(counts)) * rarity[words]
    lengths = np.sqrt(np.add.reduceat(values**2, starts[:-1]))
    values /= np.repeat(np.maximum(lengths, 1e-12), np.diff(starts))
    return sparse.csr_matrix((values.astype(np.float32), words, starts), (corpus.sentences, len(corpus.vocabulary)))
