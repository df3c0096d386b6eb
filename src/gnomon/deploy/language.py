"""From the folder of a causal language model to one that generates without torch, its loss measured and bounded."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnomon.decoding.logprobs import score_rows
from gnomon.deploy.blocks import BITS, Blocks, block_size, to_blocks
from gnomon.deploy.calibration import own_rows, sample_rows
from gnomon.deploy.decoder import build_decoder, matrices
from gnomon.deploy.head_padding import PaddedHeads
from gnomon.deploy.moments import Moments
from gnomon.errors import GnomonError
from gnomon.formats import files
from gnomon.formats.modeldir import gnomon_section, read_config
from gnomon.models.folders import Folder, load_language_model, read_folder
from gnomon.models.heads import LanguageHeadConfig
from gnomon.models.stepper import TorchStepper
from gnomon.runtime.language import LanguageStepper, open_runtime
from gnomon.runtime.onnx_language import OnnxLanguageModel
from gnomon.runtime.threads import thread_counts
from gnomon.text.tokenizer import Tokenizer

LIMITS = {8: 1.005, 4: 1.05}
"""How many times the perplexity of the full weights that of narrower ones may be, or wider ones are kept."""

PARITY = 1e-3
"""How far a token's log-probability may lie from the torch model's with full weights."""

_FULL = 32
_NAMES = {32: "onnx/model.onnx", 8: "onnx/model_8bit.onnx", 4: "onnx/model_4bit.onnx"}
_JUDGED, _SHOWN = 16, 32  # rows that the model writes
_TIMED_STEPS = 24
_NORMAL_95 = 1.96
_COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
    "chat_template.jinja",
)

Widths = Mapping[str, int]
"""Bits by part of the model: `embeddings` (both tables), and the parts of a layer by their tensor names."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Exported:
    """A deployed language model: `widths` are the bits that each part kept, `perplexity_ratio` its perplexity over that
    of the full weights on `checked` tokens, `size_bytes` what the runtime opens."""

    path: Path
    runtime: str
    bits: int
    widths: dict[str, int]
    perplexity_ratio: float
    checked: int
    threads: int
    size_bytes: int

    @property
    def wider(self) -> dict[str, int]:
        """The parts that kept more bits than were asked for."""
        return {part: bits for part, bits in self.widths.items() if bits > self.bits}


def export_language_model(
    folder: Path | str,
    out: Path,
    *,
    bits: int,
    rows: Sequence[Sequence[int]] | None = None,
    threads: int | None = None,
    max_length: int | None = None,
    say: Say = lambda sentence: None,
) -> Exported:
    """Write `out`, a folder that `open_language_model` serves without torch, with matrices of 32, 8 or 4 bits.

    `rows` are texts as ids: every second one says what matrices are multiplied with, which matters when numbers are
    rounded to 4 bits; on the others the loss is measured. None: it is measured on a sample of ours or on what the model
    itself writes, whichever the model finds likelier.
    Parts of the model keep more bits until the perplexity is within `LIMITS`, or above by no more than chance (95 %).
    `threads` None measures which count is quickest. Raises GnomonError for models that cannot be exported, and for a
    graph that differs from the torch model.
    """
    source = read_folder(folder)
    if not isinstance(source.head, LanguageHeadConfig) or source.family != "decoder":
        speaks = isinstance(source.head, LanguageHeadConfig)
        raise GnomonError(
            f"{source.path} is no decoder with a language head, and only those are exported to onnx",
            "generate with the folder itself, through torch"
            if speaks
            else "it does not generate: gnomon distill and frontier write classifiers that run without torch",
        )
    model = load_language_model(source.path)
    length = min(max_length or model.max_length, model.max_length)
    if length < 2:
        raise GnomonError(f"a context of {length} token leaves no token to predict", "give --max-length 2 or more")
    reference = TorchStepper(model)
    texts, wanted, shown = _texts(reference, source.path, rows, bits=bits, length=length, say=say)
    builder = _Builder(source, source.head, length)
    if bits < 8:
        builder.moments = Moments(model, shown, builder.names)
    for widths in _ladder(builder.parts, bits):
        data = builder.build(widths)
        loss = _loss(LanguageStepper(OnnxLanguageModel(data), max_length=length), texts, wanted)
        ratio, chance = math.exp(float(loss.mean())), _NORMAL_95 * float(loss.std()) / len(loss) ** 0.5
        if set(widths.values()) == {_FULL}:
            _refuse_difference(loss, source.path)
            break
        if math.log(ratio) - chance <= math.log(LIMITS[bits]):
            break
        say(f"with {_described(widths)} the perplexity is {ratio:.3f} times that of the full weights: keeping more")
    best = threads or _best_threads(data, texts[0], length)
    _write(out, source.path, _NAMES[bits], data, length, best, widths)
    size = sum(file.stat().st_size for file in (out / _NAMES[bits], out / "config.json", out / "tokenizer.json"))
    return Exported(out, _NAMES[bits], bits, dict(widths), ratio, len(wanted), best, size)


def _texts(
    reference: TorchStepper,
    path: Path,
    rows: Sequence[Sequence[int]] | None,
    *,
    bits: int,
    length: int,
    say: Say,
) -> tuple[Sequence[Sequence[int]], np.ndarray, Sequence[Sequence[int]]]:
    """The texts that judge, what the full weights say of their tokens, and those that show what matrices are multiplied
    with (none where nothing is rounded to 4 bits)."""
    tokenizer = Tokenizer.from_dir(path)
    texts = _given(sample_rows(tokenizer) if rows is None else rows, length)
    shown: Sequence[Sequence[int]] = ()
    if bits < 8 and rows is not None:
        shown, texts = texts[::2], texts[1::2] or texts
    wanted = _scores(reference, texts, path)
    if bits < _FULL and rows is None:
        say("the model writes text to measure narrow weights by")
        own = own_rows(reference, tokenizer, _JUDGED, seed=2, max_length=length)
        scores = _scores(reference, own, path)
        if scores.mean() > wanted.mean():
            texts, wanted = own, scores
        if bits < 8:
            shown = own_rows(reference, tokenizer, _SHOWN, seed=1, max_length=length)
    return texts, wanted, shown


def _given(rows: Sequence[Sequence[int]], length: int) -> list[list[int]]:
    """The rows that say something, at most `length` ids each."""
    texts = [list(row)[:length] for row in rows if len(row) > 1]
    if not texts:
        raise GnomonError("there is no text to measure the loss of narrow weights on", "give some with --text")
    return texts


def _scores(stepper: TorchStepper, texts: Sequence[Sequence[int]], path: Path) -> np.ndarray:
    """The log-probability of every token that has one before it."""
    scores: np.ndarray = np.concatenate(score_rows(stepper, texts, pad_id=0))
    if not np.isfinite(scores).all():
        raise GnomonError(
            f"the scores of {path} are no numbers (NaN or infinite)",
            "its weights are damaged, or training diverged: use an earlier checkpoint",
        )
    return scores


class _Builder:
    """Graphs of one model in any widths; what was rounded once is kept."""

    def __init__(self, source: Folder, head: LanguageHeadConfig, max_length: int) -> None:
        self._source = source
        self._head = head
        self._arrays = PaddedHeads(source.config, source.arrays)
        self._max_length = max_length
        self.moments: Moments | None = None
        """What the matrices are multiplied with; where it is not known, all columns are alike."""
        self._rounded: dict[tuple[str, int], Blocks] = {}
        inner = "gate_up" if source.config.gated else "up"
        parts = ("embeddings", "attention.qkv", "feedforward.down", "attention.output", f"feedforward.{inner}")
        columns = {part: set[int]() for part in parts}
        for name in matrices(source.config, head):
            columns[_part(name, parts)].add(self._arrays[name].shape[1])
        self.parts = {part: all(block_size(width, 8) for width in columns[part]) for part in parts}
        """Each part, and whether it can be stored in blocks."""
        self.names = [name for name in matrices(source.config, head) if _part(name, parts) != "embeddings"]

    def build(self, widths: Widths) -> bytes:
        """The serialised graph."""

        def stored(name: str) -> Blocks | None:
            bits = widths[_part(name, self.parts)]
            if bits == _FULL:
                return None
            if (name, bits) not in self._rounded:
                weight = self._arrays[name]
                known = self.moments.of(name) if bits < 8 and self.moments is not None else None
                if known is not None and len(known) != weight.shape[1]:
                    known = None  # of padded heads: other columns
                self._rounded[name, bits] = to_blocks(weight, bits=bits, moments=known)
            return self._rounded[name, bits]

        source = self._source
        model = build_decoder(source.config, self._head, self._arrays, stored=stored, max_length=self._max_length)
        try:
            return bytes(model.SerializeToString())
        except ValueError as error:  # protobuf's limit
            raise GnomonError(
                f"{source.path} is larger than one onnx file may be, 2 GB, with these weights", "give fewer --bits"
            ) from error


def _part(name: str, parts: Iterable[str]) -> str:
    """The part of the model that a matrix belongs to."""
    return next((part for part in parts if f".{part}." in name), "embeddings")


def _ladder(parts: Mapping[str, bool], bits: int) -> Iterator[Widths]:
    """Widths to try, narrowest first. The tables of a 4-bit model have 8 bits from the start, as llama.cpp's have."""
    if bits == _FULL:
        yield dict.fromkeys(parts, _FULL)
        return
    widths = {part: bits if in_blocks else _FULL for part, in_blocks in parts.items()}
    widths["embeddings"] = max(8, widths["embeddings"])
    yield dict(widths)
    for width in (*(one for one in BITS if one > bits), _FULL):
        for part in parts:
            if widths[part] < width:
                widths[part] = width
                yield dict(widths)


def _loss(stepper: LanguageStepper, texts: Sequence[Sequence[int]], wanted: np.ndarray) -> np.ndarray:
    """What each token's log-probability lost; infinite where the graph gives no number."""
    lost: np.ndarray = wanted - np.concatenate(score_rows(stepper, texts, pad_id=0))
    return np.where(np.isfinite(lost), lost, np.inf)


def _refuse_difference(loss: np.ndarray, path: Path) -> None:
    worst = float(np.abs(loss).max())
    if worst > PARITY:
        raise GnomonError(
            f"the graph built for {path} differs from the torch model: a log-probability by {worst:.2g}; "
            "nothing was written",
            "this is a fault of gnomon: please report it with the model's config.json",
        )


def _best_threads(data: bytes, row: Sequence[int], length: int) -> int:
    """The thread count whose steps are quickest, measured in turns."""
    counts = thread_counts()
    if len(counts) == 1:
        return counts[0]
    steppers = {count: LanguageStepper(open_runtime(data, threads=count), max_length=length) for count in counts}
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    steps = min(_TIMED_STEPS, length - 1)
    for stepper in steppers.values():
        stepper.prefill(np.array([row[:1]]), np.ones((1, 1), np.bool_))
    for _ in range(steps):
        for count, stepper in steppers.items():
            begin = time.perf_counter()
            stepper.step(np.array(row[:1]))
            seconds[count].append(time.perf_counter() - begin)
    return min(counts, key=lambda count: statistics.median(seconds[count]))


def _write(out: Path, source: Path, name: str, data: bytes, max_length: int, threads: int, widths: Widths) -> None:
    """The whole folder or nothing: the graph, the tokenizer's files, and a config.json that names both by hash."""
    config = read_config(source)
    section: dict[str, Any] = gnomon_section(config)
    section |= {"runtime": name, "runtime_bytes": len(data), "max_length": max_length, "threads": threads}
    section |= {"bits": dict(widths), "head": {"kind": "language", **section.get("head", {})}}
    with files.new_directory(out) as folder:
        for copied in _COPIED:
            if (source / copied).is_file():
                (folder / copied).write_bytes((source / copied).read_bytes())
        if (folder / "tokenizer.json").is_file():
            section["tokenizer_sha256"] = files.sha256(folder / "tokenizer.json")
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(data)
        text = json.dumps(config | {"gnomon": section}, ensure_ascii=False, indent=2)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        (folder / "README.md").write_text(_card(source, widths), encoding="utf-8")


def _described(widths: Widths) -> str:
    """Widths in words: "4 bits, 8 for embeddings"."""
    least = min(widths.values())
    others = sorted({bits for bits in widths.values() if bits > least})
    listed = "; ".join(f"{bits} for {', '.join(p for p, b in widths.items() if b == bits)}" for bits in others)
    return f"{least} bits" + (f", {listed}" if listed else "")


def _card(source: Path, widths: Widths) -> str:
    return (
        f"# {source.name}, exported\n\nWeights in {_described(widths)}, for `gnomon generate` and `gnomon chat` "
        "without torch. Made by `gnomon export`.\n"
    )
