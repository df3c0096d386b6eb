"""Which writing systems a text is in, counted over its letters, ideographs and emoji."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

# Blocks of the Unicode standard (Blocks.txt) of the scripts most in use; digits and punctuation are of no script.
_BLOCKS = (
    (0x41, 0x5A, "Latin"),
    (0x61, 0x7A, "Latin"),
    (0xC0, 0x24F, "Latin"),
    (0x370, 0x3FF, "Greek"),
    (0x400, 0x52F, "Cyrillic"),
    (0x530, 0x58F, "Armenian"),
    (0x590, 0x5FF, "Hebrew"),
    (0x600, 0x6FF, "Arabic"),
    (0x750, 0x77F, "Arabic"),
    (0x8A0, 0x8FF, "Arabic"),
    (0x900, 0x97F, "Devanagari"),
    (0x980, 0x9FF, "Bengali"),
    (0xB80, 0xBFF, "Tamil"),
    (0xC00, 0xC7F, "Telugu"),
    (0xE00, 0xE7F, "Thai"),
    (0x10A0, 0x10FF, "Georgian"),
    (0x1100, 0x11FF, "Hangul"),
    (0x1E00, 0x1EFF, "Latin"),
    (0x1F00, 0x1FFF, "Greek"),
    (0x2600, 0x27BF, "Emoji"),
    (0x3040, 0x30FF, "Kana"),
    (0x3130, 0x318F, "Hangul"),
    (0x3400, 0x4DBF, "Han"),
    (0x4E00, 0x9FFF, "Han"),
    (0xAC00, 0xD7AF, "Hangul"),
    (0xF900, 0xFAFF, "Han"),
    (0xFB50, 0xFDFF, "Arabic"),
    (0xFE70, 0xFEFE, "Arabic"),
    (0xFF21, 0xFF3A, "Latin"),
    (0xFF41, 0xFF5A, "Latin"),
    (0xFF66, 0xFF9F, "Kana"),
    (0x1F300, 0x1FAFF, "Emoji"),
    (0x20000, 0x323AF, "Han"),
)
_STARTS = np.array([start for start, _, _ in _BLOCKS], np.uint32)
_ENDS = np.array([end for _, end, _ in _BLOCKS], np.uint32)


def script_shares(texts: Iterable[str]) -> dict[str, float]:
    """Each script's share of the characters that have one, largest first; "other" sums up the rarer scripts."""
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    block = np.searchsorted(_STARTS, points, side="right") - 1
    inside = (block >= 0) & (points <= _ENDS[block])
    counts = np.bincount(block[inside], minlength=len(_BLOCKS))
    totals: dict[str, int] = {}
    for (_, _, script), count in zip(_BLOCKS, counts.tolist(), strict=True):
        totals[script] = totals.get(script, 0) + count
    others, numbers = np.unique(points[~inside], return_counts=True)
    letters = (number for point, number in zip(others.tolist(), numbers.tolist(), strict=True) if chr(point).isalpha())
    totals["other"] = sum(letters)
    whole = sum(totals.values())
    ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return {script: count / whole for script, count in ranked if count}
