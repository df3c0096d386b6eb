"""Which column is the text and which the label: as asked, by name, else by content; every decision is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon.errors import GnomonError, did_you_mean

# In order of preference: a table with a title and a content is about its content.
TEXT_NAMES = (
    *("text", "sentence", "question", "content", "review", "query", "utterance", "comment", "message", "body"),
    *("document", "tweet", "post", "description", "headline", "title", "summary", "input", "prompt"),
    *("文本", "内容", "正文", "句子", "问题", "评论", "评价", "标题", "摘要", "texts", "sentences", "questions"),
)
LABEL_NAMES = (
    *("label", "category", "intent", "class", "sentiment", "topic", "target", "tag", "type", "rating", "y"),
    *("标签", "类别", "分类", "意图", "情感", "类型", "主题", "labels", "categories", "classes"),
)
_NOT_CONTENT = {"id", "ids", "idx", "index", "number", "length", "len", "count", "language", "lang"}

Cells = Sequence[str | None]


class Nested(str):
    """The JSON text of a list or an object in a cell: neither a text nor a label."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Indices from 0, `label` None for texts without labels; and both choices in words."""

    text: int
    label: int | None
    text_decision: str
    label_decision: str


@dataclass(frozen=True, slots=True)
class _Profile:
    """What a sample shows of one column: filled cells, distinct ones, their mean length, values that stand alone."""

    filled: int
    distinct: int
    mean_length: float
    singles: int
    longest: int

    @property
    def like_labels(self) -> bool:
        return 2 <= self.distinct <= max(2, self.filled // 2) and self.longest <= 100 and self.filled >= 4


def looks_like_header(first: Cells, rest: Sequence[Cells], asked: Sequence[str | None]) -> bool:
    """Whether the first row names the columns: columns are asked for by name, it has known names, or a label that never
    comes again."""
    if any(name is not None and not name.isdecimal() for name in asked):
        return True
    names = [(cell or "").strip().casefold() for cell in first]
    for index, name in enumerate(names):
        if (
            name in TEXT_NAMES or name in LABEL_NAMES
        ):  # unless it comes again: "question" may be a label of the first of many rows
            return not any(len(row) > index and row[index] == first[index] for row in rest)
    if len(rest) < 10 or not all(names) or len(set(names)) < len(names):
        return False
    for index in range(len(first)):
        profile = _profile(rest, index)
        repeated = profile.like_labels and profile.singles == 0
        if repeated and not any(len(row) > index and row[index] == first[index] for row in rest):
            return True
    return False


def looks_like_labels(values: Sequence[str]) -> bool:
    """Whether the first (or last) words of lines are labels: few, repeated and with a letter or digit in each."""
    counts = Counter(values)
    if any(value.startswith("__label__") for value in counts):
        return all(value.startswith("__label__") for value in counts)
    if not 2 <= len(counts) <= max(2, len(values) // 10):
        return False
    worded = all(any(character.isalnum() for character in value) and len(value) <= 60 for value in counts)
    return worded and sum(count == 1 for count in counts.values()) <= len(counts) // 5


def choose_columns(
    names: Sequence[str] | None,
    sample: Sequence[Cells],
    *,
    source: str,
    text_column: str | None,
    label_column: str | None,
    labelled: bool,
) -> Columns:
    """Raises GnomonError naming the columns and the options to give when it cannot be decided, or a name is wrong."""
    width = len(names) if names is not None else max((len(row) for row in sample), default=0)
    shown = [repr(name) for name in names] if names is not None else [f"number {index + 1}" for index in range(width)]
    text = _asked(text_column, names, width, source, "--text-column")
    label = _asked(label_column, names, width, source, "--label-column") if labelled else None
    if text is not None and text == label:
        raise GnomonError(f"column {shown[text]} of {source} cannot be both text and label", "name two columns")
    asked = (text, label)
    if text is None:
        text = _named(names, TEXT_NAMES, taken=label)
    if label is None and labelled:
        label = _named(names, LABEL_NAMES, taken=text)
    named = (text, label)
    text, label = _by_content(text, label, sample, width, labelled=labelled)
    if text is None or (labelled and label is None):
        needed = (("text", text), ("label", label if labelled else 0))
        missing = " and the ".join(kind for kind, index in needed if index is None)
        listed = ", ".join(shown[:20]) + (", ..." if width > 20 else "")
        raise GnomonError(
            f"{source}: cannot tell which column holds the {missing}; its columns are {listed}",
            "say it with --text-column" + (" and --label-column" if labelled else "") + " (a name, or a number from 1)",
        )
    how = ["" if index is not None else ", by its content" for index in named]
    how = [words if index is None else ", as asked" for index, words in zip(asked, how, strict=True)]
    label_decision = "" if label is None else f"column {shown[label]} is the label{how[1]}"
    return Columns(text, label, f"column {shown[text]} is the text{how[0]}", label_decision)


def _asked(wanted: str | None, names: Sequence[str] | None, width: int, source: str, option: str) -> int | None:
    if wanted is None:
        return None
    for folded in (False, True):
        for index, name in enumerate(names or ()):
            if name == wanted or (folded and name.strip().casefold() == wanted.strip().casefold()):
                return index
    if wanted.isdecimal():
        if 1 <= int(wanted) <= width:
            return int(wanted) - 1
        raise GnomonError(
            f"{source} has no column {wanted}: it has {width}", f"give {option} a number from 1 to {width}"
        )
    raise GnomonError(f"{source} has no column {wanted!r}", did_you_mean(wanted, names or ()))


def _named(names: Sequence[str] | None, known: Sequence[str], *, taken: int | None) -> int | None:
    """The column of the most preferred name; else the only one in which such a name is a part ("coarse_label")."""
    folded = [name.strip().casefold() for name in names or ()]
    for name in known:
        if name in folded and folded.index(name) != taken:
            return folded.index(name)
    words = [set(name.replace("-", "_").replace(" ", "_").split("_")) for name in folded]
    likely = [index for index, parts in enumerate(words) if parts & set(known[:10]) and not parts & _NOT_CONTENT]
    return likely[0] if len(likely) == 1 and likely[0] != taken else None


def _by_content(
    text: int | None, label: int | None, sample: Sequence[Cells], width: int, *, labelled: bool
) -> tuple[int | None, int | None]:
    """Fill in what is None: the text is the one long column, the label the one with few, repeated values."""
    profiles = {index: _profile(sample, index) for index in range(width)}
    if text is None:
        open_columns = sorted(
            (index for index in profiles if index != label), key=lambda index: -profiles[index].mean_length
        )
        lengths = [profiles[index].mean_length for index in open_columns]
        if len(lengths) == 1 or (lengths and lengths[0] > 2 * lengths[1]):
            text = open_columns[0]
        elif len(lengths) == 2 and label is None and labelled:
            text = max(open_columns, key=lambda index: profiles[index].distinct)
    if label is None and labelled and text is not None:
        others = [index for index in profiles if index != text]
        likely = [index for index in others if profiles[index].like_labels]
        if len(others) == 1 and profiles[others[0]].distinct < max(2, profiles[text].distinct):
            likely = others
        label = likely[0] if len(likely) == 1 else None
    return text, label


def _profile(rows: Sequence[Cells], index: int) -> _Profile:
    values = [value for row in rows if len(row) > index and (value := row[index])]
    counts = Counter(values)
    total = sum(map(len, values))
    singles = sum(count == 1 for count in counts.values())
    longest = max(map(len, counts), default=0)
    return _Profile(len(values), len(counts), total / max(1, len(values)), singles, longest)
