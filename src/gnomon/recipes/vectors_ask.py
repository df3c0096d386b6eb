"""`gnomon vectors nearest, analogy, similarity, evaluate, project`: ask word vectors, measure them, draw them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from gnomon.errors import GnomonError
from gnomon.formats.files import write_text
from gnomon.reporting.console import Console
from gnomon.vectors.benchmarks import Comparable, Pairs, Questions, Score, evaluate, packaged_sets, read_set
from gnomon.vectors.interchange import read_vectors
from gnomon.vectors.keyed import TableName, WordVectors
from gnomon.vectors.projection import Projection, as_svg, neighbourhoods, project


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What every question shares."""

    table: TableName | None = None
    """input, output or their sum. Default: the one that the vectors name."""


def _open(path: Path, asked: _Asked) -> WordVectors:
    vectors = read_vectors(path)
    return vectors if asked.table is None else vectors.using(asked.table)


@dataclass(frozen=True)
class Neighbours:
    """Words and their cosines, for each question asked."""

    found: dict[str, list[tuple[str, float]]]

    def to_dict(self) -> dict[str, Any]:
        """Question to [word, cosine] pairs."""
        return {question: [list(pair) for pair in pairs] for question, pairs in self.found.items()}

    def shown(self) -> RenderableType:
        """A table a question."""
        tables = []
        for question, pairs in self.found.items():
            table = Table(question, "cosine")
            for word, cosine in pairs:
                table.add_row(word, f"{cosine:.4f}")
            tables.append(table)
        return Group(*tables)


@dataclass(frozen=True)
class NearestConfig(_Asked):
    """The words whose vectors are nearest to a word's."""

    vectors: Path
    """A folder of word vectors, or a file of word2vec's or GloVe's."""
    words: tuple[str, ...]
    """The words to ask about."""
    _: KW_ONLY
    count: int = 10
    """Neighbours of each."""


def run_nearest(config: NearestConfig, console: Console | None = None) -> Neighbours:
    """Raises GnomonError for an unknown word, with the nearest spelling."""
    vectors = _open(config.vectors, config)
    if not config.words:
        raise GnomonError("no word is asked about", "name one or more")
    return Neighbours({word: vectors.nearest(word, count=config.count) for word in config.words})


@dataclass(frozen=True)
class AnalogyConfig(_Asked):
    """What is to C as B is to A."""

    vectors: Path
    """A folder of word vectors, or a file of word2vec's or GloVe's."""
    a: str
    """As in "man"."""
    b: str
    """As in "king"."""
    c: str
    """As in "woman"."""
    _: KW_ONLY
    count: int = 5
    """Answers, the best first."""


def run_analogy(config: AnalogyConfig, console: Console | None = None) -> Neighbours:
    """Raises GnomonError for an unknown word, with the nearest spelling."""
    found = _open(config.vectors, config).analogy(config.a, config.b, config.c, count=config.count)
    return Neighbours({f"{config.a} : {config.b} = {config.c} : ?": found})


@dataclass(frozen=True)
class SimilarityConfig(_Asked):
    """The cosine of two words' vectors."""

    vectors: Path
    """A folder of word vectors, or a file of word2vec's or GloVe's."""
    first: str
    """One word."""
    second: str
    """The other."""


@dataclass(frozen=True)
class Similarity:
    """How alike two words are."""

    first: str
    second: str
    cosine: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"first": self.first, "second": self.second, "cosine": self.cosine}

    def shown(self) -> RenderableType:
        """The figure."""
        return f"{self.cosine:.4f}"


def run_similarity(config: SimilarityConfig, console: Console | None = None) -> Similarity:
    """Raises GnomonError for an unknown word, with the nearest spelling."""
    cosine = _open(config.vectors, config).similarity(config.first, config.second)
    return Similarity(config.first, config.second, cosine)


@dataclass(frozen=True)
class EvaluateConfig(_Asked):
    """Measure word vectors: rank correlation with people's similarities, and the share of analogies answered."""

    vectors: Path
    """A folder of word vectors, or a file of word2vec's or GloVe's."""
    sets: tuple[Path, ...] = ()
    """Files of pairs or questions. Default: WordSim-353, SimLex-999 and Google's analogies from the package gensim."""
    _: KW_ONLY
    baselines: tuple[Path, ...] = ()
    """Text to measure the baselines on, one-hot words and TF-IDF: the text that the vectors were learnt from."""


@dataclass(frozen=True)
class Scores:
    """What was measured, by what was measured: the vectors, and the baselines where they were asked for."""

    scores: dict[str, list[Score]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {name: [score.to_dict() for score in scores] for name, scores in self.scores.items()}

    def shown(self) -> RenderableType:
        """A row a set, with 95 % intervals."""
        table = Table("set", "measure", *self.scores, "rows used")
        for row in zip(*self.scores.values(), strict=True):
            first = row[0]
            measure = "Spearman" if first.kind == "similarity" else "answered"
            cells = [_cell(score) for score in row]
            table.add_row(first.name, measure, *cells, f"{first.used:,} of {first.total:,}")
        return table


def _cell(score: Score) -> str:
    if not np.isfinite(score.value):
        return "none to go by"
    scale, digits = (1, 3) if score.kind == "similarity" else (100, 1)
    value, low, high = (f"{scale * figure:.{digits}f}" for figure in (score.value, score.low, score.high))
    return f"{value} ({low} to {high})" + ("" if scale == 1 else " %")


def run_evaluate(config: EvaluateConfig, console: Console | None = None) -> Scores:
    """Raises GnomonError where there is nothing to measure with, or a file cannot be read."""
    console = console or Console(quiet=True)
    vectors = _open(config.vectors, config)
    sets: list[Pairs | Questions] = [read_set(path) for path in config.sets] or packaged_sets()
    if not sets:
        raise GnomonError("there is nothing to measure with", "name files of pairs or questions, or pip install gensim")
    measured: dict[str, Comparable] = {"vectors": vectors}
    if config.baselines:
        measured |= _baselines(config.baselines, vectors, console)
    return Scores({name: evaluate(one, sets) for name, one in measured.items()})


def _baselines(text: tuple[Path, ...], vectors: WordVectors, console: Console) -> dict[str, Comparable]:
    from gnomon.vectors.baselines import one_hot, tf_idf_vectors
    from gnomon.vectors.settings import Settings
    from gnomon.vectors.training import as_source, read

    details = vectors.details
    settings = Settings(min_count=details.get("min_count", 5))
    segment = details.get("text", "words")
    if segment == "tokens":
        raise GnomonError(
            "the baselines read words, and these vectors are of a tokenizer's tokens", "leave out --baselines"
        )
    corpus = read(as_source(list(text)), settings, segment=segment)
    return {"TF-IDF": tf_idf_vectors(corpus), "one-hot": one_hot(corpus.vocabulary.words)}


@dataclass(frozen=True)
class ProjectConfig(_Asked):
    """Draw a map of words as an SVG: words that stand near each other have similar vectors."""

    vectors: Path
    """A folder of word vectors, or a file of word2vec's or GloVe's."""
    words: tuple[str, ...] = ()
    """Words to draw with their neighbours. Default: the most frequent words."""
    _: KW_ONLY
    out: Path = field(default=Path("vectors.svg"))
    """The SVG to write."""
    method: Projection = "pca"
    """pca: the two main directions. tsne: neighbours stay neighbours (needs scikit-learn)."""
    count: int = 200
    """Words on the map, when none are named."""
    around: int = 12
    """Neighbours of each word that is named."""
    seed: int = 0
    """Seed of t-SNE."""


@dataclass(frozen=True)
class Map:
    """The map drawn."""

    path: Path
    words: int
    kept: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"path": str(self.path), "words": self.words, "variance_kept": self.kept}

    def shown(self) -> RenderableType:
        """One sentence."""
        kept = "" if self.kept is None else f", {100 * self.kept:.0f} % of the variance kept"
        return f"{self.words} words in {self.path}{kept}"


def run_project(config: ProjectConfig, console: Console | None = None) -> Map:
    """Project and draw."""
    vectors = _open(config.vectors, config)
    if config.words:
        groups = neighbourhoods(vectors, config.words, around=config.around)
    else:
        groups = dict.fromkeys(vectors.words[: config.count], 0)
    points, kept = project(vectors[list(groups)], method=config.method, seed=config.seed)
    title = f"{len(groups)} words of {config.vectors.name}, {'t-SNE' if config.method == 'tsne' else 'main directions'}"
    write_text(config.out, as_svg(points, groups, title=title))
    return Map(config.out, len(groups), kept)
