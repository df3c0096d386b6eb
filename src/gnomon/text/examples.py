"""Labelled texts, and how a set of them is split, de-duplicated and checked."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gnomon.errors import GnomonError, did_you_mean


@dataclass(frozen=True, slots=True)
class Example:
    """One text; `label` is None where there is none, `line` the line of the file where its record starts."""

    text: str
    label: str | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class BadRow:
    """A record that could not be used: where it starts, what is wrong, and the beginning of what stands there."""

    line: int
    problem: str
    value: str


@dataclass(frozen=True)
class ExampleSet:
    """Texts of one source, in its order; `decisions` are sentences on how it was read."""

    source: str
    examples: tuple[Example, ...]
    decisions: tuple[str, ...] = ()
    bad_rows: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """All texts, in order."""
        return tuple(example.text for example in self.examples)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels, in order; GnomonError where one is missing."""
        labels = tuple(example.label for example in self.examples if example.label is not None)
        if len(labels) < len(self.examples):
            bare = next(example for example in self.examples if example.label is None)
            raise GnomonError(f"{self.source}:{bare.line} has no label", "give labelled texts")
        return labels

    @cached_property
    def label_names(self) -> tuple[str, ...]:
        """The distinct labels, sorted as text."""
        return tuple(sorted({example.label for example in self.examples if example.label is not None}))


@dataclass(frozen=True)
class Splits:
    """Three parts of the data; `decisions` are sentences on how it was split."""

    train: ExampleSet
    valid: ExampleSet
    test: ExampleSet
    decisions: tuple[str, ...] = ()


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def split_by_hash(examples: ExampleSet, *, valid: float, test: float) -> Splits:
    """Parts by a hash of the text: equal texts land together, and new rows move no old one. A share may be 0.
    Texts whose label would have none in training stay there.

    Raises GnomonError when a share above 0 holds no text, or nothing is left to train on.
    """
    valid_end = test + valid
    if valid_end == 0:
        return Splits(examples, replace(examples, examples=()), replace(examples, examples=()))
    places, rare = _places(examples, held=valid_end)
    parts = ["test" if place < test else "valid" if place < valid_end else "train" for place in places]
    train, held_valid, held_test = (_part(examples, parts, name) for name in ("train", "valid", "test"))
    for part, share, name in ((train, 1 - valid_end, "train"), (held_valid, valid, "valid"), (held_test, test, "test")):
        if share > 0 and not len(part):
            raise GnomonError(
                f"{examples.source} is too small to split: of its {len(examples):,} texts none falls to {name}",
                "add texts, or give the parts as files of their own (--valid, --test)",
            )
    shares = " and ".join(
        f"{len(part):,} texts to {use}"
        for part, use, share in ((held_valid, "validate", valid), (held_test, "test", test))
        if share > 0
    )
    decisions = [f"{examples.source} is split by a hash of each text: {len(train):,} texts to train, {shares}"]
    if rare:
        decisions.append(f"too rare to be held out, so in training alone: {', '.join(map(repr, rare[:10]))}")
    return Splits(train, held_valid, held_test, tuple(decisions))


def deduplicate(examples: ExampleSet) -> ExampleSet:
    """Drop repeated texts, keeping the first of each: a text and label that stand twice, and a text labelled otherwise
    before. Both are counted in the decisions, the latter as a conflict."""
    first: dict[str, Example] = {}
    repeated = 0
    conflicts: list[Example] = []
    for example in examples.examples:
        kept = first.setdefault(example.text, example)
        if kept is not example:
            repeated += kept.label == example.label
            if kept.label != example.label:
                conflicts.append(example)
    decisions = list(examples.decisions)
    if repeated:
        decisions.append(f"left out of {examples.source}: {counted(repeated, 'repeated row')}")
    if conflicts:
        shown = conflicts[0]
        decisions.append(
            f"left out of {examples.source}: {counted(len(conflicts), 'row')} with the text of an earlier one and "
            f"another label; the first label counts (line {shown.line}: {shown.text[:60]!r} is {shown.label!r}, "
            f"and {first[shown.text].label!r} in line {first[shown.text].line})"
        )
    return replace(examples, examples=tuple(first.values()), decisions=tuple(decisions))


def check_labels(train: ExampleSet, *others: ExampleSet) -> None:
    """Refuse, with a GnomonError, training data of fewer than two classes and labels that training has not seen."""
    if len(train.label_names) < 2:
        found = f"only the label {train.label_names[0]!r}" if train.label_names else "no label at all"
        raise GnomonError(
            f"{train.source} has {found} in its {len(train):,} rows: two or more classes are needed",
            "check which column holds the label (--label-column), or add examples of another class",
        )
    for other in others:
        check_label_names(train.label_names, other, origin=train.source)


def check_label_names(names: Collection[str], other: ExampleSet, *, origin: str) -> None:
    """Refuse, with a GnomonError that names the line, labels of `other` that are not among `names` (of `origin`)."""
    known = set(names)
    unseen = Counter(example.label for example in other.examples if example.label not in known)
    unseen.pop(None, None)
    if not unseen:
        return
    label = min(unseen, key=lambda name: (-unseen[name], name or ""))
    place = next(example.line for example in other.examples if example.label == label)
    more = f" (and {len(unseen) - 1} more such labels)" if len(unseen) > 1 else ""
    raise GnomonError(
        f"{other.source}:{place} has the label {label!r}, which {origin} never has{more}",
        f"{did_you_mean(str(label), known)} Mend the labels, or add training examples of it",
    )


def _places(examples: ExampleSet, *, held: float) -> tuple[list[float], list[str | None]]:
    """Each text's place in [0, 1), and the labels whose texts all fell below `held`: those are moved to its end."""
    keys = [unicodedata.normalize("NFC", example.text).strip() for example in examples.examples]
    place = {key: _uniform(key) for key in keys}
    rows = [(example.label, key) for example, key in zip(examples.examples, keys, strict=True)]
    trained = {label for label, key in rows if place[key] >= held}
    rare = sorted({label for label, _ in rows if label not in trained}, key=str) if held < 1 else []
    place |= {key: held for label, key in rows if label in rare}
    return [place[key] for key in keys], rare


def _uniform(key: str) -> float:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) / 2**64


def _part(examples: ExampleSet, parts: Sequence[str], name: str) -> ExampleSet:
    chosen = tuple(example for example, part in zip(examples.examples, parts, strict=True) if part == name)
    # How the file was read is said once.
    decisions, bad_rows = (examples.decisions, examples.bad_rows) if name == "train" else ((), ())
    return ExampleSet(f"{examples.source} ({name} part)", chosen, decisions, bad_rows)
