"""The base package alone, in a fresh environment, serves every family: run by `make base`.

Models of every family are made and deployed here, with torch; then a new environment gets the package without any
extra, and its answers must be the same. It also shows that the base install has no torch.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from families import DEPLOYABLE, TEXTS, small_model
from gnomon.deploy.deploy import deploy

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-base"


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
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    python = ENVIRONMENT / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT)], check=True)
    for module in ("torch", "onnx", "sklearn", "transformers"):
        found = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
        assert found.returncode != 0, f"the base install brought {module}"
    for folder, expected in folders:
        command = [ENVIRONMENT / "bin" / "gnomon", "predict", str(folder), *texts, "--json"]
        answered = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        assert [one["label"] for one in answered["predictions"]] == expected, folder.name
    refused = subprocess.run([ENVIRONMENT / "bin" / "gnomon", "tune", "x.csv", "--teacher", "y"], capture_output=True)
    assert refused.returncode == 2, refused
    assert b"pip install 'gnomon[train]'" in refused.stderr, refused
    print(f"{len(folders)} passed, 0 failed")


if __name__ == "__main__":
    main()
