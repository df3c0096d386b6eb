"""`train`: text in, word vectors out, whichever the method."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gnomon.errors import GnomonError, require
from gnomon.text.tokenizer import Tokenizer
from gnomon.vectors.keyed import TableName, WordVectors
from gnomon.vectors.settings import Method, Settings
from gnomon.vectors.source import Files, Lines, Source
from gnomon.vectors.workers import Watch, unwatched

if TYPE_CHECKING:
    from gnomon.vectors.encode import Corpus
    from gnomon.vectors.negative_sampling import Learnt

Segment = Literal["words", "chars"]


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training: `vectors` are what had been learnt, saved already where a place was given."""

    def __init__(self, vectors: WordVectors) -> None:
        super().__init__()
        self.vectors = vectors


def train(
    text: Source | Path | str | Sequence[Path | str],
    *,
    method: Method = "skipgram",
    size: int = 100,
    window: int = 5,
    negatives: int = 5,
    subsample: float = 1e-4,
    min_count: int = 5,
    epochs: int | None = None,
    learning_rate: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    shared_table: bool = False,
    deterministic: bool = False,
    tokenizer: Path | str | None = None,
    segment: Segment = "words",
    encoding: str | None = None,
    text_field: str = "text",
    out: Path | str | None = None,
    precision: Literal["float32", "float16"] = "float32",
    watch: Watch = unwatched,
) -> WordVectors:
    """Learn word vectors from text files, folders, "-" (standard input) or `Lines` in memory.

    Most arguments are fields of `Settings`. Words are parted by white space; `segment="chars"` takes single
    characters, and `tokenizer` (a tokenizer.json or a folder with one) its tokens. With `out` the vectors are saved
    there. Ctrl-C while vectors are being learnt raises TrainingInterrupted, which holds them.
    Raises GnomonError for text or settings from which nothing can be learnt.
    """
    settings = Settings(
        method=method, size=size, window=window, negatives=negatives, subsample=subsample, min_count=min_count,
        epochs=epochs, learning_rate=learning_rate, threads=threads, seed=seed, shared_table=shared_table,
        deterministic=deterministic,
    )  # fmt: skip
    for package in ("numba", "scipy"):
        require(package, extra="vectors", purpose="learning word vectors")
    if tokenizer is not None and segment != "words":
        raise GnomonError("a tokenizer and --segment are two ways to part a text", "give one of them")
    pieces = None if tokenizer is None else read_tokenizer(Path(tokenizer))
    folder = None if out is None else _existing_parent(Path(out))
    source = as_source(text, encoding=encoding, text_field=text_field)
    corpus = read(source, settings, tokenizer=pieces, segment=segment, folder=folder, watch=watch)
    learnt = _learner(method)(corpus, settings, watch=watch)
    vectors = _as_vectors(corpus, learnt, settings, pieces, segment)
    if out is not None:
        vectors.save(out, precision=precision)
    if learnt.interrupted:
        raise TrainingInterrupted(vectors)
    return vectors


def as_source(
    text: Source | Path | str | Sequence[Path | str], *, encoding: str | None = None, text_field: str = "text"
) -> Source:
    """One path, several, or a source as it is."""
    if isinstance(text, Lines | Files):
        return text
    return Files([text] if isinstance(text, str | Path) else list(text), encoding, text_field)


def read(
    source: Source,
    settings: Settings,
    *,
    tokenizer: Tokenizer | None = None,
    segment: Segment = "words",
    folder: Path | None = None,
    watch: Watch = unwatched,
) -> Corpus:
    """Read, count and encode a text as `train` does."""
    from gnomon.vectors.encode import encode
    from gnomon.vectors.workers import Meter

    meter = Meter("reading", 0, watch)
    return encode(
        source,
        min_count=settings.min_count,
        by_character=segment == "chars",
        tokenizer=tokenizer,
        folder=folder,
        on_words=lambda words: meter.tell(words, 0.0, 0.0),
    )


def read_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json, or the tokenizer of a folder."""
    if path.is_dir():
        return Tokenizer.from_dir(path)
    if not path.is_file():
        raise GnomonError(f"there is no tokenizer {path}", "name a tokenizer.json or a folder that holds one")
    return Tokenizer.from_json(path.read_text(encoding="utf-8", errors="replace"))


def _learner(method: Method) -> Callable[..., Learnt]:
    """The function of a method; its module is imported now, and compiles when it is called."""
    import importlib

    found: Callable[..., Learnt] = getattr(importlib.import_module(f"gnomon.vectors.{method}"), method)
    return found


def _existing_parent(out: Path) -> Path:
    """The folder that `out` will be in, made where it is not there yet: the word ids go there, for there is room."""
    from gnomon.formats.files import explained

    with explained(out.parent, doing="make the folder"):
        out.parent.mkdir(parents=True, exist_ok=True)
    return out.parent


def _as_vectors(
    corpus: Corpus, learnt: Learnt, settings: Settings, tokenizer: Tokenizer | None, segment: Segment
) -> WordVectors:
    for name, numbers in {"input": learnt.input, "output": learnt.output}.items():
        if numbers is not None and not np.isfinite(numbers).all():
            raise GnomonError(
                f"the training diverged: the {name} table holds numbers that are not finite",
                f"give a lower --learning-rate than {settings.used_rate}",
            )
    details: dict[str, Any] = dataclasses.asdict(settings) | {
        "epochs": settings.used_epochs,
        "learning_rate": settings.used_rate,
        "threads": settings.used_threads,
        "text": "tokens" if tokenizer is not None else segment,
        "words_read": corpus.words_read,
        "sentences": corpus.sentences,
        "interrupted": learnt.interrupted,
        "loss": learnt.loss,
    }
    table: TableName = "sum" if settings.method == "glove" else "input"
    vocabulary = corpus.vocabulary
    json_text = None if tokenizer is None else tokenizer.to_json()
    return WordVectors(vocabulary.words, learnt.input, learnt.output, vocabulary.counts, table, details, json_text)
