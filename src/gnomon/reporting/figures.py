"""The report's figures, each an SVG text to put into a page or a file of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gnomon.measure.frontier import Candidate, Frontier, pareto
from gnomon.measure.verdict import megabytes, milliseconds, percent
from gnomon.reporting.drawing import (
    GRID,
    INK,
    MUTED,
    PAPER,
    Label,
    drawing,
    family_colour,
    family_marker,
    set_labels,
    shortened,
)
from gnomon.reporting.tables import ordered

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cost = Literal["latency", "size"]
Curve = Sequence[Mapping[str, float]]

DRAWN_CLASSES = 20
_COUNTED_CLASSES = 12


def quality_against(frontier: Frontier, cost: Cost, *, width: float = 5.9, height: float = 4.3) -> str:
    """Test accuracy with its 95 % interval against latency or size (log scale), and the line no other model beats.

    A hollow marker is the gold-only twin of the student it is tied to.
    """
    unit, words = ("ms", milliseconds) if cost == "latency" else ("MB", megabytes)
    shown = [one for one in ordered(frontier) if _cost(one, cost) > 0]
    listed = "; ".join(f"{one.name} {percent(one.test.accuracy.value)} at {words(_cost(one, cost))}" for one in shown)
    title = f"Accuracy against {cost}"
    with drawing(f"accuracy-{cost}", width=width, height=height, title=title, description=f"{listed}.") as canvas:
        axes: Axes = canvas.figure.subplots()
        _scales(axes, frontier, cost)
        axes.set_xlabel("latency of one text, ms (log)" if cost == "latency" else f"size, {unit} (log)")
        axes.set_ylabel("test accuracy, %")
        marks = _draw_line(axes, frontier, cost)
        marks += [mark for one in shown for mark in _draw_candidate(axes, frontier, one, cost)]
        labels = [
            Label(
                _cost(one, cost),
                100 * one.test.accuracy.value,
                f"{shortened(one.name, 28)} (pick)" if one.name == frontier.pick else shortened(one.name, 28),
                family_colour(one.family if one.role == "student" else one.role),
                bold=one.name == frontier.pick,
            )
            for one in sorted(shown, key=lambda one: one.name != frontier.pick)
        ]
        set_labels(canvas.figure, axes, labels, keep_clear=marks)
    return canvas.svg


def learning_curves(curves: Mapping[str, Curve], frontier: Frontier, *, metric: str = "accuracy") -> str:
    """Validation `metric` against the step, a panel a student: solid with the teacher, dashed its gold-only twin.

    `curves` maps a candidate's name to its evaluations, each with "step" and `metric`.
    """
    owners = [one for one in ordered(frontier) if curves.get(one.name)]
    columns = min(3, max(1, len(owners)))
    rows = max(1, math.ceil(len(owners) / columns))
    listed = "; ".join(f"{one.name} ends at {percent(curves[one.name][-1][metric])}" for one in owners)
    size = {"width": 3.8 * columns, "height": 2.3 * rows + 0.3}
    with drawing("curves", **size, title="Learning curves", description=f"Validation {metric}: {listed}.") as canvas:
        grid = canvas.figure.subplots(rows, columns, squeeze=False, sharey=True)
        for panel in grid.flat[len(owners) :]:
            panel.set_visible(False)
        for panel, one in zip(grid.flat, owners, strict=False):
            colour = family_colour(one.family if one.role == "student" else one.role)
            twin = frontier.twin(one.name)
            if twin is not None and twin.name in curves:
                _draw_curve(panel, curves[twin.name], metric, MUTED, dashed=True)
            _draw_curve(panel, curves[one.name], metric, colour, dashed=False)
            panel.set_title(shortened(one.name, 28), color=colour, fontweight="bold")
            panel.set_xlim(left=0)
            panel.xaxis.set_major_locator(_locator(4))
        for panel in grid[:, 0]:
            panel.set_ylabel(f"valid {metric}, %")
    return canvas.svg


def confusion_matrices(matrices: Mapping[str, Any], labels: Sequence[str]) -> str:
    """The matrices [C, C] (rows gold, columns answers) side by side; a cell is as dark as its share of the row.

    For at most DRAWN_CLASSES classes; counts are written into the cells while they have room.
    """
    names = [shortened(label) for label in labels]
    side = max(2.4, 0.42 * len(labels) if len(labels) <= _COUNTED_CLASSES else 0.3 * len(labels))
    room = 0.075 * max(len(name) for name in names) + 0.4
    size = {"width": len(matrices) * side + room + 0.4, "height": side + 0.7 * room + 0.5}
    listed = "; ".join(
        f"{name}: {int(np.trace(matrix))} of {int(np.sum(matrix))} right" for name, matrix in matrices.items()
    )
    with drawing("confusion", **size, title="Confusion matrices", description=f"{listed}.") as canvas:
        grid = canvas.figure.subplots(1, len(matrices), squeeze=False, sharey=True)
        for place, (panel, (name, matrix)) in enumerate(zip(grid.flat, matrices.items(), strict=True)):
            _draw_matrix(panel, np.asarray(matrix))
            panel.set_title(shortened(name, 28), fontweight="bold")
            panel.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
            panel.set_xlabel("answered")
            panel.set_yticks(range(len(names)), names)
            if place == 0:
                panel.set_ylabel("gold")
    return canvas.svg


def _cost(candidate: Candidate, cost: Cost) -> float:
    return candidate.p50_ms if cost == "latency" else candidate.size_mb


def _scales(axes: Axes, frontier: Frontier, cost: Cost) -> None:
    """Final limits, with room for labels; on the right, what share of the teacher's accuracy a height is."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    costs = [_cost(one, cost) for one in frontier.candidates if _cost(one, cost) > 0]
    reach = max(math.log10(max(costs) / min(costs)), 0.5)
    axes.set_xscale("log")
    axes.set_xlim(min(costs) / 10 ** (0.14 * reach), max(costs) * 10 ** (0.14 * reach))
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if reach > 3 else (1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(axis="x", visible=False)
    lowest = 100 * min(one.test.accuracy.low for one in frontier.candidates)
    highest = 100 * max(one.test.accuracy.high for one in frontier.candidates)
    room = max(0.06 * (highest - lowest), 0.5)
    axes.set_ylim(max(0.0, lowest - room), min(100.5, highest + room))
    axes.yaxis.set_major_locator(_locator(6))
    base = frontier.teacher.test.accuracy.value
    if base > 0:
        functions: Any = (lambda value: value / base, lambda value: value * base)
        right = axes.secondary_yaxis("right", functions=functions)
        right.set_ylabel("kept of the teacher's, %")
        right.yaxis.set_major_locator(_locator(6))
        right.spines["right"].set_visible(False)


def _draw_line(axes: Axes, frontier: Frontier, cost: Cost) -> list[tuple[float, float]]:
    """The steps no other model beats; gives points along them that labels should keep clear of."""
    line = pareto(frontier.candidates, cost=lambda one: _cost(one, cost))
    points = [(_cost(one, cost), 100 * one.test.accuracy.value) for one in line if _cost(one, cost) > 0]
    if not points:
        return []
    axes.step(*zip(*points, strict=True), where="post", color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    marks: list[tuple[float, float]] = []
    for (x, y), (next_x, next_y) in itertools.pairwise(points):
        marks += [(float(between), y) for between in np.geomspace(x, next_x, 20)]
        marks += [(next_x, float(between)) for between in np.linspace(y, next_y, 8)]
    return marks


def _draw_candidate(axes: Axes, frontier: Frontier, one: Candidate, cost: Cost) -> list[tuple[float, float]]:
    """Draw `one`, its interval and its twin; gives the marks that labels should keep clear of."""
    family = one.family if one.role == "student" else one.role
    colour, marker = family_colour(family), family_marker(family)
    x, accuracy = _cost(one, cost), one.test.accuracy
    low, y, high = 100 * accuracy.low, 100 * accuracy.value, 100 * accuracy.high
    marks = [(x, low + share * (high - low)) for share in (0, 0.15, 0.3, 0.7, 0.85, 1)]
    axes.plot([x, x], [low, high], color=colour, linewidth=2, alpha=0.35, zorder=2)
    twin = frontier.twin(one.name)
    if twin is not None:
        mark = (_cost(twin, cost), 100 * twin.test.accuracy.value)
        axes.plot([x, mark[0]], [y, mark[1]], color=colour, linewidth=1, linestyle=":", zorder=2)
        axes.plot(
            *mark, marker=marker, markersize=6.5, color=PAPER, markeredgecolor=colour, markeredgewidth=1.3, zorder=3
        )
        marks += [(mark[0], y + share * (mark[1] - y)) for share in (0.3, 0.5, 0.7, 1)]
    size = 13 if one.role == "teacher" else 8
    axes.plot(x, y, marker=marker, markersize=size, color=colour, markeredgecolor=PAPER, markeredgewidth=1, zorder=4)
    if one.name == frontier.pick:
        axes.plot(x, y, marker="o", markersize=17, color="none", markeredgecolor=INK, markeredgewidth=1.2, zorder=4)
    return marks


def _draw_curve(panel: Axes, curve: Curve, metric: str, colour: str, *, dashed: bool) -> None:
    steps = [point["step"] for point in curve]
    values = [100 * point[metric] for point in curve]
    panel.plot(steps, values, color=colour, linewidth=1.4 if dashed else 2, linestyle="--" if dashed else "-")
    panel.plot(
        steps[-1], values[-1], marker="o", markersize=5, color=PAPER if dashed else colour, markeredgecolor=colour
    )


def _draw_matrix(panel: Axes, matrix: Any) -> None:
    from matplotlib.patches import Rectangle

    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    for (row, column), share in np.ndenumerate(shares):
        blue = family_colour("encoder")
        cell = Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=blue, alpha=float(share), edgecolor="none")
        panel.add_patch(cell)
        if len(matrix) <= _COUNTED_CLASSES and matrix[row, column]:
            colour = PAPER if share > 0.55 else INK
            panel.text(column, row, f"{matrix[row, column]}", ha="center", va="center", color=colour, fontsize=9)
    panel.set_xlim(-0.5, len(matrix) - 0.5)
    panel.set_ylim(len(matrix) - 0.5, -0.5)
    panel.set_aspect("equal")
    panel.grid(visible=False)
    panel.spines[:].set_visible(True)
    panel.spines[:].set_color(GRID)


def _locator(ticks: int) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(ticks, steps=[1, 2, 5, 10])
