"""Vectors in a folder of our own: config.json, model.safetensors, vocabulary.json, and the tokenizer if there was one.

The tensors are `input` and `output` [V, D], float32 or float16, and `counts` int64 [V]; vocabulary.json lists the
words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gnomon.errors import GnomonError
from gnomon.formats.arrays import Entry, LazyArrays
from gnomon.formats.files import read_json
from gnomon.formats.modeldir import ModelDir, read_model_dir, write_model_dir
from gnomon.vectors.keyed import Array, WordVectors

MODEL_TYPE = "gnomon_vectors"
VOCABULARY = "vocabulary.json"
Precision = Literal["float32", "float16"]
_AGAIN = "restore the folder from where it came"


def save(vectors: WordVectors, path: Path | str, *, precision: Precision = "float32") -> None:
    """Write the folder `path`, as a whole or not at all. float16 halves it, and costs about three digits."""
    arrays: dict[str, Array] = {"input": np.asarray(vectors.input, precision)}
    if vectors.output is not None:
        arrays["output"] = np.asarray(vectors.output, precision)
    if vectors.counts is not None:
        arrays["counts"] = vectors.counts
    config = {
        "model_type": MODEL_TYPE,
        "vocab_size": len(vectors),
        "hidden_size": vectors.size,
        "gnomon": {"family": "vectors", "table": vectors.table, **vectors.details},
    }
    write_model_dir(
        path,
        config=config,
        arrays=arrays,
        tokenizer_json=vectors.tokenizer_json,
        tokenizer_config={},
        card=_card(vectors),
        extras={VOCABULARY: json.dumps(list(vectors.words), ensure_ascii=False).encode()},
    )


def load(path: Path | str) -> WordVectors:
    """Read such a folder. The tables are views of the file: pages are read when they are first touched.

    Raises GnomonError for a folder that is missing, damaged, or of another kind.
    """
    folder = read_model_dir(path)
    if folder.model_type != MODEL_TYPE:
        raise GnomonError(f"{path} is a model folder of the type {folder.model_type}, not of word vectors", _AGAIN)
    words = read_json(Path(path) / VOCABULARY)
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise GnomonError(f"{Path(path) / VOCABULARY} is not a list of words", _AGAIN)
    if "input" not in folder.arrays:
        raise GnomonError(f"{path} holds no table called input", _AGAIN)
    _check(folder, len(words))
    tokenizer = Path(path) / "tokenizer.json"
    details = {name: value for name, value in folder.gnomon.items() if name not in ("family", "table")}
    return WordVectors(
        words,
        _view(folder.arrays, "input"),
        _view(folder.arrays, "output") if "output" in folder.arrays else None,
        folder.arrays.get("counts"),
        folder.gnomon.get("table", "input"),
        details,
        tokenizer.read_text(encoding="utf-8") if tokenizer.is_file() else None,
    )


def _check(folder: ModelDir, words: int) -> None:
    for name, entry in folder.arrays.entries.items():
        expected = (words,) if name == "counts" else (words, folder.config.get("hidden_size"))
        if entry.shape != expected:
            raise GnomonError(
                f"{folder.path}: the table {name} is {list(entry.shape)}, and config.json and {VOCABULARY} say "
                f"{list(expected)}",
                _AGAIN,
            )


def _view(arrays: LazyArrays, name: str) -> Any:
    """A table as it is in the file, half precision included: `formats.arrays` would widen all of it at once."""
    entry: Entry = arrays.entries[name]
    kinds: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}
    if entry.type_name not in kinds:
        raise GnomonError(f"{entry.file}: the table {name} has the type {entry.type_name}, not F32 or F16", _AGAIN)
    return np.memmap(entry.file, kinds[entry.type_name], mode="r", offset=entry.start, shape=entry.shape)


def _card(vectors: WordVectors) -> str:
    settings = "\n".join(f"- {name}: {value}" for name, value in vectors.details.items() if not isinstance(value, dict))
    return (
        f"# Word vectors\n\n{len(vectors):,} words, {vectors.size} numbers each, made by gnomon.\n\n{settings}\n\n"
        '```python\nfrom gnomon.vectors import read_vectors\n\nvectors = read_vectors("this folder")\n'
        'vectors.nearest("word")\n```\n'
    )
