"""Tokenizers side by side: how far each compresses text, and what it does not know, by kind of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gnomon.text.scripts import script_shares
from gnomon.text.tokenizer import Tokenizer

LIMIT = 5_000_000
"""Characters of the user's text that are looked at, from its beginning."""

_NAMES = {"Han": "Chinese", "Kana": "Japanese", "Hangul": "Korean", "Emoji": "emoji"}
_CODE_SIGNS = frozenset("{}()[]<>;=_/\\*+|&^%$#`~")
_CODE_SHARE = 0.1  # of a line's visible characters; prose, brackets and all, stays below half of that

SAMPLES: tuple[str, ...] = (
    "The quick brown fox jumps over the lazy dog, twice, and is home before the rain.",
    "In 1969, on a July night, some 600 million people watched two men walk on the Moon.",
    "Nobody's naïve café owner would charge £4.50 for a cup of cold coffee, would they?",
    "我非常喜欢在秋天的早晨沿着河边散步，看树叶一片一片地落下来。",
    "北京大学的研究人员发现，语言模型可以用更少的参数达到相近的效果。",
    "今天的会议改到下午三点，请大家提前十分钟到会议室。",
    "def mean(values: list[float]) -> float:",
    "    return sum(values) / len(values) if values else float('nan')",
    "for (int i = 0; i < n; ++i) { total += weights[i] * x[i]; }",
    "SELECT name, COUNT(*) AS n FROM users WHERE age >= 18 GROUP BY name;",
    "great news 🎉🎉 see you tonight 😀👍",
    "👩‍👩‍👧 on holiday 🏖️☀️ back on Monday 🇫🇷",
)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a tokenizer made of lines of text, special tokens not counted. `restored` lines came back exactly."""

    lines: int = 0
    restored: int = 0
    bytes: int = 0
    characters: int = 0
    tokens: int = 0
    unknown: int = 0

    @property
    def bytes_per_token(self) -> float:
        return self.bytes / max(1, self.tokens)

    @property
    def tokens_per_character(self) -> float:
        return self.tokens / max(1, self.characters)

    @property
    def unknown_share(self) -> float:
        return self.unknown / max(1, self.tokens)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Compared:
    """One tokenizer's counts by kind of text (Latin, Chinese, code, emoji, other scripts by name) and over all."""

    name: str
    vocab_size: int
    kinds: dict[str, Counts]

    @property
    def total(self) -> Counts:
        return sum(self.kinds.values(), Counts())


def compare(
    tokenizers: Mapping[str, Tokenizer], texts: Iterable[str] | None = None, *, limit: int = LIMIT
) -> list[Compared]:
    """Each tokenizer on the same lines: those of `texts`, or a few built-in ones of each kind."""
    lines = list(_lines(SAMPLES if texts is None else texts, limit))
    kinds = [kind_of(line) for line in lines]
    order = sorted(set(kinds), key=lambda kind: (-kinds.count(kind), kind))
    compared = []
    for name, tokenizer in tokenizers.items():
        counts = dict.fromkeys(order, Counts())
        for kind, count in zip(kinds, _counted(tokenizer, lines), strict=True):
            counts[kind] += count
        compared.append(Compared(name, tokenizer.vocab_size, counts))
    return compared


def kind_of(line: str) -> str:
    """ "emoji" where there is one, else "code" where a tenth is signs of programs, else the main script."""
    shares = script_shares([line])
    if "Emoji" in shares:
        return "emoji"
    script = next(iter(shares), "other")
    visible = [character for character in line if not character.isspace()]
    signs = sum(character in _CODE_SIGNS for character in visible)
    if script in ("Latin", "other") and signs >= _CODE_SHARE * max(1, len(visible)):
        return "code"
    return _NAMES.get(script, script)


def _lines(texts: Iterable[str], limit: int) -> Iterator[str]:
    for text in texts:
        for line in text.split("\n"):
            if line.strip():
                yield line
        limit -= len(text)
        if limit <= 0:
            return


def _counted(tokenizer: Tokenizer, lines: list[str]) -> Iterator[Counts]:
    special = len(tokenizer.encode("").ids)
    for line, encoded in zip(lines, tokenizer.encode_batch(lines), strict=True):
        yield Counts(
            lines=1,
            restored=tokenizer.decode(encoded.ids) == line,
            bytes=len(line.encode("utf-8", "surrogatepass")),
            characters=len(line),
            tokens=len(encoded.ids) - special,
            unknown=encoded.unknown,
        )
