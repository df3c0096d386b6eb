"""Opening whatever names a language model: a deployed folder, a model folder or run, a .gguf file, the built-in one."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.errors import GnomonError, require
from gnomon.formats import files
from gnomon.formats.gguf import GgufFile, read_gguf
from gnomon.formats.gguf_models import from_gguf
from gnomon.formats.modeldir import read_config, write_model_dir
from gnomon.recipes.smollm2 import NAME, smollm2
from gnomon.reporting.console import Console
from gnomon.runs import resolve_model
from gnomon.runtime.generator import LanguageModel, generates, open_language_model
from gnomon.text.gguf_tokenizer import tokenizer_from_gguf

if TYPE_CHECKING:
    from gnomon.models.base import Model

_PATIENCE = 3.0  # seconds
_CACHED_BITS = 8  # of the graph that is made of a GGUF file: within half a percent of its own perplexity


def open_model(name: str, *, threads: int | None = None, console: Console | None = None) -> LanguageModel:
    """Open a language model by its path or name.

    A folder that `gnomon export` wrote runs without torch. Any other model folder runs through torch. Of a GGUF file
    a graph is made once, with 8-bit weights, and kept in the user's cache. Raises GnomonError for what is missing,
    damaged or no language model.
    """
    console = console or Console(quiet=True)
    if is_gguf(name):
        return _open_exported(_cached(gguf_path(name), console), threads, console)
    folder = resolve_model(name)
    if generates(read_config(folder)):
        return _open_exported(folder, threads, console)
    model = load_through_torch(folder, threads=threads)
    from gnomon.models.stepper import TorchStepper, lay_out_for_steps

    return LanguageModel(folder, TorchStepper(lay_out_for_steps(model)), model.tokenizer, model.end_ids)


def _open_exported(folder: Path, threads: int | None, console: Console) -> LanguageModel:
    """Open a folder, with a word where that takes long."""
    sentence = "opening the model; the first time, its kernels are compiled for this processor (about ten seconds)"
    patience = threading.Timer(_PATIENCE, console.say, (sentence,))
    patience.start()
    try:
        return open_language_model(folder, threads=threads)
    finally:
        patience.cancel()


def load_through_torch(folder: Path, *, threads: int | None) -> Model:
    """The language model of a folder that is not exported. Raises GnomonError without torch, and for what is none."""
    require("torch", extra="train", purpose=f"{folder}, which is not exported,")
    import torch

    from gnomon.models.folders import load_language_model

    if threads is not None:
        torch.set_num_threads(threads)
    return load_language_model(folder)


def is_gguf(name: str | Path) -> bool:
    """Whether `name` means a GGUF file, the built-in model among them."""
    return _built_in(name) or Path(name).suffix == ".gguf"


def gguf_path(name: str | Path) -> Path:
    """The GGUF file that `name` means."""
    return smollm2() if _built_in(name) else Path(name)


@contextlib.contextmanager
def as_folder(name: str) -> Iterator[Path]:
    """The model folder that `name` means; of a GGUF file a Hugging Face folder in a temporary place, in full width."""
    if not is_gguf(name):
        yield resolve_model(name)
        return
    with tempfile.TemporaryDirectory(prefix="gnomon-") as temporary:
        folder = Path(temporary) / gguf_path(name).stem
        write_gguf_as_folder(read_gguf(gguf_path(name)), folder)
        yield folder


def write_gguf_as_folder(file: GgufFile, folder: Path) -> None:
    """A GGUF file's model as a Hugging Face folder of float32."""
    config, arrays = from_gguf(file)
    tokenizer = tokenizer_from_gguf(file.metadata)
    stored = ", ".join(f"{count} {kind}" for kind, count in file.types().items())
    write_model_dir(
        folder,
        config=config,
        arrays={name: arrays[name] for name in arrays},
        tokenizer_json=tokenizer.to_json(),
        tokenizer_config=tokenizer.config,
        card=f"# {file.path.stem}\n\nMade by gnomon from a GGUF file whose tensors were {stored}.\n",
    )


def _built_in(name: str | Path) -> bool:
    return str(name) == NAME and not Path(name).exists()


def _cached(file: Path, console: Console) -> Path:
    """The exported folder of a GGUF file, made when it is not there yet."""
    if not file.is_file():
        raise GnomonError(f"there is no file {file}", "check the path")
    folder = _cache() / f"{file.stem}-{files.sha256(file)[:16]}-{_CACHED_BITS}bit"
    if (folder / "config.json").is_file():
        return folder
    for module in ("torch", "onnx"):
        require(module, extra="train", purpose="a GGUF file, of which a graph is made at first,")
    from gnomon.deploy.language import export_language_model

    console.say(f"making a graph with {_CACHED_BITS}-bit weights of {file.name}, once: it is kept in {_cache()}")
    with as_folder(str(file)) as source:
        export_language_model(source, folder, bits=_CACHED_BITS, say=console.say)
    return folder


def _cache() -> Path:
    """GNOMON_CACHE, or gnomon's folder among the user's caches."""
    given = os.environ.get("GNOMON_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(home) / "gnomon"
