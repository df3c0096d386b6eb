"""A model folder as arrays and JSON: config.json, model.safetensors, tokenizer.json and the card.

The only reader and writer of model folders. Pickles are refused, never opened: they can run code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.formats.arrays import LazyArrays, read_arrays, read_sharded, to_bytes

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLE_ENDINGS = frozenset({".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib"})
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class ModelDir:
    """One model folder: its config.json, and its arrays, which are read when they are asked for."""

    path: Path
    config: dict[str, Any]
    arrays: LazyArrays

    @property
    def model_type(self) -> str:
        """Hugging Face's `model_type`, or one of ours (`gnomon_...`)."""
        return str(self.config["model_type"])

    @property
    def gnomon(self) -> dict[str, Any]:
        """Our own section of config.json; empty in a folder that gnomon did not write."""
        return gnomon_section(self.config)


def read_model_dir(path: Path | str) -> ModelDir:
    """Read a model folder.

    Raises GnomonError when it is missing, is no model folder, holds only pickled weights (with the steps
    that convert them), or when a weight file is truncated or does not match its header.
    """
    folder = Path(path)
    config = read_config(folder)
    if (folder / WEIGHTS).exists():
        return ModelDir(folder, config, read_arrays(folder / WEIGHTS))
    if (folder / INDEX).exists():
        return ModelDir(folder, config, read_sharded(folder / INDEX))
    pickles = sorted(item for item in folder.iterdir() if item.suffix in _PICKLE_ENDINGS and is_pickle(item))
    if pickles:
        raise _pickle_error(pickles[0])
    raise GnomonError(f"{folder} has no weights: neither {WEIGHTS} nor {INDEX}", "download the weights into it")


def read_config(path: Path | str) -> dict[str, Any]:
    """The config.json of a model folder, known to name its `model_type`."""
    folder = Path(path)
    if folder.is_file():
        raise _file_error(folder)
    if not folder.exists():
        raise GnomonError(f"there is no model folder {folder}", "check the path")
    if not (folder / "config.json").exists():
        raise GnomonError(
            f"{folder} is not a model folder: it has no config.json",
            "name the folder that holds config.json, model.safetensors and tokenizer.json",
        )
    config = files.read_json(folder / "config.json")
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise GnomonError(
            f"{folder / 'config.json'} does not say which model it is: it has no model_type",
            'add it, for instance "model_type": "bert"',
        )
    if not isinstance(config.get("gnomon", {}), dict):
        raise GnomonError(f"{folder / 'config.json'}: the value of gnomon is not an object", "restore the file")
    return config


def resolve(name: Path | str) -> Path:
    """The folder a model's name stands for: the folder itself, or a copy of a Hugging Face hub repository.

    A hub name ("org/name") is looked up where no such folder exists, if huggingface_hub is installed: JSON, text
    and safetensors files only. Raises GnomonError when it cannot be had, saying how else.
    """
    folder = Path(name)
    if folder.exists():
        return folder
    if not _HUB_NAME.fullmatch(str(name)):
        raise GnomonError(f"there is no model folder {folder}", "check the path")
    by_hand = "or download config.json, tokenizer.json and model.safetensors into a folder and name the folder"
    try:
        from huggingface_hub import snapshot_download
    except ModuleNotFoundError as error:
        raise GnomonError(
            f"there is no folder {name}, and to look it up on the Hugging Face hub huggingface_hub is needed",
            f"pip install huggingface_hub, {by_hand}",
        ) from error
    try:
        return Path(snapshot_download(str(name), allow_patterns=["*.json", "*.txt", "*.safetensors"]))
    except Exception as error:  # the hub's client raises its HTTP library's own errors, which differ by version
        raise GnomonError(
            f"there is no folder {name}, and the Hugging Face hub did not give it: {_first_line(error)}",
            f"check the name and the connection, {by_hand}",
        ) from error


def write_model_dir(
    path: Path | str,
    *,
    config: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    tokenizer_json: str | None,
    tokenizer_config: Mapping[str, Any],
    card: str,
    extras: Mapping[str, bytes] | None = None,
) -> None:
    """Write a whole model folder, or leave what was there as it was.

    `extras` are further files by their path inside the folder.
    """
    with files.new_directory(Path(path)) as folder:
        (folder / "config.json").write_text(_json(config), encoding="utf-8")
        (folder / WEIGHTS).write_bytes(to_bytes(arrays))
        if tokenizer_json is not None:
            (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")
            (folder / "tokenizer_config.json").write_text(_json(tokenizer_config), encoding="utf-8")
        (folder / "README.md").write_text(card, encoding="utf-8")
        for name, data in (extras or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


def gnomon_section(config: Mapping[str, Any]) -> dict[str, Any]:
    """Our own section of a config.json; empty in one that gnomon did not write."""
    return dict(config.get("gnomon", {}))


def update_gnomon_section(path: Path | str, **fields: Any) -> None:
    """Set `fields` in the "gnomon" section of a folder's config.json, atomically; the rest stays."""
    config = read_config(path)
    config["gnomon"] = {**gnomon_section(config), **fields}
    files.write_json(Path(path) / "config.json", config)


def label_names(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The label names of `id2label`, in the order of their numbers; empty when there are none."""
    names = config.get("id2label") or {}
    try:
        order = sorted((int(number), str(name)) for number, name in names.items())
    except (AttributeError, ValueError) as error:
        raise GnomonError(f"id2label in config.json does not map numbers to names: {names!r}") from error
    if [number for number, _ in order] != list(range(len(order))):
        raise GnomonError(f"id2label in config.json must number its labels 0 to {len(order) - 1}: {names!r}")
    return tuple(name for _, name in order)


def end_ids(folder: Path, config: Mapping[str, Any]) -> tuple[int, ...]:
    """The tokens by which a language model ends a text: of generation_config.json, or else of its `config`."""
    beside = folder / "generation_config.json"
    generation = files.read_json(beside) if beside.exists() else {}
    value = generation.get("eos_token_id", config.get("eos_token_id")) if isinstance(generation, dict) else None
    values = value if isinstance(value, list) else [value]
    return tuple(token for token in values if isinstance(token, int) and not isinstance(token, bool) and token >= 0)


def is_pickle(path: Path) -> bool:
    """Whether a file holds a pickle: by its first bytes, or a zip archive with a pickle's ending."""
    with files.explained(path, doing="read"), path.open("rb") as file:
        start = file.read(4)
    return start[:2] in _PICKLE_STARTS or (start == b"PK\x03\x04" and path.suffix in _PICKLE_ENDINGS)


def _file_error(path: Path) -> GnomonError:
    if is_pickle(path):
        return _pickle_error(path)
    if path.suffix == ".safetensors":
        return GnomonError(f"{path} is a weight file, not a model folder", f"name its folder: {path.parent}")
    return GnomonError(f"{path} is a file, not a model folder", "name a folder that holds config.json")


def _pickle_error(path: Path) -> GnomonError:
    return GnomonError(
        f"{path} is a pickle; gnomon never opens one, for a pickle can run any code",
        f"""if it holds torch weights and you trust where they came from, convert them once:
  pip install torch safetensors
  python -c "
  import torch
  from safetensors.torch import save_file
  weights = torch.load({str(path)!r}, map_location='cpu', weights_only=True)
  weights = {{name: value.clone().contiguous() for name, value in weights.items()}}
  save_file(weights, {str(path.parent / WEIGHTS)!r}, {{'format': 'pt'}})"
then name the folder {path.parent}""",
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), ensure_ascii=False, indent=2) + "\n"
