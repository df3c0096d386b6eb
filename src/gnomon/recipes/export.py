"""`gnomon export MODEL --to onnx|gguf|huggingface --bits 32|8|4 --out DIR`: a language model for where it will run."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.console import RenderableType
from rich.text import Text

from gnomon.errors import GnomonError, require
from gnomon.formats.gguf import write_gguf
from gnomon.formats.gguf_models import Storage, to_gguf
from gnomon.formats.modeldir import read_config, read_model_dir, write_model_dir
from gnomon.recipes.language_models import as_folder
from gnomon.reporting.console import Console
from gnomon.text.corpus import read_texts
from gnomon.text.gguf_tokenizer import tokenizer_to_gguf
from gnomon.text.tokenizer import Tokenizer

_STORED = {32: "F32", 8: "Q8_0", 4: "Q4_0"}


@dataclass(frozen=True)
class Config:
    """Write a language model so that it runs elsewhere: as an onnx graph, without torch; in llama.cpp; in transformers.

    A graph with 8- or 4-bit weights is measured: parts keep more bits until its perplexity is within half a percent
    (8 bits) or five percent (4 bits) of that of the full weights, and what was kept is said.
    """

    model: str
    """A model folder, a run, a .gguf file, or "smollm2"."""
    _: KW_ONLY
    out: Path
    """The folder to write."""
    to: Literal["onnx", "gguf", "huggingface"] = "onnx"
    """onnx: for gnomon without torch; gguf: for llama.cpp; huggingface: a folder for transformers, in full width."""
    bits: Literal[32, 8, 4] | None = None
    """Bits of the weights: 32 (exact), 8 or 4. Default: 8, and 32 for huggingface."""
    text: Path | None = None
    """Text that narrow weights are made and measured on, of the kind the model will meet. Default: ours, or its own."""
    threads: int | None = None
    """Threads that the graph will use. Default: what measures quickest here."""
    max_length: int | None = None
    """The longest text the graph will read, in tokens. Default: the model's context."""
    overwrite: bool = False
    """Replace what is at --out."""


@dataclass(frozen=True)
class ExportResult:
    """What was written where; for a graph, what its weights cost."""

    path: Path
    kind: str
    bits: int
    size_bytes: int
    details: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "path": str(self.path),
            "to": self.kind,
            "bits": self.bits,
            "size_bytes": self.size_bytes,
            **self.details,
        }

    def shown(self) -> RenderableType:
        """What was written, in sentences."""
        lines = [f"{self.path}: {self.kind}, {self.bits} bits, {self.size_bytes / 1e6:.1f} MB"]
        if "perplexity_ratio" in self.details:
            ratio, tokens = self.details["perplexity_ratio"], self.details["checked_tokens"]
            lines.append(f"perplexity {ratio:.4f} times that of the full weights, on {tokens:,} tokens")
        wider = self.details.get("wider") or {}
        if wider:
            lines.append("wider, to stay within bounds: " + ", ".join(f"{part} {bits}" for part, bits in wider.items()))
        return Text("\n".join(lines))


def run(config: Config, console: Console | None = None) -> ExportResult:
    """Export. Raises GnomonError for models that the format cannot express, naming what in them."""
    console = console or Console(quiet=True)
    if config.out.exists() and not config.overwrite and (not config.out.is_dir() or any(config.out.iterdir())):
        raise GnomonError(f"{config.out} exists already", "give another --out, or --overwrite")
    if config.to == "huggingface" and config.bits not in (None, 32):
        raise GnomonError(
            "a Hugging Face folder is written in full width", "leave out --bits, or export to onnx or gguf"
        )
    with as_folder(config.model) as folder:
        if config.to == "gguf":
            return _gguf(folder, config)
        if config.to == "huggingface":
            return _hugging_face(folder, config)
        return _onnx(folder, config, console)


def _onnx(folder: Path, config: Config, console: Console) -> ExportResult:
    for module in ("torch", "onnx"):
        require(module, extra="train", purpose="export to onnx")
    from gnomon.deploy.language import export_language_model

    exported = export_language_model(
        folder,
        config.out,
        bits=config.bits or 8,
        rows=None if config.text is None else _rows(folder, config.text),
        threads=config.threads,
        max_length=config.max_length,
        say=console.say,
    )
    details = {
        "widths": exported.widths,
        "wider": exported.wider,
        "perplexity_ratio": exported.perplexity_ratio,
        "checked_tokens": exported.checked,
        "threads": exported.threads,
    }
    return ExportResult(config.out, "onnx", exported.bits, exported.size_bytes, details)


def _rows(folder: Path, text: Path) -> list[list[int]]:
    """The beginning of a text as rows of ids."""
    from gnomon.deploy.calibration import in_rows

    return in_rows(Tokenizer.from_dir(folder).encode("\n".join(read_texts(str(text)).texts)).ids)


def _gguf(folder: Path, config: Config) -> ExportResult:
    bits = config.bits or 8
    source, tokenizer = read_model_dir(folder), Tokenizer.from_dir(folder)
    storage = Storage(_STORED[bits])
    metadata, arrays = to_gguf(source.config, source.arrays, storage=storage, name=folder.name)
    metadata |= tokenizer_to_gguf(tokenizer, vocab_size=int(source.config["vocab_size"]))
    path = config.out if config.out.suffix == ".gguf" else config.out / f"model-{storage.name}.gguf"
    write_gguf(path, metadata=metadata, arrays=arrays, type_of=storage)
    return ExportResult(path, "gguf", bits, path.stat().st_size, {"type": storage.name})


def _hugging_face(folder: Path, config: Config) -> ExportResult:
    model_type = read_config(folder)["model_type"]
    if model_type.startswith("gnomon_"):
        raise GnomonError(
            f"{folder} is of the type {model_type}, which transformers does not have",
            "gnomon pretrain saves what transformers can express as its type: --preset standard is one",
        )
    source, tokenizer = read_model_dir(folder), Tokenizer.from_dir(folder)
    plain = {key: value for key, value in source.config.items() if key != "gnomon"} | {"dtype": "float32"}
    generation = folder / "generation_config.json"
    write_model_dir(
        config.out,
        config=plain,
        arrays={name: source.arrays[name] for name in source.arrays},
        tokenizer_json=tokenizer.to_json(),
        tokenizer_config=tokenizer.config,
        card=f"# {folder.name}\n\nWritten by `gnomon export --to huggingface`.\n",
        extras={generation.name: generation.read_bytes()} if generation.is_file() else {},
    )
    size = sum(file.stat().st_size for file in config.out.rglob("*") if file.is_file())
    return ExportResult(config.out, "huggingface", 32, size, {"model_type": model_type})
