"""`gnomon prepare TEXT... --tokenizer T --out DIR`: raw text to token shards that `gnomon pretrain` reads."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from gnomon.errors import GnomonError
from gnomon.recipes.tokenizer import open_tokenizer
from gnomon.reporting.console import Console
from gnomon.text.documents import text_size, typed_separator
from gnomon.text.prepare import Layout, prepare
from gnomon.text.shards import TokenData


@dataclass(frozen=True)
class Config:
    """Turn raw text into token shards: documents kept apart, some of them set aside to validate on, duplicates counted.

    Memory is bounded however much text there is. The folder appears whole or not at all.
    """

    text: tuple[Path, ...]
    """Text files, .jsonl files, either as .gz, folders of them, or - for standard input."""
    _: KW_ONLY
    tokenizer: Path
    """A folder with a tokenizer (gnomon tokenizer train makes one; any model folder holds one)."""
    out: Path
    """The folder to write."""
    valid: tuple[Path, ...] = ()
    """Text to validate on (may be given several times). Default: a share of the documents, by a hash of each."""
    valid_share: float = 0.05
    """That share."""
    separator: str | None = None
    """What parts a file into documents, such as "\\n". Default: a file is one document."""
    text_field: str = "text"
    """The field of .jsonl lines that holds the text."""
    encoding: str | None = None
    """The files' encoding. Default: UTF-8, or UTF-16 where a byte order mark says so."""
    drop_duplicates: bool = False
    """Leave out documents seen before, and those that validation holds too."""
    overwrite: bool = False
    """Replace prepared tokens that are in the folder already."""


@dataclass(frozen=True)
class PrepareResult:
    """What was written."""

    data: TokenData
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Tokens, documents and bytes of both parts, and what was found on the way."""
        parts = {"train": self.data.train, "valid": self.data.valid}
        return {
            "path": str(self.data.path),
            "tokenizer": self.data.fingerprint,
            "vocab_size": self.data.vocab_size,
            **{
                name: {"documents": p.documents, "tokens": p.tokens, "bytes": p.bytes, "unknown": p.unknown}
                for name, p in parts.items()
            },
            **self.data.facts,
            "seconds": self.seconds,
        }

    def shown(self) -> RenderableType:
        """A line a part, and how to go on."""
        parts = {"train": self.data.train, "valid": self.data.valid}
        lines = [
            f"{name}: {part.documents:,} documents, {part.tokens:,} tokens, {part.bytes / 1e6:,.1f} MB of text"
            + (f", {part.unknown:,} unknown tokens" if part.unknown else "")
            for name, part in parts.items()
        ]
        megabytes = sum(part.bytes for part in parts.values()) / 1e6
        lines.append(f"in {self.data.path}, at {megabytes / self.seconds:,.1f} MB a second")
        return "\n".join([*lines, f"go on with: gnomon pretrain --data {self.data.path}"])


def run(config: Config, console: Console | None = None) -> PrepareResult:
    """Prepare. Raises GnomonError for text that cannot be read or divided, and for a folder in use."""
    console = console or Console(quiet=True)
    tokenizer = open_tokenizer(config.tokenizer)
    for decision in tokenizer.decisions:
        console.say(f"  {decision}")
    if config.valid and set(config.valid) & set(config.text):
        raise GnomonError("a file is to be trained on and validated on", "name different files with --valid")
    layout = Layout(
        separator=typed_separator(config.separator),
        text_field=config.text_field,
        encoding=config.encoding,
        valid_share=config.valid_share,
        drop_duplicates=config.drop_duplicates,
    )
    total = text_size((*config.text, *config.valid)) or 0
    started = time.perf_counter()
    with console.stage("prepare") as tick:
        data = prepare(
            config.text,
            config.out,
            tokenizer=tokenizer,
            valid=config.valid,
            layout=layout,
            overwrite=config.overwrite,
            progress=lambda text, tokens: tick(min(text, total or text), total or text, f"{tokens:,} tokens"),
        )
    _tell(data, console)
    return PrepareResult(data, time.perf_counter() - started)


def _tell(data: TokenData, console: Console) -> None:
    """Say what a person should know of the text before anything is learnt from it."""
    facts = data.facts
    what = "left out" if facts["dropped"] else "kept; --drop-duplicates leaves them out"
    if facts["duplicates"]:
        console.warn(f"{facts['duplicates']:,} documents are duplicates ({what})")
    if facts["in_both"]:
        console.warn(f"{facts['in_both']:,} documents to train on stand in the validation text too ({what})")
    for name, part in (("train", data.train), ("valid", data.valid)):
        if part.unknown > 0.001 * part.tokens:
            console.warn(
                f"{part.unknown / part.tokens:.1%} of the {name} tokens are unknown to the tokenizer; "
                "a byte-bpe tokenizer knows every text"
            )
