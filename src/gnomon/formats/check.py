"""What a model folder holds and whether it is whole: every file's length, every tensor's shape, every number finite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.formats.arrays import LazyArrays, read_arrays
from gnomon.formats.modeldir import WEIGHTS, gnomon_section, label_names, read_config, read_model_dir
from gnomon.formats.shapes import expected_shapes


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is off, and in which file or tensor."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class FolderReport:
    """A model folder: its type and why it is no Hugging Face one ("" when it is), its size, and what is off.

    `parameters` counts the numbers of model.safetensors but for integer counters, `types` how many tensors have
    which safetensors type, `bytes` the files of the folder.
    """

    path: str
    model_type: str
    hugging_face: str
    labels: tuple[str, ...]
    max_length: int | None
    runtime: str | None
    parameters: int
    types: dict[str, int]
    bytes: int
    problems: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values; problems as sentences."""
        return asdict(self) | {"labels": list(self.labels), "problems": [str(problem) for problem in self.problems]}


def check_model_dir(path: Path | str) -> FolderReport:
    """Read everything in a model folder and report; a folder that is no model folder at all raises GnomonError."""
    folder = Path(path)
    config = read_config(folder)
    section = gnomon_section(config)
    problems: list[Problem] = []
    arrays = LazyArrays({}) if _graph_alone(folder, section) else _weights(folder, problems)
    problems += _shape_problems(config, arrays)
    problems += [Problem(name, f"{count} values are not finite") for name, count in _not_finite(arrays).items()]
    problems += _tokenizer_problems(folder, config)
    problems += _runtime_problems(folder, section)
    try:
        labels = label_names(config)
    except GnomonError as error:
        labels = ()
        problems.append(Problem("config.json", error.message))
    return FolderReport(
        path=str(folder),
        model_type=config["model_type"],
        hugging_face=_why_not_hugging_face(config, section),
        labels=labels,
        max_length=section.get("max_length"),
        runtime=section.get("runtime"),
        parameters=sum(entry.count for entry in arrays.entries.values() if "F" in entry.type_name),
        types=dict(Counter(entry.type_name for entry in arrays.entries.values())),
        bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        problems=tuple(problems),
    )


def _graph_alone(folder: Path, section: Mapping[str, Any]) -> bool:
    """Whether this is an exported language model, which has its weights in the graph alone."""
    return "bits" in section and not (folder / WEIGHTS).exists()


def _weights(folder: Path, problems: list[Problem]) -> LazyArrays:
    try:
        return read_model_dir(folder).arrays
    except GnomonError as error:
        problems.append(Problem("model.safetensors", error.message))
        return LazyArrays({})


def _shape_problems(config: Mapping[str, Any], arrays: LazyArrays) -> list[Problem]:
    if not arrays:
        return []
    try:
        expected = expected_shapes(config, arrays)
    except (KeyError, TypeError, ValueError) as error:
        return [Problem("config.json", f"the numbers of the model cannot be read from it: {error!r}")]
    problems = [Problem(name, "missing from model.safetensors") for name in expected if name not in arrays]
    for name, shape in expected.items():
        if name in arrays and arrays.shape(name) != shape:
            what = f"the shape is {list(arrays.shape(name))}, config.json asks for {list(shape)}"
            problems.append(Problem(name, what))
    return problems


def _not_finite(arrays: LazyArrays) -> dict[str, int]:
    counts = {
        name: int(np.count_nonzero(~np.isfinite(array)))
        for name, array in arrays.items()
        if np.issubdtype(array.dtype, np.floating)
    }
    return {name: count for name, count in counts.items() if count}


def _tokenizer_problems(folder: Path, config: Mapping[str, Any]) -> list[Problem]:
    path = folder / "tokenizer.json"
    if config["model_type"] == "gnomon_vectors" and not path.exists():
        return []  # vectors of whole words need none
    if not path.exists():
        found = [name for name in ("vocab.txt", "vocab.json") if (folder / name).exists()]
        return [] if found else [Problem("tokenizer.json", "missing, and there is no vocab.txt or vocab.json either")]
    try:
        tokenizer = files.read_json(path)
        vocabulary = tokenizer["model"]["vocab"]
        numbers = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        added = (token["id"] for token in tokenizer.get("added_tokens") or [])
        tokens = 1 + max([*numbers, *added], default=-1)
    except (GnomonError, KeyError, TypeError, AttributeError) as error:
        return [Problem("tokenizer.json", f"cannot be read: {error}")]
    rows = config.get("vocab_size", gnomon_section(config).get("config", {}).get("vocab_size"))
    if isinstance(rows, int) and tokens > rows:
        return [Problem("tokenizer.json", f"has {tokens} tokens, the model only {rows} rows for them")]
    return []


def _runtime_problems(folder: Path, section: Mapping[str, Any]) -> list[Problem]:
    name = section.get("runtime")
    if name is None:
        return []
    file = folder / str(name)
    if not file.is_file():
        return [Problem(str(name), "missing, though config.json names it as the runtime")]
    size, wanted = file.stat().st_size, section.get("runtime_bytes", 0)
    if wanted and size != wanted:
        return [Problem(str(name), f"has {size} bytes, {wanted} were written")]
    if file.suffix != ".safetensors":
        return []
    try:
        read_arrays(file)
    except GnomonError as error:
        return [Problem(str(name), error.message)]
    return []


def _why_not_hugging_face(config: Mapping[str, Any], section: Mapping[str, Any]) -> str:
    """Why `transformers` has no type for this model; "" when it has one."""
    if not config["model_type"].startswith("gnomon_"):
        return ""
    family = section.get("family")
    if family != "encoder":
        return f"Hugging Face's transformers has no {family} {'classifier' if 'head' in section else 'model'}"
    if section.get("config", {}).get("norm_position") == "pre":
        return "its norms stand before attention and feed-forward, those of BERT after"
    return "its label head, positions or segments differ from those of BERT, DistilBERT and RoBERTa"
