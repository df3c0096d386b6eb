"""Files of texts, labelled or not, to example sets: formats, encodings, columns, and rows that cannot be used."""

from __future__ import annotations

import difflib
import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from gnomon.errors import GnomonError, did_you_mean
from gnomon.formats.files import explained
from gnomon.text.columns import Columns, Nested, choose_columns
from gnomon.text.encodings import decoded_lines, mend_surrogates, opened
from gnomon.text.examples import BadRow, Example, ExampleSet, counted
from gnomon.text.examples import check_labels as check_labels  # what is read is also checked
from gnomon.text.records import decode_json_document, decode_json_lines, json_records, parquet_rows
from gnomon.text.tables import Row, Table, delimited, labelled_lines, plain_lines

MAX_CHARACTERS = 100_000  # a longer text is no example but a mistake: an open quote, a file in a cell
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".json", ".parquet")
_SUFFIXES = (*TABLE_SUFFIXES, ".txt", *(f"{suffix}.gz" for suffix in (".csv", ".tsv", ".jsonl", ".json", ".txt")))
_FOREIGN = {
    ".xlsx": "a spreadsheet",
    ".xls": "a spreadsheet",
    ".ods": "a spreadsheet",
    ".zip": "an archive",
    ".tar": "an archive",
    ".pkl": "a pickle, which can run code when it is opened",
    ".pickle": "a pickle, which can run code when it is opened",
}


def read_examples(
    path: Path | str,
    *,
    text_column: str | int | None = None,
    label_column: str | int | None = None,
    encoding: str | None = None,
    on_bad_row: str = "stop",
    labelled: bool = True,
) -> ExampleSet:
    """Read .csv, .tsv, .jsonl, .json (a list of objects), .parquet or text lines (`LABEL text`), plain or .gz.

    Columns (a name, or a number from 1) are found by name, else by content, unless given. Labels are text exactly as
    written; only an empty cell is missing. `on_bad_row` "stop" raises a GnomonError with file:line at the first row
    that cannot be used, "skip" leaves such rows out and lists them. With `labelled` False, no label is looked for.
    """
    if on_bad_row not in ("stop", "skip"):
        raise GnomonError(f"on_bad_row is {on_bad_row!r}", did_you_mean(on_bad_row, ("stop", "skip")))
    path = Path(path)
    text, label = (None if column is None else str(column) for column in (text_column, label_column))
    with explained(path, doing="read"):
        _check_path(path)
    with opened(path) as stream:
        table = _table(path, stream, (text, label), encoding, labelled=labelled)
        return _collect(table, str(path), (text, label), on_bad_row, labelled=labelled)


def read_texts(
    path: Path | str,
    *,
    text_column: str | int | None = None,
    encoding: str | None = None,
    on_bad_row: str = "stop",
) -> ExampleSet:
    """Texts without labels: lines of a .txt file or of standard input ("-"), or the text column of a table."""
    if str(path) == "-":
        return decode_texts(sys.stdin.buffer, source="standard input", encoding=encoding, on_bad_row=on_bad_row)
    return read_examples(path, text_column=text_column, encoding=encoding, on_bad_row=on_bad_row, labelled=False)


def decode_texts(
    data: bytes | BinaryIO, *, source: str, encoding: str | None = None, on_bad_row: str = "stop"
) -> ExampleSet:
    """One text a line of `data`, empty lines left out."""
    stream = io.BytesIO(data) if isinstance(data, bytes) else data
    table = plain_lines(decoded_lines(stream, source, encoding))
    return _collect(table, source, (None, None), on_bad_row, labelled=False)


def _check_path(path: Path) -> None:
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir() if file.name.endswith(_SUFFIXES))
        raise GnomonError(
            f"{path} is a folder; a file of examples is expected",
            f"it holds {', '.join(files[:10])}: name one"
            if files
            else f"name a file ({', '.join(TABLE_SUFFIXES)}, .txt)",
        )
    if not path.exists():
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)
        raise GnomonError(
            f"{path} does not exist", f"did you mean {path.parent / close[0]}?" if close else "check the path"
        )
    if path.suffix.lower() in _FOREIGN:
        raise GnomonError(
            f"{path} is {_FOREIGN[path.suffix.lower()]}", f"save it as one of {', '.join(TABLE_SUFFIXES)} or .txt"
        )


def _table(
    path: Path, stream: BinaryIO, asked: tuple[str | None, str | None], encoding: str | None, *, labelled: bool
) -> Table:
    source, kind = str(path), Path(path.name.lower().removesuffix(".gz")).suffix
    if kind == ".parquet":
        return parquet_rows(path, source)
    lines = decoded_lines(stream, source, encoding)
    if kind == ".json":
        return json_records(decode_json_document("".join(lines), source))
    if kind in (".jsonl", ".ndjson"):
        return json_records(decode_json_lines(lines))
    if kind in (".csv", ".tsv", ".tab"):
        table = delimited(lines, delimiter=None if kind == ".csv" else "\t", asked=asked, source=source)
        if not labelled or table.width != 1:
            return table
        stream.seek(0)
        lines = decoded_lines(stream, source, encoding)
        return labelled_lines(lines, source=source, label_column=asked[1]) or table
    if not labelled:
        return plain_lines(lines)
    return _text_lines(lines, source, asked)


def _text_lines(lines: Iterator[str], source: str, asked: tuple[str | None, str | None]) -> Table:
    """A text file with labels: tab-separated, or the label as first or last word."""
    held = list(lines)
    filled = [line for line in held[:1000] if line.strip()]
    if not filled:
        return plain_lines(iter(()))
    if sum(line.count("\t") == filled[0].count("\t") > 0 for line in filled) > 0.9 * len(filled):
        return delimited(iter(held), delimiter="\t", asked=asked, source=source)
    table = labelled_lines(iter(held), source=source, label_column=asked[1])
    if table is None:
        raise GnomonError(
            f"{source} is text without columns, and neither the first nor the last words of its lines look like labels",
            "give --label-column 1 (the first word) or 2 (the last word), or a .csv, .tsv or .jsonl file",
        )
    return table


def _collect(
    table: Table, source: str, asked: tuple[str | None, str | None], on_bad_row: str, *, labelled: bool
) -> ExampleSet:
    bad = _BadRows(source, on_bad_row)
    if not table.sample:
        bad.extend(row for row in table.rows if isinstance(row, BadRow))
        what = "has no row that can be used" if bad.rows else "has a header and no rows" if table.names else "is empty"
        raise GnomonError(f"{source} {what}", bad.first or "give a file with one example a row")
    columns = choose_columns(
        table.names,
        [row.cells for row in table.sample],
        source=source,
        text_column=asked[0],
        label_column=asked[1],
        labelled=labelled,
    )
    examples: list[Example] = []
    for row in table.rows:
        example = row if isinstance(row, BadRow) else _example(row, columns)
        if isinstance(example, BadRow):
            bad.add(example)
            continue
        examples.append(example)
    if not examples:
        raise GnomonError(f"{source} has no row that can be used", bad.first)
    decisions = [*table.decisions]
    if not table.lines_of_text:
        decisions.append(columns.text_decision)
    if columns.label is not None:
        values = len({example.label for example in examples})
        decisions.append(f"{columns.label_decision} ({counted(values, 'value')})")
    examples, halves = _mended(examples)
    if halves:
        decisions.append(f"U+FFFD replaces {counted(halves, 'half surrogate pair')} in {source}")
    return ExampleSet(source, tuple(examples), (*decisions, *bad.decisions()), tuple(bad.rows))


def _example(row: Row, columns: Columns) -> Example | BadRow:
    text = row.cells[columns.text]
    label = None if columns.label is None else row.cells[columns.label]
    problem = _text_problem(text)
    if not problem and columns.label is not None:
        problem = _label_problem(label)
    if problem or text is None:
        return BadRow(row.line, problem, " | ".join(cell or "" for cell in row.cells)[:80])
    return Example(text, label, row.line)


def _mended(examples: list[Example]) -> tuple[list[Example], int]:
    """The examples without halves of surrogate pairs, and how many halves were replaced."""
    mended: list[Example] = []
    halves = 0
    for example in examples:
        text, in_text = mend_surrogates(example.text)
        label, in_label = (None, 0) if example.label is None else mend_surrogates(example.label)
        unchanged = text is example.text and label is example.label
        mended.append(example if unchanged else Example(text, label, example.line))
        halves += in_text + in_label
    return mended, halves


def _text_problem(text: str | None) -> str:
    if text is None or not text.strip():
        return "the text is empty"
    if isinstance(text, Nested):
        return "the text is a list or an object"
    if "\0" in text:
        return f"a NUL byte in the text, after {text.index(chr(0)):,} characters"
    if len(text) > MAX_CHARACTERS:
        return f"a text of {len(text):,} characters, at most {MAX_CHARACTERS:,} are taken"
    return ""


def _label_problem(label: str | None) -> str:
    if label is None or not label.strip():
        return "the label is missing"
    if isinstance(label, Nested):
        return "the label is a list or an object; one label a text is expected"
    if "\0" in label:
        return "a NUL byte in the label"
    return ""


class _BadRows:
    """What to do with rows that cannot be used: stop at the first, or count and list them."""

    def __init__(self, source: str, policy: str) -> None:
        self._source = source
        self._policy = policy
        self.rows: list[BadRow] = []

    def add(self, row: BadRow) -> None:
        if self._policy == "stop":
            raise GnomonError(
                f"{self._source}:{row.line}: {row.problem}: {row.value!r}",
                "mend the row, or leave such rows out with --on-bad-row skip",
            )
        self.rows.append(BadRow(row.line, row.problem, mend_surrogates(row.value)[0]))

    def extend(self, rows: Iterable[BadRow]) -> None:
        for row in rows:
            self.add(row)

    @property
    def first(self) -> str:
        """The first of them in words, for a hint."""
        return f"line {self.rows[0].line}: {self.rows[0].problem}" if self.rows else ""

    def decisions(self) -> tuple[str, ...]:
        if not self.rows:
            return ()
        return (f"left out of {self._source}: {counted(len(self.rows), 'row')}; {self.first}",)
