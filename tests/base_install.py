"""The base package alone, in a fresh environment, serves every family: run by `make base`.

Models of every family, a language model and word vectors are made here, with torch and numba; then a new environment
gets the package without any extra, and its answers must be the same. It also shows that the base install has neither.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from families import DEPLOYABLE, TEXTS, small_model
from gnomon.deploy.deploy import deploy
from gnomon.recipes import export, generate
from gnomon.vectors import Lines, train
from language_models import language_model

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-base"
PROMPTS = ("what is a b", "who")


def main() -> None:
    """Make models, install the base package alone, compare what both environments answer."""
    texts = [text for text in TEXTS if text]
    folders = []
    for name in DEPLOYABLE:
        folder = ROOT / "build" / "base" / name
        model = small_model(name)
        model.save(folder)
        deploy(folder, check_texts=texts)
        folders.append((folder, [one.label for one in model.predict(texts)]))
    language, written = _language_model(ROOT / "build" / "base")
    words = ROOT / "build" / "base" / "words"
    vectors = train(Lines(["a b c d a c", "b a d c"] * 20), min_count=1, size=8, epochs=2, threads=1, out=words)
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
    for module in ("torch", "onnx", "sklearn", "transformers", "numba", "scipy"):
        found = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
        assert found.returncode != 0, f"the base install brought {module}"
    for folder, expected in folders:
        answered = _asked("predict", folder, *texts)
        assert [one["label"] for one in answered["predictions"]] == expected, folder.name
    generations = _asked("generate", language, *PROMPTS, "--max-new-tokens", "20")["generations"]
    assert [one["text"] for one in generations] == written
    nearest = [word for word, _ in _asked("vectors", "nearest", words, "a", "--count", "3")["a"]]
    assert nearest == [word for word, _ in vectors.nearest("a", count=3)]
    refused = subprocess.run([ENVIRONMENT / "bin" / "gnomon", "tune", "x.csv", "--teacher", "y"], capture_output=True)
    assert refused.returncode == 2, refused
    assert b"pip install 'gnomon[train]'" in refused.stderr, refused
    print(f"{len(folders) + 2} passed, 0 failed")


def _asked(*words: str | Path) -> dict[str, Any]:
    """What a command of the base install answers."""
    command = [ENVIRONMENT / "bin" / "gnomon", *words, "--json"]
    answered: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answered


def _language_model(place: Path) -> tuple[Path, list[str]]:
    """An exported language model, and what the torch model writes to the prompts."""
    language_model("rope-grouped-normed", hidden_size=32, spread=0.1).save(place / "language")
    out = place / "language-onnx"
    export.run(export.Config(model=str(place / "language"), out=out, bits=32, threads=1, overwrite=True))
    result = generate.run(generate.Config(str(place / "language"), PROMPTS, max_new_tokens=20))
    return out, [one["text"] for one in result.to_dict()["generations"]]


if __name__ == "__main__":
    main()
