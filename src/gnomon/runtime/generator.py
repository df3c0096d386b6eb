"""A language model ready to generate, opened from a deployed folder without torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.decoding.stepper import Stepper
from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.formats.modeldir import end_ids, gnomon_section, read_config
from gnomon.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class LanguageModel:
    """What generating needs: a stepper, its tokenizer, and the tokens that end a text (none: the tokenizer's own)."""

    path: Path
    stepper: Stepper
    tokenizer: Tokenizer
    end_ids: tuple[int, ...]


def generates(config: dict[str, Any]) -> bool:
    """Whether a config.json is that of a deployed language model."""
    section = gnomon_section(config)
    return isinstance(section.get("runtime"), str) and section.get("head", {}).get("kind") == "language"


def open_language_model(path: Path | str, *, threads: int | None = None) -> LanguageModel:
    """Open a folder that `gnomon export` wrote.

    `threads` None takes the count that was measured best when it was exported. Raises GnomonError when a file is
    missing or damaged, and when the tokenizer is not the one the model was exported with.
    """
    from gnomon.runtime.language import LanguageStepper, open_runtime

    folder = Path(path)
    config = read_config(folder)
    section = gnomon_section(config)
    if not generates(config):
        raise GnomonError(f"{folder} is no exported language model", "gnomon export MODEL --to onnx makes one")
    runtime = folder / str(section["runtime"])
    if folder.resolve() not in runtime.resolve().parents:
        raise GnomonError(f"{folder / 'config.json'}: the runtime {runtime} lies outside the folder", "export it again")
    if not runtime.is_file():
        raise GnomonError(f"{runtime} is missing, though config.json names it as the runtime", "export it again")
    _check_tokenizer(folder, section)
    model = open_runtime(runtime, threads=threads or int(section["threads"]))
    stepper = LanguageStepper(model, max_length=int(section["max_length"]))
    return LanguageModel(folder, stepper, Tokenizer.from_dir(folder), end_ids(folder, config))


def _check_tokenizer(folder: Path, section: dict[str, Any]) -> None:
    wanted = section.get("tokenizer_sha256")
    if wanted is None:
        return
    path = folder / "tokenizer.json"
    if not path.is_file() or files.sha256(path) != wanted:
        raise GnomonError(
            f"{path} is not the tokenizer that the model was exported with (its SHA-256 differs)",
            "restore the file from where it came: other ids mean other words",
        )
