"""JSON lines, JSON lists and Parquet to rows of cells; each row knows the line (or row number) of its record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from gnomon.errors import GnomonError, require
from gnomon.text.columns import Nested
from gnomon.text.examples import BadRow
from gnomon.text.tables import SAMPLE, Row, Table, peek

_EXPECTED = (
    'a list of objects such as [{"text": "...", "label": "..."}], or one such object a line (.jsonl), is expected: '
    "write the texts and labels out in that form"
)
# Numbers stay as they are written: the label 01.0 is not 1.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def json_records(records: Iterable[tuple[int, Any] | BadRow]) -> Table:
    """Rows of decoded JSON objects; the columns are the keys of the first thousand, in order of appearance."""
    records = iter(records)
    head = list(islice(records, SAMPLE))
    objects = [record[1] for record in head if not isinstance(record, BadRow) and isinstance(record[1], dict)]
    names = tuple(dict.fromkeys(key for content in objects for key in content))
    rows = (_json_row(record, names) for record in chain(head, records))
    sample, again = peek(rows)
    return Table(names, sample, again)


def decode_json_lines(lines: Iterator[str]) -> Iterator[tuple[int, Any] | BadRow]:
    """A JSON value a line; numbers and booleans as their JSON text, so that a label stays as it is written."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _DECODER.decode(line.strip())
        except (json.JSONDecodeError, RecursionError) as error:
            yield BadRow(number, f"not a JSON object on one line ({error})", line.strip()[:80])


def decode_json_document(text: str, source: str) -> Iterator[tuple[int, Any] | BadRow]:
    """The objects of one JSON list, each with the line where it starts. JSON lines in a .json file are read as such.

    Raises GnomonError where the JSON is malformed, or is no list: what was found is described.
    """
    start = _after_space(text, 0)
    if start == len(text):
        return
    if text[start : start + 1] != "[":
        yield from _json_lines_or_refusal(text, source)
        return
    line, counted = 1, 0
    position = _after_space(text, start + 1)
    while text[position : position + 1] != "]":
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = _DECODER.raw_decode(text, position)
            position = _after_space(text, position)
            if text[position : position + 1] not in (",", "]"):
                raise json.JSONDecodeError("expected ',' or ']'", text, position)
        except (json.JSONDecodeError, RecursionError) as error:
            raise GnomonError(
                f"{source}: malformed JSON in the value that starts in line {line}: {error}", _EXPECTED
            ) from error
        yield line, value
        if text[position] == ",":
            position = _after_space(text, position + 1)
    if text[_after_space(text, position + 1) :]:
        raise GnomonError(f"{source} goes on after the end of its list", _EXPECTED)


def _json_lines_or_refusal(text: str, source: str) -> Iterator[tuple[int, Any] | BadRow]:
    try:
        value = _DECODER.decode(text.strip())
    except (json.JSONDecodeError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            yield from decode_json_lines(iter(text.split("\n")))
            return
        raise GnomonError(f"{source} is malformed JSON: {error}", _EXPECTED) from error
    raise GnomonError(f"{source} holds {_shape(value)}", _EXPECTED)


def _after_space(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\n", "\r", "\t"):
        position += 1
    return position


def _shape(value: Any, depth: int = 0) -> str:
    """A few words on what a JSON document looks like."""
    if isinstance(value, dict):
        keys = ", ".join(map(repr, list(value)[:6])) + (", ..." if len(value) > 6 else "")
        inside = f", the first with {_shape(next(iter(value.values())), depth + 1)}" if value and depth < 3 else ""
        return f"an object with the keys {keys}{inside}"
    if isinstance(value, list):
        inside = f", the first {_shape(value[0], depth + 1)}" if value and depth < 3 else ""
        return f"a list of {len(value):,} values{inside}"
    return f"a {_json_kind(value)}"


def _json_row(record: tuple[int, Any] | BadRow, names: Sequence[str]) -> Row | BadRow:
    if isinstance(record, BadRow):
        return record
    line, content = record
    if not isinstance(content, dict):
        return BadRow(
            line,
            f'a {_json_kind(content)} where an object such as {{"text": ..., "label": ...}} belongs',
            str(content)[:80],
        )
    return Row(line, tuple(_json_cell(content.get(name)) for name in names))


def _json_cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return Nested(text) if isinstance(value, list | dict) else text


def _json_kind(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "object", list: "list", str: "string", bool: "boolean"}[type(value)]


def parquet_rows(path: Path, source: str) -> Table:
    """A Parquet file's columns of text, numbers and booleans, streamed. `line` is the row's number, from 1.

    Integer columns whose names a Hugging Face data set stored in the file are given by name.
    """
    parquet = require("pyarrow.parquet", extra="data", purpose=f"reading {source}")
    arrow = require("pyarrow", extra="data", purpose=f"reading {source}")
    with _parquet_errors(arrow, source):
        file = parquet.ParquetFile(path)
    is_other = (arrow.types.is_nested, arrow.types.is_binary, arrow.types.is_large_binary)
    names = tuple(field.name for field in file.schema_arrow if not any(test(field.type) for test in is_other))
    classes = _class_names(file.schema_arrow.metadata or {})

    def rows() -> Iterator[Row | BadRow]:
        line = 0
        with _parquet_errors(arrow, source):
            for batch in file.iter_batches(batch_size=8192, columns=list(names)):
                columns = [
                    [_parquet_cell(value, classes.get(name)) for value in batch[name].to_pylist()] for name in names
                ]
                for cells in zip(*columns, strict=True):
                    line += 1
                    yield Row(line, cells)

    sample, again = peek(rows())
    decisions = tuple(f"the numbers of column {name!r} are named as the file's own list says" for name in classes)
    return Table(names, sample, again, decisions)


@contextmanager
def _parquet_errors(arrow: Any, source: str) -> Iterator[None]:
    try:
        yield
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise GnomonError(
            f"{source} cannot be read as Parquet: {error}", "restore the file from where it came"
        ) from error


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        return {name: feature["names"] for name, feature in features.items() if feature.get("_type") == "ClassLabel"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


def _parquet_cell(value: Any, names: Sequence[str] | None) -> str | None:
    if names is not None and isinstance(value, int) and 0 <= value < len(names):
        return names[value]
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)
