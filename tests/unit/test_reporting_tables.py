"""Tables fit the terminal, mark the pick, and stand Chinese and odd names."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gnomon.reporting.tables import FrontierTable, findings_table, frontier_table, markdown_table, ordered, plain_text
from made_up_frontier import frontier


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_every_line_fits_and_no_figure_is_cut(width: int) -> None:
    shown = plain_text(frontier_table(frontier()), width=width)
    assert all(cell_len(line) <= width for line in shown.split("\n"))
    assert "…" not in shown
    for figure in ("92.6 (90.6–94.6)", "97.5 %", "28x", "0.29 ms", "90.6 +2.0", "91 MB"):
        assert figure in shown


def test_the_pick_is_marked_and_rows_come_by_role_then_latency() -> None:
    assert [one.name for one in ordered(frontier())] == [
        "teacher", "static", "convolutional", "recurrent", "encoder", "control",
    ]  # fmt: skip
    lines = plain_text(FrontierTable(frontier())).split("\n")
    assert next(line for line in lines if line.startswith("→")).split()[1] == "convolutional"


def test_twins_have_rows_of_their_own_when_asked_for() -> None:
    shown = plain_text(FrontierTable(frontier(), twins=True))
    assert shown.index("control") < shown.index("static gold")


def test_wide_characters_and_markup_in_names_are_shown_as_they_are() -> None:
    made = frontier(names={"static": "静态词向量", "recurrent": "[red]lstm[/red]"})
    lines = plain_text(FrontierTable(made), width=80).split("\n")
    assert any("静态词向量" in line for line in lines)
    assert any("[red]lstm[/red]" in line for line in lines)
    assert len({cell_len(line) for line in lines if "MB" in line}) == 1


def test_markdown_has_as_many_cells_in_every_row_and_escapes_bars() -> None:
    table = markdown_table(frontier(names={"static": "a|b"}), twins=True)
    rows = table.strip().split("\n")
    assert len(rows) == 2 + 10
    assert {row.replace("\\|", "").count("|") for row in rows} == {rows[0].count("|")}
    assert "| **convolutional** |" in table


def test_findings_show_their_severity_and_examples() -> None:
    report = {
        "rows": {"train": 4882, "test": 500},
        "findings": [
            {"severity": "warn", "what": "test has 3 texts of train", "count": 3, "examples": ("line 7: [b]何为[/b]",)}
        ],
    }
    shown = plain_text(findings_table(report))
    assert "looked at 4,882 train, 500 test rows" in shown
    assert "warn  test has 3 texts of train" in shown
    assert "line 7: [b]何为[/b]" in shown
    assert "nothing amiss" in plain_text(findings_table({**report, "findings": []}))
