"""The card (README.md) of every model folder that gnomon writes: what it is, what it answers, how to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gnomon import __version__
from gnomon.models.base import Model


def card(model: Model, role: str, figures: Mapping[str, Any]) -> str:
    """A model card in Markdown; `role` is teacher, student or gold-only twin, `figures` what training measured."""
    names = ", ".join(model.labels[:20]) + (", ..." if len(model.labels) > 20 else "")
    return f"""---
library_name: gnomon
pipeline_tag: text-classification
tags: [gnomon, {model.backbone.family}]
---
# A {model.backbone.family} text classifier ({role})

Made by gnomon {__version__}. It answers with {len(model.labels)} labels: {names}.
It reads {model.max_length} tokens of a text and has {model.num_parameters:,} parameters.

    gnomon predict THIS_FOLDER "a text"

    import gnomon
    gnomon.load("THIS_FOLDER").predict("a text")

Training measured, on validation text:

```json
{json.dumps(figures, ensure_ascii=False, indent=2, default=str)}
```
"""
