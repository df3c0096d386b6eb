"""What `gnomon evaluate` does with language models: perplexity and bits per byte of text, by sliding windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.table import Table

from gnomon.decoding.generate import prompt_ids
from gnomon.decoding.logprobs import score_rows
from gnomon.decoding.stepper import Floats, Stepper
from gnomon.errors import GnomonError
from gnomon.formats.modeldir import gnomon_section, read_config
from gnomon.measure.language import LanguageQuality, Passage, language_quality, passages, sliding_windows
from gnomon.measure.uncertainty import Interval
from gnomon.recipes.language_models import is_gguf, load_through_torch, open_model
from gnomon.reporting.console import Console
from gnomon.runs import resolve_model
from gnomon.text.documents import documents
from gnomon.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from gnomon.models.base import Model

_CAUSAL = ("ForCausalLM", "LMHeadModel")
_MASKED = "ForMaskedLM"
_DEFAULT_CONTEXT = 1024  # of a model that nothing limits
_WINDOWS_AT_ONCE = 16


@dataclass(frozen=True)
class Measured:
    """One model on the text. `masked`: its perplexity is that of hidden tokens, and bits per byte mean nothing."""

    name: str
    quality: LanguageQuality
    context: int
    stride: int
    masked: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = self.quality
        return {
            "model": self.name,
            "perplexity": found.perplexity.to_dict(),
            "bits_per_byte": None if self.masked else found.bits_per_byte.to_dict(),
            "tokens": found.tokens,
            "bytes": found.bytes,
            "context": self.context,
            "stride": self.stride,
            "masked": self.masked,
        }


@dataclass(frozen=True)
class LanguageResult:
    """Every model's figures on the same text."""

    models: tuple[Measured, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"models": [model.to_dict() for model in self.models]}

    def shown(self) -> RenderableType:
        """A row a model."""
        table = Table(title=f"{self.models[0].quality.bytes:,} bytes of text", title_justify="left")
        for heading in ("model", "perplexity", "bits a byte", "tokens", "read in"):
            table.add_column(heading, overflow="fold")
        for model in self.models:
            found = model.quality
            masked = " (hidden tokens)" if model.masked else ""
            table.add_row(
                model.name,
                f"{_shown(found.perplexity)}{masked}",
                "" if model.masked else _shown(found.bits_per_byte),
                f"{found.tokens:,}",
                f"{model.context:,}, {model.stride:,} new",
            )
        return table


def is_language_model(name: str) -> bool:
    """Whether a MODEL argument names a language model, causal or masked."""
    return _kind(name) != "label"


def evaluate_language(
    models: Sequence[str], text: Path, *, context: int | None, stride: int | None, encoding: str | None,
    threads: int | None, seed: int, console: Console,
) -> LanguageResult:  # fmt: skip
    """Measure each model. A document is read from its begin token on; the tokens of a window that an earlier one has
    scored are read again but not scored. Raises GnomonError for an empty text and for a context beyond the model's."""
    kinds = {name: _kind(name) for name in models}
    others = [name for name, kind in kinds.items() if kind == "label"]
    if others:
        raise GnomonError(f"{others[0]} is no language model, and others are", "evaluate it apart, on labelled text")
    measured = []
    for name in models:
        with console.stage(f"measure {name}"):
            measure = _measure_masked if kinds[name] == "masked_language" else _measure_causal
            measured.append(measure(_Asked(name, text, context, stride, encoding, threads, seed, console)))
    return LanguageResult(tuple(measured))


@dataclass(frozen=True)
class _Asked:
    """One model, and how it is to be measured."""

    name: str
    text: Path
    context: int | None
    stride: int | None
    encoding: str | None
    threads: int | None
    seed: int
    console: Console

    def reading(self, limit: int | None) -> tuple[int, int]:
        """Context and stride for a model that reads at most `limit` tokens."""
        if self.context is not None and limit is not None and self.context > limit:
            raise GnomonError(
                f"the context is {self.context}, and {self.name} reads at most {limit} tokens", "give a smaller one"
            )
        context = self.context or limit or _DEFAULT_CONTEXT
        stride = self.stride or max(1, context // 2)
        if not 1 <= stride < context:
            raise GnomonError(f"the stride is {stride} and the context {context}", "give a stride from 1 to below it")
        return context, stride

    def measured(self, scored: Sequence[Passage], context: int, stride: int, *, masked: bool) -> Measured:
        """The result, refused where nothing was scored or a score is no number."""
        if not any(passage.tokens for passage in scored):
            raise GnomonError(f"{self.text} holds no token to score", "give a text of a few words at least")
        if not all(np.isfinite(passage.log_probability) for passage in scored):
            raise GnomonError(
                f"{self.name} gives scores that are no numbers", "its weights are damaged: gnomon info MODEL"
            )
        return Measured(self.name, language_quality(scored, seed=self.seed), context, stride, masked)


def _kind(name: str) -> str:
    """The kind of a model's head: label, language or masked_language."""
    if is_gguf(name):
        return "language"
    config = read_config(resolve_model(name))
    kind = (gnomon_section(config).get("head") or {}).get("kind")
    if kind is not None:
        return str(kind)
    architectures = [str(item) for item in config.get("architectures") or ()]
    if any(item.endswith(_CAUSAL) for item in architectures):
        return "language"
    return "masked_language" if any(item.endswith(_MASKED) for item in architectures) else "label"


def _shown(interval: Interval) -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _measure_causal(asked: _Asked) -> Measured:
    model = open_model(asked.name, threads=asked.threads, console=asked.console)
    context, stride = asked.reading(model.stepper.max_length)
    texts = documents([asked.text], encoding=asked.encoding)
    scored = list(_passages(model.stepper, model.tokenizer, texts, context, stride))
    return asked.measured(scored, context, stride, masked=False)


def _measure_masked(asked: _Asked) -> Measured:
    model = load_through_torch(resolve_model(asked.name), threads=asked.threads).eval()
    context, _ = asked.reading(model.backbone.max_positions)
    texts = documents([asked.text], encoding=asked.encoding)
    return asked.measured(list(_masked_passages(model, texts, context)), context, context, masked=True)


def _passages(
    stepper: Stepper, tokenizer: Tokenizer, texts: Iterator[str], context: int, stride: int
) -> Iterator[Passage]:
    """Each document's log-probabilities in passages of a context, windows scored side by side."""
    for text in texts:
        ids = prompt_ids(tokenizer, text)
        spans = list(sliding_windows(len(ids), context=context, stride=stride))
        pieces: list[Floats] = []
        for start in range(0, len(spans), _WINDOWS_AT_ONCE):
            together = spans[start : start + _WINDOWS_AT_ONCE]
            rows = [ids[span.start : span.stop] for span in together]
            scores = score_rows(stepper, rows, pad_id=tokenizer.pad_id, batch_size=_WINDOWS_AT_ONCE)
            pieces += [row[span.scored - span.start - 1 :] for span, row in zip(together, scores, strict=True)]
        if pieces:
            yield from passages(np.concatenate(pieces), size=context, text_bytes=len(text.encode("utf-8")))


def _masked_passages(model: Model, texts: Iterator[str], context: int) -> Iterator[Passage]:
    """Windows with 15 % of their tokens hidden, the same ones each time; a window's bytes are not known, so 1."""
    from gnomon.objectives.masked_lm import TERM, MaskedLM
    from gnomon.text.windows import Window

    objective = MaskedLM.for_tokenizer(model.tokenizer).eval()
    for text in texts:
        ids = np.array(model.tokenizer.encode(text).ids, np.int64)
        for start in range(0, len(ids), context):
            window = Window(ids[start : start + context], np.zeros(1, np.int64))
            weight = objective.collate([window]).weights[TERM]
            if weight:
                yield Passage(-objective.evaluate(model, [[window]])["loss"] * weight, int(weight), 1.0)
