"""`make bench-pretrain-parts`: what each part of the presets brings, one switched at a time, three seeds.

Characters of Shakespeare, the settings of `pretrain.py`. Every line is the loss over all of the validation text after
the same number of updates, and the seconds of an update, beside those of the preset as it is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from gnomon.models.parts import Parts
from harness import compared, report
from nanogpt import Trained
from pretrain import DATA, QUICK_FAST, QUICK_STANDARD, WIDTH, Text, ours, prepared

STANDARD: dict[str, dict[str, Any]] = {
    "AdamW in place of Muon": {"optimizer": "adamw"},
    "no norm of queries and keys": {"qk_norm": False},
    "GELU without a gate": {"gated": False, "hidden_act": "gelu"},
    "learned positions": {"position_embedding_type": "learned"},
    "ALiBi": {"position_embedding_type": "alibi"},
    "LayerNorm": {"norm": "layer"},
    "norms after the parts": {"norm_position": "post"},
    "an ordinary start": {"silent_start": False},
    "tied tables": {"tied": True},
}
FAST: dict[str, dict[str, Any]] = {
    "AdamW in place of Muon": {"optimizer": "adamw"},
    "no n-grams": {"num_ngram_buckets": 0},
    "pairs alone": {"ngram_sizes": (2,)},
    "SwiGLU": {"gated": True, "hidden_act": "silu"},
    "GELU": {"hidden_act": "gelu"},
    "no norm of queries and keys": {"qk_norm": False},
    "an ordinary start": {"silent_start": False},
}


def run(text: Text, settings: dict[str, Any], changed: dict[str, Any], seeds: int) -> list[Trained]:
    """One line, each seed."""
    parts = {name: value for name, value in changed.items() if name in Parts.__dataclass_fields__}
    rest = {name: value for name, value in changed.items() if name not in parts}
    width = Parts(**{**WIDTH.given(), **parts})
    return [ours(text, settings | rest, seed=seed, width=width) for seed in range(seeds)]


def main() -> int:
    """Run every line and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=75)
    parser.add_argument("--only", choices=("standard", "fast"))
    options = parser.parse_args()
    whole = (DATA / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
    cut = int(0.9 * len(whole))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        text = prepared(Path(name) / "characters", whole[:cut], whole[cut:])
        for preset, settings, lines in (("standard", QUICK_STANDARD, STANDARD), ("fast", QUICK_FAST, FAST)):
            if options.only not in (None, preset):
                continue
            settings = settings | {"steps": options.steps}
            base = run(text, settings, {}, options.seeds)
            for line, changed in lines.items():
                found = run(text, settings, changed, options.seeds)
                pace = statistics.median(one.seconds for one in found) / statistics.median(one.seconds for one in base)
                rows.append(
                    compared(
                        f"{preset}: {line}",
                        f"{options.steps} updates, {torch.get_num_threads()} threads; {pace:.2f} x the time",
                        "switched",
                        [one.loss for one in base],
                        [one.loss for one in found],
                        unit="nats",
                    )
                )
    report("pretrain-parts", rows, packages=("torch",), keep=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
