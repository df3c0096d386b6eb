"""A map of words: vectors brought down to two numbers each, and drawn as an SVG with numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gnomon.errors import GnomonError, require
from gnomon.vectors.keyed import Floats, WordVectors, unit

Array = npt.NDArray[Any]
Projection = Literal["pca", "tsne"]
_WIDTH, _HEIGHT, _MARGIN = 960, 720, 48
_INKS = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#56b4e9", "#7a7f87")  # Okabe and Ito: the colour-blind see them
_FONTS = "system-ui, 'Segoe UI', Roboto, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"


def neighbourhoods(vectors: WordVectors, words: Sequence[str], *, around: int) -> dict[str, int]:
    """Each word and the `around` words nearest to it, with the number of the word that brought it in."""
    found: dict[str, int] = {}
    for number, word in enumerate(words):
        for near in (word, *(other for other, _ in vectors.nearest(word, count=around))):
            found.setdefault(near, number)
    return found


def project(vectors: Floats, *, method: Projection = "pca", seed: int = 0) -> tuple[Array, float | None]:
    """Vectors [N, D], scaled to length 1, as points [N, 2]; and the share of the variance kept (None for t-SNE).

    pca: the two main directions. tsne: van der Maaten and Hinton 2008, by scikit-learn: neighbours stay neighbours,
    distances between groups mean little. Raises GnomonError for fewer than three words.
    """
    if len(vectors) < 3:
        raise GnomonError(f"a map of {len(vectors)} words shows nothing", "name more words, or more neighbours")
    units = unit(vectors)
    if method == "tsne":
        manifold = require("sklearn.manifold", extra="train", purpose="a t-SNE map")
        perplexity = min(30.0, (len(units) - 1) / 3)
        points: Array = manifold.TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(units)
        return points, None
    centred = units - units.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    if len(values) < 2:
        return np.column_stack([left[:, 0] * values[0], np.zeros(len(units))]), 1.0
    signs = np.sign(left[np.abs(left[:, :2]).argmax(axis=0), [0, 1]])  # a direction has no sign of its own: fix it
    share = float(np.sum(values[:2] ** 2) / max(np.sum(values**2), 1e-12))
    return left[:, :2] * values[:2] * signs, share


def as_svg(points: Array, groups: Mapping[str, int], *, title: str) -> str:
    """The words of `groups`, in order, at their points; the colour says which group a word is in."""
    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (points - low) / np.where(high > low, high - low, 1)
    places = scaled * [_WIDTH - 3 * _MARGIN, _HEIGHT - 2 * _MARGIN] + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="{_FONTS}" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_MARGIN}" y="28" font-size="15" fill="#1b2333">{escape(title)}</text>',
    ]
    for (word, group), (x, y) in zip(groups.items(), places.tolist(), strict=True):
        ink = _INKS[group % len(_INKS)]
        lines.append(f'<circle cx="{x:.1f}" cy="{_HEIGHT - y:.1f}" r="2.5" fill="{ink}"/>')
        lines.append(f'<text x="{x + 5:.1f}" y="{_HEIGHT - y + 4:.1f}" fill="{ink}">{escape(word)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"
