"""Skip-gram with negative sampling: each word of a window is told from random words by the word at its centre.

For a word c and a word w near it the loss is -log s(in_w . out_c) - sum over negatives n of log s(-in_w . out_n), with
s the sigmoid. As in word2vec's code the near word's input row meets the centre's output row; over a text this is the
same set of pairs as the other way round. One set of negatives serves the whole window, which is what makes it fast.
Source: Mikolov et al. 2013 (arXiv:1310.4546); Ji et al. 2016 (arXiv:1604.04661) for the shared negatives; D7 4 and 5.
"""

from __future__ import annotations

from gnomon.vectors.encode import Corpus
from gnomon.vectors.negative_sampling import Learnt, learn
from gnomon.vectors.settings import Settings
from gnomon.vectors.workers import Watch, unwatched


def skipgram(corpus: Corpus, settings: Settings, *, watch: Watch = unwatched) -> Learnt:
    """Learn by skip-gram; see `negative_sampling.learn`."""
    return learn(corpus, settings, mean=False, watch=watch)
