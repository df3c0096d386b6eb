"""What is wrong with a data set before anything is trained on it: repeats, leaks, conflicts, imbalance, lost tokens."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, TypeVar

from gnomon.text.corpus import MAX_CHARACTERS
from gnomon.text.examples import Example, ExampleSet, counted
from gnomon.text.scripts import script_shares
from gnomon.text.tokenizer import Tokenizer

Row = TypeVar("Row")

UNKNOWN_LIMIT = 0.2  # above this share of unknown tokens a teacher cannot read the text, and a run stops
_FEW = 10  # examples below which a class is hard to learn and its figures are mostly noise
_LOOKED_AT = 100_000  # texts of one part whose tokens and scripts are counted at most
_SHOWN = 5
_NOT_A_WORD = re.compile(r"[\W_]+")
_MOJIBAKE = re.compile("\ufffd|Ã[\x80-\xbf]|â€|ï¿½")  # U+FFFD, or UTF-8 that was read as Latin-1 or cp1252

_TEACHERS = {
    "Han": "a Chinese or multilingual teacher, such as bert-base-chinese, or one with a byte-level vocabulary",
    "Kana": "a Japanese or multilingual teacher, or one with a byte-level vocabulary",
    "Hangul": "a Korean or multilingual teacher, or one with a byte-level vocabulary",
    "Emoji": "a teacher with a byte-level vocabulary, such as roberta-base",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found: severity "note", "warn" or "stop", a sentence, how many rows, and some of them."""

    severity: str
    what: str
    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenFigures:
    """Shares over all parts: unknown tokens of all tokens, texts longer than `max_length`; and lengths in tokens."""

    unknown_share: float
    truncated_share: float
    max_length: int | None
    mean_length: float
    longest: int


@dataclass(frozen=True)
class QualityReport:
    """`rows` and `labels` (label -> count) by part, `scripts` by share; `stop` is why a run must not start, or None."""

    rows: dict[str, int]
    labels: dict[str, dict[str, int]]
    scripts: dict[str, float]
    tokens: TokenFigures | None
    findings: list[Finding]
    stop: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def inspect_data(
    train: ExampleSet,
    valid: ExampleSet | None = None,
    test: ExampleSet | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    max_length: int | None = None,
) -> QualityReport:
    """Look at all parts; with a `tokenizer`, count what it cannot express, and with `max_length` what it would cut."""
    parts = {name: part for name, part in (("train", train), ("valid", valid), ("test", test)) if part is not None}
    keys = {name: [_normalized(text) for text in part.texts] for name, part in parts.items()}
    findings = [finding for name, part in parts.items() for finding in _within(name, part, keys[name])]
    for first, second in combinations(parts, 2):
        findings += _leaks((first, second), (parts[first], parts[second]), (keys[first], keys[second]))
    labels = {name: _label_counts(part) for name, part in parts.items()}
    findings += _imbalance(labels, len(train))
    scripts = script_shares(text for part in parts.values() for text in _spaced(part.texts))
    if scripts:
        shares = ", ".join(f"{share:.1%} {script}" for script, share in scripts.items() if share >= 0.001)
        findings.append(Finding("note", f"the text is {shares}"))
    tokens = None if tokenizer is None else _token_figures(parts, tokenizer, max_length, findings)
    stop = None
    if tokenizer is not None and tokens is not None and tokens.unknown_share > UNKNOWN_LIMIT:
        stop = _needed_teacher(tokens.unknown_share, scripts, tokenizer)
        findings.append(Finding("stop", stop))
    order = {"stop": 0, "warn": 1, "note": 2}
    findings.sort(key=lambda finding: order[finding.severity])
    return QualityReport({name: len(part) for name, part in parts.items()}, labels, scripts, tokens, findings, stop)


def _within(name: str, part: ExampleSet, keys: Sequence[str]) -> Iterable[Finding]:
    """Rows left out, repeats, conflicts and odd texts of one part."""
    if part.bad_rows:
        shown = tuple(f"line {row.line}: {row.problem}" for row in part.bad_rows[:_SHOWN])
        yield Finding("warn", f"{name} lost {counted(len(part.bad_rows), 'unusable row')}", len(part.bad_rows), shown)
    first: dict[str, Example] = {}
    repeated: list[Example] = []
    conflicting: list[Example] = []
    for example in part.examples:
        kept = first.setdefault(example.text, example)
        if kept is not example:
            (repeated if kept.label == example.label else conflicting).append(example)
    share = len(repeated) / max(1, len(part))
    yield from _found("warn" if share > 0.1 else "note", f"{name} repeats", repeated, "row", f"({share:.1%})")
    yield from _found("warn", f"{name} has", conflicting, "row", "whose text stands under another label before")
    spellings: dict[str, set[str]] = {}
    for key, text in zip(keys, part.texts, strict=True):
        spellings.setdefault(key, set()).add(text)
    near = [row for row, key in zip(part.examples, keys, strict=True) if key and len(spellings[key]) > 1]
    yield from _found("note", f"{name} has", near, "text", "that differ from another in case or punctuation alone")
    garbled = [row for row in part.examples if _MOJIBAKE.search(row.text)]
    yield from _found("warn", f"{name} has", garbled, "text", "with marks of a wrong encoding")
    odd = [row for row in part.examples if not 0 < len(row.text.strip()) <= MAX_CHARACTERS]
    yield from _found("warn", f"{name} has", odd, "text", f"that are empty or above {MAX_CHARACTERS:,} characters")


def _leaks(
    names: tuple[str, str], parts: tuple[ExampleSet, ExampleSet], keys: tuple[Sequence[str], Sequence[str]]
) -> Iterable[Finding]:
    """Texts of the second part that the first has too, exactly or but for case and punctuation."""
    texts, normalized = set(parts[0].texts), set(keys[0]) - {""}
    same = [row for row in parts[1].examples if row.text in texts]
    pairs = zip(parts[1].examples, keys[1], strict=True)
    alike = [row for row, key in pairs if key in normalized and row.text not in texts]
    for rows, how in ((same, ""), (alike, "but for case or punctuation ")):
        share = len(rows) / max(1, len(parts[1]))
        yield from _found("warn", f"{names[1]} has", rows, "text", f"of {names[0]} {how}({share:.1%})")


def _imbalance(labels: dict[str, dict[str, int]], rows: int) -> Iterable[Finding]:
    counts = labels["train"]
    if not counts:
        return
    (common, most), (rare, least) = next(iter(counts.items())), next(reversed(counts.items()))
    what = f"of {counted(len(counts), 'label')} the commonest is {common!r} ({most / rows:.1%})"
    what += f" and the rarest {rare!r} ({least / rows:.1%})"
    if most > 20 * least:
        yield Finding("warn", f"{what}: rare ones may never be predicted", least)
    else:
        yield Finding("note", what, least)
    few = [f"{label!r}: {count}" for label, count in reversed(counts.items()) if count < _FEW]
    if few:
        yield Finding(
            "warn", f"{counted(len(few), 'label')} with fewer than {_FEW} examples", len(few), tuple(few[:_SHOWN])
        )
    if len(counts) > 50 and len(counts) > rows / 2:
        yield Finding("warn", "there are nearly as many labels as texts: is this the label column?", len(counts))
    spellings = Counter(_spelling(label) for label in counts)
    twins = sorted(repr(label) for label in counts if spellings[_spelling(label)] > 1)
    if twins:
        yield Finding("warn", "labels that differ in case or spaces alone", len(twins), tuple(twins[:_SHOWN]))
    for part in ("valid", "test"):
        absent = sorted(repr(label) for label in counts.keys() - labels.get(part, counts).keys())
        unseen = sorted(repr(label) for label in labels.get(part, counts).keys() - counts.keys())
        if absent:
            what = f"{part} has no example of {counted(len(absent), 'label')}"
            yield Finding("note", what, len(absent), tuple(absent[:_SHOWN]))
        if unseen:
            what = f"{part} has {counted(len(unseen), 'label')} that train never has"
            yield Finding("warn", what, len(unseen), tuple(unseen[:_SHOWN]))


def _token_figures(
    parts: dict[str, ExampleSet], tokenizer: Tokenizer, max_length: int | None, findings: list[Finding]
) -> TokenFigures:
    specials = len(tokenizer.encode("").ids)
    lengths: list[int] = []
    unknown = 0
    cut: list[Example] = []
    unreadable: list[Example] = []
    for part in parts.values():
        examples = _spaced(part.examples)
        for start in range(0, len(examples), 1024):
            batch = examples[start : start + 1024]
            for example, encoded in zip(batch, tokenizer.encode_batch([row.text for row in batch]), strict=True):
                lengths.append(len(encoded.ids))
                unknown += encoded.unknown
                if max_length is not None and len(encoded.ids) > max_length:
                    cut.append(example)
                if encoded.unknown:
                    unreadable.append(example)
    texts = max(1, len(lengths))
    figures = TokenFigures(
        unknown_share=unknown / max(1, sum(lengths) - specials * len(lengths)),
        truncated_share=len(cut) / texts,
        max_length=max_length,
        mean_length=sum(lengths) / texts,
        longest=max(lengths, default=0),
    )
    sample = "" if len(lengths) == sum(map(len, parts.values())) else f", in a sample of {len(lengths):,}"
    severity = "warn" if figures.truncated_share > 0.05 else "note"
    after = f"longer than {max_length} tokens ({figures.truncated_share:.1%}{sample}): the end is cut"
    findings += _found(severity, "", cut, "text", after)
    severity = "warn" if figures.unknown_share > 0.01 else "note"
    after = f"with tokens unknown to the teacher ({figures.unknown_share:.2%} of all tokens{sample})"
    findings += _found(severity, "", unreadable, "text", after)
    return figures


def _needed_teacher(unknown_share: float, scripts: dict[str, float], tokenizer: Tokenizer) -> str:
    script, share = next(iter(scripts.items()), ("", 0.0))
    words = (token for token, index in tokenizer.vocabulary.items() if index not in tokenizer.special_ids)
    known, known_share = next(iter(script_shares(words).items()), ("", 0.0))
    described = (
        f"the text is {share:.0%} {script}, its vocabulary {known_share:.0%} {known}; " if script and known else ""
    )
    needed = _TEACHERS.get(
        script, "a multilingual teacher, such as xlm-roberta-base, or one with a byte-level vocabulary"
    )
    return (
        f"{unknown_share:.1%} of the tokens are unknown to this teacher (the limit is {UNKNOWN_LIMIT:.0%}): {described}"
        f"what is needed is {needed}"
    )


def _found(severity: str, before: str, rows: Sequence[Example], noun: str, after: str) -> list[Finding]:
    """A finding that counts `rows` and shows the first few, or none when there are none."""
    shown = tuple(f"line {row.line}: {row.text[:80]}" for row in rows[:_SHOWN])
    return [Finding(severity, f"{before} {counted(len(rows), noun)} {after}".strip(), len(rows), shown)] if rows else []


def _label_counts(part: ExampleSet) -> dict[str, int]:
    """Commonest first."""
    counts = Counter(example.label for example in part.examples if example.label is not None)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _normalized(text: str) -> str:
    """Case folded, punctuation and spaces as one space; empty for texts of punctuation alone: not compared."""
    return _NOT_A_WORD.sub(" ", text.casefold()).strip()


def _spelling(label: str) -> str:
    return "".join(label.casefold().split())


def _spaced(rows: Sequence[Row]) -> Sequence[Row]:
    """All rows, or as many as are looked at of very many, evenly spaced."""
    return rows[:: -(-len(rows) // _LOOKED_AT) or 1]
