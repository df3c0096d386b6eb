"""`gnomon vectors train` and `gnomon vectors convert`: learn word vectors, and put them into other formats."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.console import RenderableType

from gnomon.errors import GnomonError
from gnomon.reporting.console import Console, Tick
from gnomon.vectors.interchange import FORMATS, read_vectors, write_vectors
from gnomon.vectors.keyed import TableName, WordVectors
from gnomon.vectors.settings import Settings
from gnomon.vectors.training import Segment, TrainingInterrupted, as_source, read, read_tokenizer, train
from gnomon.vectors.workers import Progress, Watch

_UNITS = {"reading": "words", "training": "", "counting": "words", "factorising": "products"}


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Learn word vectors from raw text: one sentence or document a line, words parted by white space.

    Ctrl-C saves what has been learnt so far.
    """

    text: tuple[Path, ...]
    """Text files, .jsonl files, either as .gz, folders of them, or - for standard input."""
    _: KW_ONLY
    tokenizer: Path | None = None
    """A tokenizer.json, or a folder with one: vectors of its tokens instead of words (Chinese, subwords)."""
    segment: Segment = "words"
    """words: parted by white space. chars: every character is a word."""
    encoding: str | None = None
    """The files' encoding. Default: UTF-8, or UTF-16 where a byte order mark says so."""
    text_field: str = "text"
    """The field of .jsonl lines that holds the text."""
    out: Path | None = None
    """The folder to write. Default: runs/vectors-TEXT."""
    precision: Literal["float32", "float16"] = "float32"
    """How numbers are stored; float16 halves the folder."""
    overwrite: bool = False
    """Replace a folder that is there already."""
    dry_run: bool = False
    """Read and count the text, say what would be learnt, and stop."""

    def settings(self) -> Settings:
        """The part that is about learning."""
        return Settings(**{item.name: getattr(self, item.name) for item in dataclasses.fields(Settings)})


@dataclass(frozen=True)
class TrainResult:
    """Where the vectors are and how they were learnt."""

    path: Path | None
    figures: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The path and every figure."""
        return {"path": None if self.path is None else str(self.path), **self.figures}

    def shown(self) -> RenderableType:
        """What there is, and what to ask it."""
        found = self.figures
        counted = f"{found['vocabulary']:,} words of {found['words_read']:,} read"
        if self.path is None:
            return f"would learn {counted}: {found['memory_mb']:,.0f} MB of tables"
        loss = "" if found["loss"] is None else f", loss {found['loss']:.4f}"
        return (
            f"{counted}, {found['size']} numbers each{loss}, {found['seconds']:.1f} s; in {self.path}\n"
            f"go on with: gnomon vectors nearest {self.path} {found['example']}"
        )


def run_train(config: TrainConfig, console: Console | None = None) -> TrainResult:
    """Learn and save. Raises KeyboardInterrupt after saving when it was interrupted while learning."""
    console = console or Console(quiet=True)
    settings = config.settings()
    first = config.text[0] if config.text else Path()
    out = config.out or Path("runs") / f"vectors-{first.name.split('.')[0] or 'text'}"
    if out.exists() and not (config.overwrite or config.dry_run):
        raise GnomonError(f"{out} exists already", "give --overwrite to replace it, or another --out")
    if config.dry_run:
        return _plan(config, settings)
    started = time.perf_counter()
    arguments = {item.name: getattr(settings, item.name) for item in dataclasses.fields(Settings)}
    with _Stages(console) as stages:
        try:
            vectors = train(
                config.text, **arguments, tokenizer=config.tokenizer, segment=config.segment,
                encoding=config.encoding, text_field=config.text_field, out=out, precision=config.precision,
                watch=stages.watch,
            )  # fmt: skip
        except TrainingInterrupted:
            console.warn(f"interrupted; what was learnt so far is in {out}")
            raise
    return TrainResult(out, _figures(vectors) | {"seconds": time.perf_counter() - started})


def _plan(config: TrainConfig, settings: Settings) -> TrainResult:
    tokenizer = None if config.tokenizer is None else read_tokenizer(config.tokenizer)
    source = as_source(config.text, encoding=config.encoding, text_field=config.text_field)
    corpus = read(source, settings, tokenizer=tokenizer, segment=config.segment)
    words = len(corpus.vocabulary)
    tables = 1 if settings.shared_table else 2
    figures = {
        "vocabulary": words,
        "words_read": corpus.words_read,
        "memory_mb": tables * 4 * words * settings.size / 1e6,
    }
    return TrainResult(None, figures)


def _figures(vectors: WordVectors) -> dict[str, Any]:
    example = next((word for word in vectors.words if len(word) > 4), vectors.words[0])
    return {"vocabulary": len(vectors), "example": example, **vectors.details}


@dataclass(frozen=True)
class ConvertConfig:
    """Write word vectors in another format: word2vec's (text or binary), GloVe's, our own folder, or a static model."""

    vectors: Path
    """A folder of word vectors, or a file of word2vec's or GloVe's."""
    out: Path
    """The file or folder to write."""
    _: KW_ONLY
    to: Literal["word2vec", "word2vec-binary", "glove", "gnomon", "static"] = "gnomon"
    """The format. static: a model folder that `gnomon tune` and `--student static --vectors` start from."""
    table: TableName | None = None
    """input, output or their sum. Default: the one that the vectors name."""
    precision: Literal["float32", "float16"] = "float32"
    """How numbers are stored in a folder of our own."""


@dataclass(frozen=True)
class ConvertResult:
    """What was written."""

    path: Path
    words: int
    to: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"path": str(self.path), "words": self.words, "to": self.to}

    def shown(self) -> RenderableType:
        """One sentence."""
        return f"{self.words:,} words in {self.path} ({self.to})"


def run_convert(config: ConvertConfig, console: Console | None = None) -> ConvertResult:
    """Read, choose the table, write."""
    vectors = read_vectors(config.vectors)
    if config.table is not None:
        vectors = vectors.using(config.table)
    if config.to in FORMATS:
        write_vectors(vectors, config.out, format=config.to)
    elif config.to == "gnomon":
        vectors.save(config.out, precision=config.precision)
    else:
        from gnomon.vectors.static_model import write_static_model

        write_static_model(vectors, config.out)
    return ConvertResult(config.out, len(vectors), config.to)


@dataclass
class _Stages:
    """The console's stages, opened and closed as the training tells of them."""

    console: Console
    _open: Any = None
    _name: str = ""
    _tick: Tick = field(default=lambda done, total, note: None)

    def __enter__(self) -> _Stages:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._open is not None:
            self._open.__exit__(*error)

    @property
    def watch(self) -> Watch:
        """What training calls."""
        return self._told

    def _told(self, progress: Progress) -> None:
        if progress.stage != self._name:
            if self._open is not None:
                self._open.__exit__(None, None, None)
            self._name = progress.stage
            self._open = self.console.stage(progress.stage)
            self._tick = self._open.__enter__()
        note = f"{progress.per_second / 1e6:.2f} M/s" if progress.per_second > 1000 else ""
        self._tick(
            progress.done, progress.total, note if progress.loss is None else f"{note}, loss {progress.loss:.3f}"
        )
