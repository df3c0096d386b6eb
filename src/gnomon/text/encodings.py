"""Characters that are no text by themselves: halves of surrogate pairs."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def mend_surrogates(text: str) -> tuple[str, int]:
    """Join the halves of surrogate pairs and replace each lone half by U+FFFD; also how many were replaced.

    Half a pair comes from JSON ("\\ud83d"), from text cut at UTF-16 units or from undecodable command-line bytes;
    no tokenizer takes it.
    """
    if _SURROGATE.search(text) is None:
        return text, 0
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.subn("\ufffd", joined)
