"""CBOW with negative sampling: the mean of a window's words tells the word at its centre from random words.

For a centre c with near words W the loss is -log s(m . out_c) - sum over negatives n of log s(-m . out_n), where m is
the mean of in_w over W. As in word2vec's code and gensim's, every near word moves by the whole gradient of m, not by
its share. Source: Mikolov et al. 2013 (arXiv:1301.3781).
"""

from __future__ import annotations

from gnomon.vectors.encode import Corpus
from gnomon.vectors.negative_sampling import Learnt, learn
from gnomon.vectors.settings import Settings
from gnomon.vectors.workers import Watch, unwatched


def cbow(corpus: Corpus, settings: Settings, *, watch: Watch = unwatched) -> Learnt:
    """Learn by CBOW; see `negative_sampling.learn`."""
    return learn(corpus, settings, mean=True, watch=watch)
