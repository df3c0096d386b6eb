"""Tokens with their probabilities, for a terminal: coloured by how sure the model was, and what else it considered."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from gnomon.decoding.generate import Token

_COLOURS = (
    (0.9, "black on green"),
    (0.5, "black on chartreuse3"),
    (0.2, "black on yellow"),
    (0.05, "black on orange1"),
)
_UNLIKELY = "white on red"


def coloured(tokens: Sequence[Token]) -> Text:
    """The text, each token on the colour of its probability: green from 0.9, red below 0.05."""
    text = Text()
    for token in tokens:
        text.append(token.text, style=colour(token.probability))
    return text


def colour(probability: float) -> str:
    """The style of a token of this probability."""
    return next((style for least, style in _COLOURS if probability >= least), _UNLIKELY)


def token_table(tokens: Sequence[Token]) -> RenderableType:
    """The coloured text, and a row a token: its probability, and the runners-up with theirs."""
    table = Table("token", "probability", "instead")
    for token in tokens:
        others = "  ".join(f"{visible(text)} {share:.3f}" for text, share in token.runners_up)
        table.add_row(Text(visible(token.text), style=colour(token.probability)), f"{token.probability:.3f}", others)
    return Group(coloured(tokens), table)


def visible(text: str) -> str:
    """A token as it can be seen in a table: quoted, with its spaces and line breaks."""
    return repr(text)
