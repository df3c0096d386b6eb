"""The frontier and the doctor's findings as tables: for a terminal of any width, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnomon.measure.frontier import Candidate, Frontier
from gnomon.measure.verdict import headline, megabytes, milliseconds, percent, points, sentences, times

_ORDER = {"teacher": 0, "student": 1, "control": 2, "gold_twin": 3}
_STYLES = {"teacher": "bold", "student": "", "control": "dim", "gold_twin": "dim"}
_SEVERITIES = {"stop": "bold red", "warn": "yellow", "note": "dim"}
_MEANING = (
    "accuracy: on the test texts, with its 95 % interval. kept: share of the teacher's accuracy. agrees: with the "
    "teacher's answers. gold only: the same student trained without the teacher, and what the teacher brought. "
    "p50: one text, tokenizing included."
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the frontier's table: where it stands in `cells`, and the least terminal width that shows it."""

    key: str
    heading: str
    from_width: int = 0


COLUMNS = (
    Column("name", "model"),
    Column("family", "family", 116),
    Column("accuracy", "accuracy (95 %)"),
    Column("macro_f1", "macro-F1", 128),
    Column("kept", "kept"),
    Column("agreement", "agrees", 92),
    Column("gold_only", "gold only"),
    Column("p50", "p50"),
    Column("faster", "faster"),
    Column("size", "size"),
    Column("memory", "memory", 104),
)


def ordered(frontier: Frontier, *, twins: bool = False) -> list[Candidate]:
    """Teacher, students, control, in each the fastest first; then, if asked for, the gold-only twins."""
    shown = [one for one in frontier.candidates if twins or one.role != "gold_twin"]
    return sorted(shown, key=lambda one: (_ORDER[one.role], one.p50_ms, one.name))


def cells(frontier: Frontier, candidate: Candidate) -> dict[str, str]:
    """What each column says of `candidate`, by the column's key; "" where the column does not apply."""
    teacher, test, twin = frontier.teacher, candidate.test, frontier.twin(candidate.name)
    beside_teacher = candidate.role != "teacher"
    gold_only = ""
    if twin is not None:
        brought = points(test.accuracy.value - twin.test.accuracy.value).removesuffix(" points")
        gold_only = f"{100 * twin.test.accuracy.value:.1f} {brought}"
    return {
        "name": candidate.name,
        "family": candidate.family,
        "accuracy": f"{100 * test.accuracy.value:.1f} ({100 * test.accuracy.low:.1f}–{100 * test.accuracy.high:.1f})",
        "macro_f1": f"{100 * test.macro_f1.value:.1f}",
        "kept": percent(test.kept.value) if beside_teacher else "",
        "agreement": percent(test.agreement.value) if beside_teacher else "",
        "gold_only": gold_only,
        "p50": milliseconds(candidate.p50_ms),
        "faster": times(teacher.p50_ms, candidate.p50_ms) if beside_teacher else "",
        "size": megabytes(candidate.size_mb),
        "memory": "" if candidate.peak_memory_mb is None else megabytes(candidate.peak_memory_mb),
    }


class FrontierTable:
    """The table as rich draws it: as many columns as the terminal's width allows, the pick marked by an arrow."""

    def __init__(self, frontier: Frontier, *, twins: bool = False) -> None:
        self._frontier = frontier
        self._twins = twins

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        columns = [column for column in COLUMNS if column.from_width <= options.max_width]
        gap = 2 if options.max_width >= 100 else 1
        table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("", width=1)
        for column in columns:
            named = column.key in ("name", "family")
            table.add_column(
                column.heading,
                justify="left" if named else "right",
                overflow="fold",
                no_wrap=not named,
                min_width=8 if named else None,
            )
        for candidate in ordered(self._frontier, twins=self._twins):
            picked = candidate.name == self._frontier.pick
            values = cells(self._frontier, candidate)
            table.add_row(
                "→" if picked else "",
                *(Text(values[column.key]) for column in columns),
                style="bold green" if picked else _STYLES[candidate.role],
            )
        yield table


def frontier_table(frontier: Frontier) -> RenderableType:
    """The headline, the table, and what stands behind the headline; for `Console.print`."""
    said = [Text(sentence) for sentence in sentences(frontier)]
    return Group(
        Text(headline(frontier), style="bold"), "", FrontierTable(frontier), "", *said, Text(_MEANING, style="dim")
    )


def plain_text(renderable: RenderableType, *, width: int = 100) -> str:
    """What a terminal of `width` columns would show, without colours: for files, logs and pipes."""
    console = Console(width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in captured.get().split("\n"))


def markdown_table(frontier: Frontier, *, twins: bool = False) -> str:
    """The table in GitHub's Markdown with every column, the pick in bold."""
    lines = [_markdown_row([column.heading for column in COLUMNS])]
    lines.append(_markdown_row([":--" if column.key in ("name", "family") else "--:" for column in COLUMNS]))
    for candidate in ordered(frontier, twins=twins):
        values = {key: _escaped(value) for key, value in cells(frontier, candidate).items()}
        if candidate.name == frontier.pick:
            values["name"] = f"**{values['name']}**"
        lines.append(_markdown_row([values[column.key] for column in COLUMNS]))
    return "\n".join(lines) + "\n"


def findings_table(report: Mapping[str, Any]) -> RenderableType:
    """What the doctor found, from `QualityReport.to_dict()`: the rows looked at, then each finding with examples."""
    looked_at = ", ".join(f"{count:,} {part}" for part, count in report["rows"].items())
    title = Text(f"looked at {looked_at} rows", style="bold")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in report["findings"]:
        severity = finding["severity"]
        table.add_row(Text(severity, style=_SEVERITIES.get(severity, "")), Text(finding["what"]))
        for example in finding["examples"]:
            table.add_row("", Text(f"  {example}", style="dim"))
    if not report["findings"]:
        return Group(title, Text("nothing amiss was found", style="green"))
    return Group(title, table)


def _markdown_row(values: Sequence[str]) -> str:
    return "| " + " | ".join(values) + " |"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
