"""What can be set about learning word vectors, and which settings make no sense."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

from gnomon.errors import GnomonError

Method = Literal["skipgram", "cbow", "glove", "ppmi", "lsa"]
METHODS: tuple[Method, ...] = ("skipgram", "cbow", "glove", "ppmi", "lsa")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How word vectors are learnt."""

    method: Method = "skipgram"
    """skipgram or cbow (predicted, with negative sampling), ppmi or lsa (counted), or glove (both)."""
    size: int = 100
    """Numbers in a vector."""
    window: int = 5
    """Words on each side that count as near."""
    negatives: int = 5
    """Random words set against each word (skipgram, cbow)."""
    subsample: float = 1e-4
    """Words with a larger share of the text are dropped now and then, the more often the larger; 0 keeps all
    (skipgram, cbow)."""
    min_count: int = 5
    """Words that occur more rarely are left out."""
    epochs: int | None = None
    """Passes over the text, or over the co-occurrences for glove. Default: 5, and 15 for glove."""
    learning_rate: float | None = None
    """At the start; it falls evenly to a 250th (skipgram, cbow). Default: 0.025, and 0.05 for glove."""
    threads: int | None = None
    """Threads. Default: every processor this process may use."""
    seed: int = 0
    """One thread gives the same vectors for the same seed, bit for bit; so do more with `deterministic`."""
    shared_table: bool = False
    """One table for words and for what is predicted, instead of two (skipgram, cbow)."""
    deterministic: bool = False
    """Make skipgram and cbow give the same vectors every time at the same thread count, at some cost in speed:
    each thread trains a copy of its own, and the copies are joined every so often. Otherwise several threads write to
    the same tables unguarded (Hogwild), and each run differs a little. glove, ppmi and lsa are always deterministic."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise GnomonError(f"there is no method {self.method!r}", f"expected one of: {', '.join(METHODS)}")
        for name, low, high in (
            ("size", 1, 65_536), ("window", 1, 1000), ("negatives", 1, 1000), ("min_count", 1, None),
            ("epochs", 1, None), ("threads", 1, 1024), ("learning_rate", 1e-9, 10), ("subsample", 0, 1),
            ("seed", 0, None),
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and (value < low or (high is not None and value > high)):
                limit = f"from {low} to {high}" if high is not None else f"{low} or more"
                raise GnomonError(f"{name.replace('_', ' ')} is {value}", f"give a number {limit}")

    @property
    def used_threads(self) -> int:
        """The threads to use: those asked for, or as many as this process has processors."""
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def used_epochs(self) -> int:
        """Passes to make."""
        return self.epochs or (15 if self.method == "glove" else 5)

    @property
    def used_rate(self) -> float:
        """The learning rate to start with."""
        return self.learning_rate or (0.05 if self.method == "glove" else 0.025)
