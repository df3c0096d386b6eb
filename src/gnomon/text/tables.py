"""Lines of CSV, TSV and plain text to rows of cells; each row knows the line where its record starts."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from gnomon.text.columns import Cells, looks_like_header, looks_like_labels
from gnomon.text.examples import BadRow

SAMPLE = 1000  # rows looked at before the columns are chosen


@dataclass(frozen=True, slots=True)
class Row:
    """One record: the line where it starts, and its cells (None where there is nothing)."""

    line: int
    cells: Cells


@dataclass(frozen=True, slots=True)
class Table:
    """`names` is None without a header, `sample` holds the first `rows`, `lines_of_text` is true of mere lines."""

    names: tuple[str, ...] | None
    sample: tuple[Row, ...]
    rows: Iterator[Row | BadRow]
    decisions: tuple[str, ...] = ()
    lines_of_text: bool = False

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.names) if self.names is not None else max((len(row.cells) for row in self.sample), default=0)


def delimited(lines: Iterator[str], *, delimiter: str | None, asked: Sequence[str | None], source: str) -> Table:
    """CSV (quotes as RFC 4180) and TSV (quoted or not, as the file shows). `delimiter` None: as the header shows."""
    head = list(islice(lines, SAMPLE))
    decisions = []
    if delimiter is None:
        delimiter = _delimiter(head)
        if delimiter != ",":
            decisions.append(f"columns of {source} are parted by {delimiter!r}")
    quoted = delimiter != "\t" or _tabs_are_quoted(head)
    rows = _csv_rows(chain(head, lines), delimiter) if quoted else _plain_rows(chain(head, lines), delimiter)
    sample, rows = peek(rows)
    if not sample:
        return Table(None, (), rows, tuple(decisions))
    first, rest = sample[0], [row.cells for row in sample[1:]]
    if looks_like_header(first.cells, rest, asked):
        names = tuple((cell or "").strip() for cell in first.cells)
        after = (row for row in rows if row.line != first.line)
        even = tuple(row for row in sample[1:] if len(row.cells) == len(names))
        return Table(names, even, _even(after, len(names), "header"), tuple(decisions))
    width = Counter(len(row.cells) for row in sample).most_common(1)[0][0]
    decisions.append(f"{source} has no header: its first line is a row")
    even = tuple(row for row in sample if len(row.cells) == width)
    return Table(None, even, _even(rows, width, "first rows"), tuple(decisions))


def plain_lines(lines: Iterator[str]) -> Table:
    """One text a line, all of it; empty lines are left out."""
    rows = (Row(number, (text,)) for number, line in enumerate(lines, 1) if (text := line.rstrip("\r\n")).strip())
    sample, again = peek(rows)
    return Table(("text",) if sample else None, sample, again, lines_of_text=True)


def labelled_lines(lines: Iterator[str], *, source: str, label_column: str | None) -> Table | None:
    """`LABEL text` or `text LABEL` lines, parted by the first or last space; None when neither end looks like labels.

    `label_column` "1" or "2" says that it is the first or the last word.
    """
    numbered = ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())
    head = list(islice(numbered, 10 * SAMPLE))
    first, last = label_column == "1", label_column == "2"
    if not first and not last:
        first = looks_like_labels([line.split(None, 1)[0] for _, line in head])
        last = not first and looks_like_labels([line.rsplit(None, 1)[-1] for _, line in head])
    if not first and not last:
        return None

    def split(line: str) -> Cells:
        parts = line.split(None, 1) if first else line.rsplit(None, 1)
        return parts if len(parts) == 2 else [*parts, None]

    sample, rows = peek(Row(number, split(line)) for number, line in chain(head, numbered))
    names = ("label", "text") if first else ("text", "label")
    return Table(
        names, sample, rows, (f"{source} has no columns: the {'first' if first else 'last'} word is the label",)
    )


def _csv_rows(lines: Iterator[str], delimiter: str) -> Iterator[Row | BadRow]:
    """Quoted fields may hold newlines. After a malformed record, reading goes on at the line after its first, so an
    open quote costs one row and not all that follow."""
    feed = _Feed(lines)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.start()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRow(feed.first_line, _csv_problem(str(error)), feed.taken[0].strip()[:80])
            feed.go_back()
            continue
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield Row(feed.first_line, cells)


class _Feed:
    """Lines for csv.reader that remember where the record began and can be given again."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._again: list[str] = []
        self._number = 0
        self.first_line = 1
        self.taken: list[str] = []

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = self._again.pop() if self._again else next(self._lines)
        self._number += 1
        self.taken.append(line)
        return line

    def start(self) -> None:
        self.first_line = self._number + 1
        self.taken.clear()

    def go_back(self) -> None:
        self._again.extend(reversed(self.taken[1:]))
        self._number = self.first_line


def _csv_problem(message: str) -> str:
    if "field larger" in message or "unexpected end" in message:
        return "a quote that is never closed, or a field of more than 131,072 characters"
    if "new-line" in message:
        return "a carriage return without a line feed"
    return f"malformed quotes ({message}); inside a quoted field a quote is written twice"


def _plain_rows(lines: Iterator[str], delimiter: str) -> Iterator[Row | BadRow]:
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if text.strip():
            yield Row(number, text.split(delimiter))


def _even(rows: Iterable[Row | BadRow], width: int, where: str) -> Iterator[Row | BadRow]:
    for row in rows:
        if isinstance(row, Row) and len(row.cells) != width:
            shown = " | ".join(cell or "" for cell in row.cells)[:80]
            yield BadRow(row.line, f"{len(row.cells)} columns where the {where} has {width}", shown)
        else:
            yield row


def peek(rows: Iterable[Row | BadRow]) -> tuple[tuple[Row, ...], Iterator[Row | BadRow]]:
    """The first rows, and all of them again."""
    rows = iter(rows)
    head = list(islice(rows, SAMPLE))
    return tuple(row for row in head if isinstance(row, Row)), chain(head, rows)


def _delimiter(head: Sequence[str]) -> str:
    """The first mark that parts nearly all rows of the sample into the same number of cells; else a comma."""
    for mark in ",;\t|":
        widths = Counter(len(row.cells) for row in _csv_rows(iter(head), mark) if isinstance(row, Row))
        width, rows = widths.most_common(1)[0] if widths else (0, 0)
        if width > 1 and rows >= 0.9 * widths.total():
            return mark
    return ","


def _tabs_are_quoted(head: Sequence[str]) -> bool:
    """Whether quotes in a TSV quote: the reading that gives rows of equal width is right. Where both do, quotes quote
    if all cells have them or some are doubled, which nobody writes otherwise."""
    if not any('"' in line for line in head):
        return False
    plain_widths = {line.count("\t") for line in head if line.strip()}
    rows = list(_csv_rows(iter(head), "\t"))[:-1]  # the last record may be cut by the end of the sample
    quoted_widths = {len(row.cells) if isinstance(row, Row) else 0 for row in rows}
    if len(plain_widths) > 1 or 0 in quoted_widths:
        return len(quoted_widths) == 1 and 0 not in quoted_widths
    cells = [cell for line in head for cell in line.rstrip("\r\n").split("\t") if cell]
    opened = [cell for cell in cells if cell.startswith('"')]
    doubled = any('""' in cell[1:-1] for cell in opened)
    return bool(opened) and all(map(_well_quoted, opened)) and (doubled or len(opened) == len(cells))


def _well_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell.endswith('"') and '"' not in cell[1:-1].replace('""', "")
