"""`gnomon tokenizer train` and `gnomon tokenizer compare`: learn one from raw text, set several side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import RenderableType
from rich.table import Table

from gnomon.errors import GnomonError
from gnomon.reporting.console import Console
from gnomon.runs import resolve_model
from gnomon.text.documents import documents, typed_separator
from gnomon.text.tokenizer import Tokenizer
from gnomon.text.tokenizer_compare import Compared, compare
from gnomon.text.tokenizer_training import save, train


@dataclass(frozen=True)
class TrainConfig:
    """Learn a tokenizer from raw text, in bounded memory however much there is."""

    text: tuple[Path, ...]
    """Text files, .jsonl files, either as .gz, folders of them, or - for standard input."""
    _: KW_ONLY
    out: Path
    """The folder to write tokenizer.json and tokenizer_config.json into."""
    kind: Literal["byte-bpe", "bpe", "wordpiece", "unigram", "characters"] = "byte-bpe"
    """byte-bpe can write any text; the others call a character unknown that the text did not hold."""
    size: int = 16_384
    """Tokens at most, special ones included."""
    lowercase: bool = False
    """With wordpiece: take capitals for small letters."""
    separator: str | None = None
    """What parts a file into documents, such as "\\n". Default: a file is one document."""
    text_field: str = "text"
    """The field of .jsonl lines that holds the text."""
    encoding: str | None = None
    """The files' encoding. Default: UTF-8, or UTF-16 where a byte order mark says so."""
    overwrite: bool = False
    """Replace a tokenizer that is in the folder already."""


@dataclass(frozen=True)
class TrainResult:
    """Where the tokenizer is and how well it does on the beginning of the text it was learnt from."""

    path: Path
    characters: int
    compared: Compared

    def to_dict(self) -> dict[str, Any]:
        """The path and every figure."""
        return {"path": str(self.path), "learnt_from_characters": self.characters, **_figures(self.compared)}

    def shown(self) -> RenderableType:
        """One sentence and how to go on."""
        total = self.compared.total
        return (
            f"{self.compared.vocab_size:,} tokens of {total.bytes_per_token:.2f} bytes each, learnt from "
            f"{self.characters:,} characters; in {self.path}\n"
            f"go on with: gnomon prepare TEXT --tokenizer {self.path} --out DIR"
        )


@dataclass(frozen=True)
class CompareConfig:
    """Set tokenizers side by side: how far each compresses text and what it does not know, by kind of text."""

    tokenizers: tuple[Path, ...]
    """Folders with a tokenizer (a model folder, a run), or tokenizer.json files."""
    _: KW_ONLY
    text: tuple[Path, ...] = ()
    """The text to compare them on (may be given several times). Default: a few built-in lines of each kind."""
    text_field: str = "text"
    """The field of .jsonl lines that holds the text."""
    encoding: str | None = None
    """The files' encoding. Default: UTF-8, or UTF-16 where a byte order mark says so."""


@dataclass(frozen=True)
class CompareResult:
    """Every tokenizer's figures."""

    compared: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"tokenizers": [{"name": one.name, **_figures(one)} for one in self.compared]}

    def shown(self) -> RenderableType:
        """A table with a row for each tokenizer and kind of text."""
        table = Table()
        for heading in ("tokenizer", "tokens", "text", "bytes a token", "tokens a character", "unknown", "restored"):
            table.add_column(heading, overflow="fold", justify="left" if heading in ("tokenizer", "text") else "right")
        for one in self.compared:
            for place, (kind, counts) in enumerate([("all", one.total), *one.kinds.items()]):
                named = (one.name, f"{one.vocab_size:,}") if not place else ("", "")
                table.add_row(
                    *named,
                    kind,
                    f"{counts.bytes_per_token:.2f}",
                    f"{counts.tokens_per_character:.2f}",
                    f"{counts.unknown_share:.2%}",
                    f"{counts.restored / max(1, counts.lines):.0%}",
                    style="" if place else "bold",
                )
        return table


def run_train(config: TrainConfig, console: Console | None = None) -> TrainResult:
    """Learn and save. Raises GnomonError for text that cannot be read and for a folder that holds a tokenizer."""
    console = console or Console(quiet=True)
    if (config.out / "tokenizer.json").exists() and not config.overwrite:
        raise GnomonError(f"{config.out} holds a tokenizer already", "choose another --out, or say --overwrite")
    with console.stage("learn the tokenizer"):
        trained = train(
            config.text,
            kind=config.kind,
            size=config.size,
            lowercase=config.lowercase,
            separator=typed_separator(config.separator),
            text_field=config.text_field,
            encoding=config.encoding,
        )
    for decision in trained.decisions:
        console.say(f"  {decision}")
    save(trained.tokenizer, config.out)
    files = tuple(path for path in config.text if str(path) != "-")
    with console.stage("try it"):
        sample = documents(files, text_field=config.text_field, encoding=config.encoding) if files else None
        (found,) = compare({str(config.out): trained.tokenizer}, sample, limit=200_000)
    return TrainResult(config.out, trained.characters, found)


def run_compare(config: CompareConfig, console: Console | None = None) -> CompareResult:
    """Compare. Raises GnomonError for what holds no tokenizer."""
    console = console or Console(quiet=True)
    if not config.tokenizers:
        raise GnomonError("no tokenizer is given", "gnomon tokenizer compare FOLDER...")
    opened = dict(_named(config.tokenizers))
    texts = documents(config.text, text_field=config.text_field, encoding=config.encoding) if config.text else None
    with console.stage("compare"):
        return CompareResult(tuple(compare(opened, texts)))


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a folder (a model's, a run's, one of its own) or of a tokenizer.json file."""
    return Tokenizer.from_dir(path.parent if path.name == "tokenizer.json" and path.is_file() else resolve_model(path))


def _named(paths: tuple[Path, ...]) -> Iterator[tuple[str, Tokenizer]]:
    for path in dict.fromkeys(paths):
        yield str(path), open_tokenizer(path)


def _figures(one: Compared) -> dict[str, Any]:
    kinds = {"all": one.total, **one.kinds}
    return {
        "vocab_size": one.vocab_size,
        "text": {
            kind: {
                "bytes_per_token": counts.bytes_per_token,
                "tokens_per_character": counts.tokens_per_character,
                "unknown_share": counts.unknown_share,
                "restored_share": counts.restored / max(1, counts.lines),
            }
            for kind, counts in kinds.items()
        },
    }
