"""From a trained model folder to one that is served without torch, refused unless both give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gnomon.deploy.static import build_static
from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.formats.arrays import to_bytes
from gnomon.formats.modeldir import gnomon_section, read_config, update_gnomon_section
from gnomon.measure.latency import interleaved, quickest
from gnomon.models.base import HeadConfig, TorchScorer
from gnomon.models.folders import Folder, load_model, read_folder
from gnomon.runtime.onnx import OnnxScorer
from gnomon.runtime.predictor import Predictor, Scorer, runtime_files, softmax
from gnomon.runtime.static import StaticScorer
from gnomon.runtime.threads import thread_counts
from gnomon.text.tokenizer import Tokenizer

ONNX = "onnx/model.onnx"
VECTORS = "vectors.safetensors"
TOLERANCE = 1e-4
"""How far a probability may lie from the torch model's."""

_TIE = 1e-6  # two classes as near as this in the reference itself may change places: that is rounding
_TIMED_TEXTS = 20

Reference = Callable[[list[str]], np.ndarray]


@dataclass(frozen=True)
class Deployed:
    """A deployed folder: the runtime file's name in it, how many texts were compared and the largest difference of a
    probability, the thread count that one prediction takes, and the bytes of the files the runtime opens."""

    path: Path
    runtime: str
    checked: int
    largest_difference: float
    threads: int
    size_bytes: int


def deploy(
    folder: Path | str, *, check_texts: Sequence[str], reference: Reference | None = None, threads: int | None = None
) -> Deployed:
    """Write the runtime of a model folder and name it in config.json; then `load_predictor(folder)` serves it.

    `reference` gives the torch model's logits [N, C] for texts; None loads the model from the folder. `threads` is
    what one prediction takes unless told otherwise; None measures which count is quickest. Raises GnomonError,
    leaving the folder as it was, when any of `check_texts` gets another label or a probability more than 1e-4 away.
    """
    path = Path(folder)
    source = read_folder(path)
    max_length, reference = _understood(source, reference)
    name, data, scorer = _build(source)
    tokenizer = Tokenizer.from_dir(path)

    def predictor(count: int) -> Predictor:
        return Predictor(tokenizer, scorer(count), labels=source.labels, max_length=max_length)

    difference = _compare(predictor(1), reference, list(check_texts), path)
    if threads is None:
        threads = _best_threads(predictor, check_texts) if name == ONNX else 1
    files.write_bytes(path / name, data)
    update_gnomon_section(path, runtime=name, runtime_bytes=len(data), max_length=max_length, threads=threads)
    size = sum(file.stat().st_size for file in runtime_files(path))
    return Deployed(path, name, len(check_texts), difference, threads, size)


def _understood(source: Folder, reference: Reference | None) -> tuple[int, Reference]:
    if reference is not None and source.max_length is not None:
        return source.max_length, reference
    model = load_model(source.path)
    torch_predictor = Predictor(model.tokenizer, TorchScorer(model), labels=model.labels, max_length=model.max_length)
    return model.max_length, reference or torch_predictor.logits


def _build(source: Folder) -> tuple[str, bytes, Callable[[int], Scorer]]:
    """The runtime file's name and content, and what opens it with a number of threads."""
    head = source.head
    if not isinstance(head, HeadConfig):
        raise GnomonError(f"{source.path} is no classifier: only models with a label head can be deployed")
    if source.family == "static":
        built = build_static(head, source.arrays)
        section = gnomon_section(read_config(source.path))
        return VECTORS, to_bytes(built), lambda threads: StaticScorer(built, section)
    data = _graph(source, head)
    return ONNX, data, lambda threads: OnnxScorer(data, threads=threads)


def _graph(source: Folder, head: HeadConfig) -> bytes:
    if source.family == "encoder":
        from gnomon.deploy.encoder import build_encoder

        return build_encoder(source.config, head, source.arrays)
    if source.family == "recurrent":
        from gnomon.deploy.recurrent import build_recurrent

        return build_recurrent(source.config, head, source.arrays)
    if source.family == "convolutional":
        from gnomon.deploy.convolutional import build_convolutional

        return build_convolutional(source.config, head, source.arrays)
    raise GnomonError(f"no runtime is known for models of the family {source.family!r}")


def _compare(predictor: Predictor, reference: Reference, texts: list[str], path: Path) -> float:
    """The largest difference of a probability; refused when it is too large or a label differs."""
    if not texts:
        raise GnomonError(f"cannot deploy {path} without texts to check it on", "give check_texts")
    wanted, found = softmax(reference(texts)), softmax(predictor.logits(texts))
    differences = np.abs(wanted - found).max(axis=1)
    ordered = np.sort(wanted, axis=1)
    tied = ordered[:, -1] - ordered[:, -2] < _TIE
    other_label = (wanted.argmax(axis=1) != found.argmax(axis=1)) & ~tied
    wrong = np.flatnonzero(other_label | ~(differences <= TOLERANCE))  # so written, a NaN is wrong too
    if len(wrong):
        worst = int(wrong[0])
        raise GnomonError(
            f"the runtime built for {path} differs from the torch model on {len(wrong)} of {len(texts)} texts, "
            f"first by {differences[worst]:.2g} on {texts[worst]!r:.80}; nothing was written",
            "this is a fault of gnomon: please report it with the model's config.json",
        )
    return float(differences.max())


def _best_threads(predictor: Callable[[int], Predictor], texts: Sequence[str]) -> int:
    counts = thread_counts()
    if len(counts) == 1:
        return counts[0]
    candidates: Mapping[int, Callable[[str], object]] = {count: predictor(count).predict for count in counts}
    return quickest(interleaved(candidates, list(texts[:_TIMED_TEXTS]), warmup=3, seconds=1.0))
