"""How good vectors are: rank correlation with people's similarities, and the share of analogies answered.

Sets are files of pairs (two words and a figure) or of questions (four words), as commonly published: WordSim-353,
SimLex-999, MEN, RW, MSR, Google's analogies, wordsim-240 and -297, CA8. A word that is unknown as written is tried in
lower case; pairs and questions with an unknown word are left out and counted.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError
from gnomon.text.encodings import decoded_lines, opened

Array = npt.NDArray[Any]
LIMIT = 300_000
"""Words that may answer an analogy, the most frequent ones, as in gensim."""
_BATCH = 128
_RESAMPLES = 1000
_EXPECTED = "a file of two words and a figure a line, or of four words, is expected"
_TAGGED = re.compile(r".+-[nvjar]")
_PACKAGED = {"wordsim353.tsv": "WordSim-353", "simlex999.txt": "SimLex-999", "questions-words.txt": "Google analogies"}


class Comparable(Protocol):
    """What can be measured: `WordVectors`, and the baselines."""

    @property
    def index(self) -> Mapping[str, int]:
        """The place of each word."""
        ...

    def cosines(self, first: Array, second: Array) -> Array:
        """Cosines [N] of the words at two lists of places."""
        ...

    def analogy_cosines(self, a: Array, b: Array, c: Array, *, limit: int) -> Array:
        """Cosines [N, limit] of the first words with b - a + c."""
        ...


@dataclass(frozen=True)
class Pairs:
    """Two words and how alike people find them."""

    name: str
    rows: tuple[tuple[str, str, float], ...]


@dataclass(frozen=True)
class Questions:
    """Four words a row: a is to b as c is to d; and the section each row stands in."""

    name: str
    rows: tuple[tuple[str, str, str, str], ...]
    sections: tuple[str, ...]


@dataclass(frozen=True)
class Score:
    """`value` with its 95 % interval: Spearman's rho of pairs, or the share of questions answered right.

    `used` of `total` rows had all their words; `sections` gives each section's share and rows. NaN: nothing to go by.
    """

    name: str
    kind: str
    value: float
    low: float
    high: float
    used: int
    total: int
    sections: Mapping[str, tuple[float, int]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"sections": {name: list(pair) for name, pair in self.sections.items()}}


def evaluate(vectors: Comparable, sets: Sequence[Pairs | Questions]) -> list[Score]:
    """Measure vectors on each set."""
    return [_similarity(vectors, one) if isinstance(one, Pairs) else _analogies(vectors, one) for one in sets]


def packaged_sets() -> list[Pairs | Questions]:
    """WordSim-353, SimLex-999 and Google's analogies out of the package gensim; empty when it is not installed."""
    spec = importlib.util.find_spec("gensim")
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(spec.submodule_search_locations[0]) / "test" / "test_data"
    return [read_set(folder / file, name=name) for file, name in _PACKAGED.items() if (folder / file).is_file()]


def read_set(path: Path | str, *, name: str | None = None) -> Pairs | Questions:
    """A file of pairs or questions: CSV with a header, or words parted by tabs or spaces; ": section" and "#" lines.

    Raises GnomonError with file and line for a row that is neither.
    """
    place = Path(path)
    with opened(place) as stream:
        lines = [line.strip() for line in decoded_lines(stream, str(place))]
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not numbered:
        raise GnomonError(f"{place} holds no pairs and no questions", _EXPECTED)
    rows, sections = _columns(place, numbered)
    name = name or place.stem
    if len(rows[0]) == 4:
        return Questions(name, tuple(rows), tuple(sections))
    words = [word for row in rows for word in row[:2]]
    cut = -2 if all(_TAGGED.fullmatch(word) for word in words) else None  # MEN marks the part of speech: "sun-n"
    return Pairs(name, tuple((first[:cut], second[:cut], float(value)) for first, second, value in rows))


def _columns(path: Path, numbered: list[tuple[int, str]]) -> tuple[list[Any], list[str]]:
    """Rows of three or four fields, and the section of each."""
    heading = [field.strip().lower() for field in _fields(numbered[0][1])]
    places: list[int] | None = None
    kinds: int | None = None
    if "word1" in heading and "word2" in heading:
        value = next((name for name in ("similarity", "simlex999", "score", "mean") if name in heading), None)
        last = ["word3", "target"] if "word3" in heading and "target" in heading else [value] if value else []
        if not last:
            raise GnomonError(
                f"{path}:{numbered[0][0]}: no column of similarities, nor of a third word and a target",
                f"found {', '.join(heading)}",
            )
        places = [heading.index(name) for name in ("word1", "word2", *last)]
        kinds = heading.index("type") if "type" in heading else None
        numbered = numbered[1:]
    rows: list[Any] = []
    sections: list[str] = []
    section = ""
    for number, line in numbered:
        if line.startswith(":"):
            section = line[1:].strip()
            continue
        fields = [field.strip() for field in _fields(line)]
        row = tuple(fields[place] for place in places if place < len(fields)) if places else tuple(fields)
        if not any(row):  # a record with nothing but its number
            continue
        if not _is_row(row) or (rows and len(row) != len(rows[0])):
            raise GnomonError(f"{path}:{number}: not two words and a figure, nor four words: {line[:80]!r}", _EXPECTED)
        rows.append(row)
        sections.append(fields[kinds] if kinds is not None else section)
    if not rows:
        raise GnomonError(f"{path} holds no pairs and no questions", _EXPECTED)
    return rows, sections


def _fields(line: str) -> list[str]:
    if "\t" in line:
        return line.split("\t")
    return next(csv.reader([line])) if "," in line else line.split()


def _is_row(row: tuple[str, ...]) -> bool:
    if len(row) == 4 and all(row):
        return True
    try:
        return len(row) == 3 and bool(row[0] and row[1]) and np.isfinite(float(row[2]))
    except ValueError:
        return False


def _places(index: Mapping[str, int], words: Sequence[str]) -> list[int] | None:
    found = [index.get(word, index.get(word.lower(), -1)) for word in words]
    return None if min(found) < 0 else found


def _similarity(vectors: Comparable, pairs: Pairs) -> Score:
    known = [(both, row[2]) for row in pairs.rows if (both := _places(vectors.index, row[:2])) is not None]
    people = np.array([value for _, value in known])
    places = np.array([both for both, _ in known], np.int64).reshape(-1, 2)
    cosines = np.asarray(vectors.cosines(places[:, 0], places[:, 1]), np.float64) if known else people
    value = spearman(people, cosines)
    generator = np.random.default_rng(0)
    draws = (generator.integers(0, len(known), len(known)) for _ in range(_RESAMPLES if len(known) > 2 else 0))
    spread = [spearman(people[draw], cosines[draw]) for draw in draws]
    low, high = np.nanpercentile(spread, [2.5, 97.5]) if np.isfinite(spread).any() else (float("nan"),) * 2
    return Score(pairs.name, "similarity", value, float(low), float(high), len(known), len(pairs.rows), {})


def spearman(first: Array, second: Array) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN for fewer than three values, or where all are equal."""
    if len(first) < 3:
        return float("nan")
    ranks = [_ranks(values) - (len(values) - 1) / 2 for values in (first, second)]
    scale = np.sqrt(np.sum(ranks[0] ** 2) * np.sum(ranks[1] ** 2))
    return float(np.sum(ranks[0] * ranks[1]) / scale) if scale > 0 else float("nan")


def _ranks(values: Array) -> Array:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[place]


def _analogies(vectors: Comparable, questions: Questions) -> Score:
    found = [_places(vectors.index, row) for row in questions.rows]
    limit = min(LIMIT, len(vectors.index))
    asked = [(row, section) for row, section in zip(found, questions.sections, strict=True) if row and max(row) < limit]
    right: list[bool] = []
    for start in range(0, len(asked), _BATCH):
        a, b, c, answers = np.array([row for row, _ in asked[start : start + _BATCH]]).T
        cosines = vectors.analogy_cosines(a, b, c, limit=limit)
        for given in (a, b, c):
            cosines[np.arange(len(given)), given] = -np.inf
        right += (cosines.argmax(axis=1) == answers).tolist()
    by_section: dict[str, list[bool]] = {}
    for (_, section), good in zip(asked, right, strict=True):
        by_section.setdefault(section, []).append(good)
    sections = {name: (float(np.mean(all_)), len(all_)) for name, all_ in by_section.items() if name}
    value = float(np.mean(right)) if right else float("nan")
    low, high = _wilson(value, len(right))
    return Score(questions.name, "analogy", value, low, high, len(asked), len(questions.rows), sections)


def _wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    if not count:
        return float("nan"), float("nan")
    z = 1.959964
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return float(middle - half), float(middle + half)
