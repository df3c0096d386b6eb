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


def language_card(model: Model, figures: Mapping[str, Any]) -> str:
    """The card of a language model; `figures` are what training measured."""
    causal = model.backbone.causal
    task = "text-generation" if causal else "fill-mask"
    library = "gnomon" if model.hf_type is None else "transformers"
    usage = 'gnomon generate THIS_FOLDER "Once upon a time"' if causal else "gnomon tune DATA --teacher THIS_FOLDER"
    return f"""---
library_name: {library}
pipeline_tag: {task}
tags: [gnomon, {model.backbone.family}]
---
# A {model.backbone.family.replace("_", " ")} language model

Made by gnomon {__version__}, saved as {model.hf_type or f"gnomon_{model.backbone.family}"}. It has
{model.num_parameters:,} parameters, {model.tokenizer.vocab_size:,} tokens, and reads {model.max_length} tokens at once.

    {usage}

Training measured:

```json
{json.dumps(figures, ensure_ascii=False, indent=2, default=str)}
```
"""
