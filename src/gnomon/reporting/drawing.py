"""What the figures share: colours, canvas, labels that keep out of each other's way, and a clean SVG at the end.

Text stays text, so the reader's own fonts draw it, Chinese too. Colours are written as CSS variables with a fallback:
alone the SVG is light, inside a page it follows the page's light and dark. The hues are Okabe and Ito's, told apart by
the colour-blind, and each family has a marker of its own besides.
"""

from __future__ import annotations

import contextlib
import io
import re
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from gnomon.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1b2333", "#667085", "#e4e7ec", "#ffffff"
COLOURS = {
    "teacher": INK,
    "encoder": "#0072b2",
    "convolutional": "#009e73",
    "recurrent": "#d55e00",
    "static": "#aa4499",
    "control": "#7a7f87",
}
MARKERS = {"teacher": "*", "encoder": "s", "convolutional": "o", "recurrent": "^", "static": "D", "control": "X"}
_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"} | {
    colour: family for family, colour in COLOURS.items() if family != "teacher"
}
_OTHER = ("#56b4e9", "v")  # a family that came later
_FONTS = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', "
    "'Microsoft YaHei', sans-serif"
)
_SIZE = 10.5
_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": _SIZE,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": GRID,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": _SIZE,
    "axes.titlelocation": "left",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.major.size": 0,
    "lines.solid_capstyle": "round",
    "path.simplify": False,
}


def family_colour(family: str) -> str:
    """The colour of a family, of the teacher or of the control, as matplotlib takes it."""
    return COLOURS.get(family, _OTHER[0])


def page_colour(family: str) -> str:
    """The same colour for a page: its CSS variable, which follows light and dark."""
    colour = family_colour(family)
    return f"var(--{_VARIABLES[colour]}, {colour})" if colour in _VARIABLES else colour


def family_marker(family: str) -> str:
    """The marker of a family, of the teacher or of the control."""
    return MARKERS.get(family, _OTHER[1])


@dataclass
class Drawing:
    """A figure under way, and its SVG once the `with` block of `drawing` has ended."""

    figure: Figure
    svg: str = ""


@contextlib.contextmanager
def drawing(name: str, *, width: float, height: float, title: str, description: str) -> Iterator[Drawing]:
    """A canvas of `width` x `height` inches. `name` makes the SVG's ids unique on a page; the words are for readers
    who cannot see it. The same drawing gives the same bytes."""
    require("matplotlib", extra="train", purpose="drawing figures")
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {**_STYLE, "svg.hashsalt": name}
    with matplotlib.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts draw it
        canvas = Drawing(Figure(figsize=(width, height), layout="constrained"))
        yield canvas
        buffer = io.StringIO()
        canvas.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        canvas.svg = _finished(buffer.getvalue(), name, width, (title, description))


def standalone(svg: str) -> str:
    """A drawing as a file of its own: on white, whatever page it is shown on."""
    opening, rest = svg.split(">", 1)
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{opening}>\n{ground}{rest}\n'


def _finished(svg: str, name: str, width: float, words: tuple[str, str]) -> str:
    """The bare <svg> element: named for screen readers, ids made unique, fonts and colours left to the page.

    Shown at its natural size (an inch is 96 pixels) where there is room for it, else as wide as there is.
    """
    body = svg[svg.index("<svg") :]
    for left_out in (
        r"<metadata>.*?</metadata>\s*",
        r"<style[^>]*>.*?</style>\s*",
    ):  # a style would rule the whole page
        body = re.sub(left_out, "", body, flags=re.DOTALL)
    opening, rest = re.sub("<[^>]*>", lambda tag: _finished_tag(tag.group(), name), body).split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)
    shape = f"width: 100%; max-width: {96 * width:.0f}px; height: auto; stroke-linejoin: round"
    title, description = (escape(part) for part in words)
    return (
        f'{opening} style="{shape}" role="img" aria-labelledby="{name}-title {name}-description">\n'
        f'<title id="{name}-title">{title}</title>\n<desc id="{name}-description">{description}</desc>{rest}'
    )


def _finished_tag(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", tag)
    tag = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', tag).replace("'DejaVu Sans'", _FONTS)
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, f"var(--{variable}, {colour})")
    return tag


@dataclass(frozen=True, slots=True)
class Label:
    """Words to set beside a point given in data coordinates."""

    x: float
    y: float
    words: str
    colour: str
    bold: bool = False


_Box = tuple[float, float, float, float]  # left, bottom, right, top, in points
_Side = Literal["left", "right", "center"]
_PLACES: tuple[tuple[float, float, _Side], ...] = (
    (8, 0, "left"),
    (-8, 0, "right"),
    (0, 11, "center"),
    (0, -11, "center"),
    (7, 9, "left"),
    (7, -9, "left"),
    (-7, 9, "right"),
    (-7, -9, "right"),
    (0, 22, "center"),
    (0, -22, "center"),
    (9, 20, "left"),
    (9, -20, "left"),
    (-9, 20, "right"),
    (-9, -20, "right"),
)


def set_labels(
    figure: Figure, axes: Axes, labels: Sequence[Label], *, keep_clear: Sequence[tuple[float, float]] = ()
) -> None:
    """Set each label, the first first, where it covers least of the labels, points and `keep_clear` marks so far.

    The axes' limits must be final. Ties go to the place nearest the point.
    """
    figure.draw_without_rendering()
    frame = axes.get_window_extent()
    taken: list[_Box] = []
    for x, y in [*((label.x, label.y) for label in labels), *keep_clear]:
        across, up = axes.transData.transform((x, y))
        taken.append(_in_points(axes, (across, up, across, up), margin=5))
    inside = _in_points(axes, (frame.x0, frame.y0, frame.x1, frame.y1), margin=0)
    for label in labels:
        across, up = axes.transData.transform((label.x, label.y))
        left, bottom, _, _ = _in_points(axes, (across, up, across, up), margin=0)
        boxes = [_box(label, left + dx, bottom + dy, side) for dx, dy, side in _PLACES]
        costs = [sum(_overlap(box, other) for other in taken) + 10 * _outside(box, inside) for box in boxes]
        best = min(range(len(boxes)), key=lambda place: (round(costs[place], 1), place))
        dx, dy, side = _PLACES[best]
        taken.append(boxes[best])
        axes.annotate(
            label.words,
            (label.x, label.y),
            xytext=(dx, dy),
            textcoords="offset points",
            ha=side,
            va="center",
            color=label.colour,
            fontweight="bold" if label.bold else "normal",
            annotation_clip=False,
        )


def words_width(words: str, *, size: float = _SIZE, bold: bool = False) -> float:
    """Estimated width in points: an East Asian wide character is one em, others a little above half."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in words)
    return size * (wide + (0.62 if bold else 0.56) * (len(words) - wide))


def shortened(words: str, limit: int = 18) -> str:
    """`words` cut to `limit` characters, with an ellipsis."""
    return words if len(words) <= limit else words[: limit - 1] + "…"


def _in_points(axes: Axes, box: _Box, *, margin: float) -> _Box:
    scale = 72 / axes.figure.dpi
    left, bottom, right, top = (value * scale for value in box)
    return left - margin, bottom - margin, right + margin, top + margin


def _box(label: Label, x: float, y: float, side: _Side) -> _Box:
    width = words_width(label.words, bold=label.bold)
    left = x if side == "left" else x - width if side == "right" else x - width / 2
    return left, y - 0.6 * _SIZE, left + width, y + 0.6 * _SIZE


def _overlap(one: _Box, other: _Box) -> float:
    across = min(one[2], other[2]) - max(one[0], other[0])
    up = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, across) * max(0.0, up)


def _outside(box: _Box, frame: _Box) -> float:
    return sum(max(0.0, by) for by in (frame[0] - box[0], frame[1] - box[1], box[2] - frame[2], box[3] - frame[3]))
