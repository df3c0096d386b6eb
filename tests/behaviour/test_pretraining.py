"""From raw text to a measured language model by the commands, for every family; what is kept and refused on the way."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon.cli.main import run
from gnomon.errors import GnomonError, Interrupted
from gnomon.models.folders import load_language_model
from gnomon.models.parts import Parts
from gnomon.train.hooks import Progress, Step

TINY = ["--depth", "1", "--context", "16", "--batch-tokens", "128", "--valid-tokens", "400", "--threads", "1"]
TINY += ["--evaluations", "2", "--model.hidden-size", "32"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, demo_questions: Path) -> Path:
    """A folder with questions.txt, tokenizers `bytes` and `bert`, and their tokens, `data` and `data-bert`."""
    folder = tmp_path_factory.mktemp("prepared")
    text = "\n".join(line.partition(" ")[2] for line in demo_questions.read_text("latin-1").split("\n")[:800])
    (folder / "questions.txt").write_text(text, encoding="utf-8")
    for name, kind, out in (("bytes", "byte-bpe", "data"), ("bert", "wordpiece", "data-bert")):
        learn = ["tokenizer", "train", f"{folder}/questions.txt", "--kind", kind, "--size", "400"]
        assert run([*learn, "--out", f"{folder}/{name}"]) == 0
        tokens = ["prepare", f"{folder}/questions.txt", "--tokenizer", f"{folder}/{name}", "--separator", "\n"]
        assert run([*tokens, "--out", f"{folder}/{out}", "--valid-share", "0.1"]) == 0
    return folder


CASES: dict[str, tuple[list[str], str, str]] = {
    "standard": ([], "data", "qwen3"),
    "fast": (["--preset", "fast", "--model.num-ngram-buckets", "500"], "data", "gnomon_decoder"),
    "encoder": (["--family", "encoder"], "data-bert", "modernbert"),
    "recurrent": (["--family", "recurrent", "--model.cell", "gru"], "data", "gnomon_recurrent"),
    "convolutional": (["--family", "convolutional"], "data", "gnomon_convolutional"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_family_learns_and_is_measured(
    name: str, prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, data, saved_as = CASES[name]
    words = ["pretrain", "--data", f"{prepared}/{data}", *TINY, "--steps", "40", *options, "--out", f"{tmp_path}/run"]
    assert run([*words, "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)["plan"]
    assert not (tmp_path / "run").exists()
    assert planned["parameters"] > planned["parameters_of_layers"] > 0
    assert planned["seconds_per_update"] > 0 < planned["memory_mb"]
    assert run([*words, "--json"]) == 0
    captured = capsys.readouterr()
    figures = json.loads(captured.out)["figures"]
    assert figures["saved_as"] == json.loads((tmp_path / "run/model/config.json").read_text())["model_type"] == saved_as
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records if record["event"] == "train"]
    assert losses[-1] < 0.95 * losses[0]
    assert run(["evaluate", f"{tmp_path}/run", f"{prepared}/questions.txt", "--json"]) == 0
    (measured,) = json.loads(capsys.readouterr().out)["models"]
    found = measured["perplexity"]
    assert found["low"] <= found["value"] <= found["high"] < 400
    assert measured["masked"] == (name == "encoder")
    if name != "encoder":
        # of the last validation, and of all the text
        assert measured["bits_per_byte"]["value"] == pytest.approx(figures["valid"]["bits_per_byte"], rel=0.2)


def test_the_standard_model_is_one_of_transformers(prepared: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    result = gnomon.pretrain(
        prepared / "data", depth=2, context=16, steps=4, threads=1, out=tmp_path / "run", samples=0, batch_tokens=64
    )
    ours = load_language_model(result.path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(result.path).eval()
    ids = torch.randint(5, 400, (2, 12), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(
            ours.logits(ids, torch.ones_like(ids, dtype=torch.bool)), theirs(ids).logits, atol=1e-5, rtol=0
        )
    text = "who was the first man on the moon ?"
    assert transformers.AutoTokenizer.from_pretrained(result.path)(text).input_ids == ours.tokenizer.encode(text).ids


def test_stopped_and_started_again_equals_never_stopped(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(name: str) -> dict[str, Any]:
        parts = Parts(hidden_size=32, num_ngram_buckets=300)
        return {"preset": "fast", "depth": 1, "context": 16, "steps": 12, "batch_tokens": 64, "threads": 1,
                "samples": 0, "evaluations": 3, "model": parts, "out": tmp_path / name}  # fmt: skip

    whole = gnomon.pretrain(prepared / "data", **settings("whole"))
    plain = Progress.on_step

    def stop(self: Progress, step: Step) -> None:
        plain(self, step)
        if step.number == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Progress, "on_step", stop)
    with pytest.raises(Interrupted, match="gnomon pretrain --resume"):
        gnomon.pretrain(prepared / "data", **settings("stopped"))
    monkeypatch.setattr(Progress, "on_step", plain)
    again = gnomon.pretrain(prepared / "data", **settings("stopped"))
    assert (whole.path / "model.safetensors").read_bytes() == (again.path / "model.safetensors").read_bytes()
    assert whole.figures["valid"] == again.figures["valid"]
    assert run(["pretrain", "--resume", f"{tmp_path}/stopped"]) == 0, "a finished run has nothing left to do"


def test_two_processes_have_the_loss_curve_of_one(prepared: Path, tmp_path: Path) -> None:
    options = ["--preset", "fast", "--model.num-ngram-buckets", "500", "--steps", "12", "--samples", "0", "--quiet"]
    words = ["pretrain", "--data", f"{prepared}/data", *TINY, *options]
    assert run([*words, "--out", f"{tmp_path}/one"]) == 0
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--no-python"]
    program = [sys.executable, "-c", "import sys; from gnomon.cli.main import main; main(sys.argv[1:])"]
    done = subprocess.run(
        [*command, *program, *words, "--resume", "auto", "--out", f"{tmp_path}/two"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(re.findall("go on with", done.stdout)) == 1, "one of them speaks"
    curves = []
    for name in ("one", "two"):
        records = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        curves.append([(record["step"], record["loss"]) for record in records if record["event"] != "start"])
    assert [step for step, _ in curves[0]] == [step for step, _ in curves[1]]
    assert [loss for _, loss in curves[0]] == pytest.approx([loss for _, loss in curves[1]], abs=1e-4)


def test_samples_and_progress_are_shown(prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--steps", "4", "--samples", "2", "--sample-prompt", "who was", "--out", f"{tmp_path}/run"]
    assert run(["pretrain", "--data", f"{prepared}/data", *TINY, *options]) == 0
    said = capsys.readouterr()
    assert said.err.count("bits per byte") == 2
    assert said.err.count("    who was") == 4
    assert "gnomon generate" in said.out


def test_a_run_is_not_continued_with_other_text(prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared / "data", tmp_path / "tokens")
    settings: dict[str, Any] = {"depth": 1, "context": 16, "batch_tokens": 64, "threads": 1, "samples": 0}
    gnomon.pretrain(tmp_path / "tokens", steps=2, out=tmp_path / "run", **settings)
    (tmp_path / "run/run.json").write_text(
        (tmp_path / "run/run.json").read_text().replace('"status": "finished"', '"status": "interrupted"')
    )
    gnomon.prepare(prepared / "questions.txt", tokenizer=prepared / "bytes", out=tmp_path / "tokens", overwrite=True,
                   separator="?")  # fmt: skip
    with pytest.raises(GnomonError, match=r"index\.json held something else"):
        gnomon.pretrain(tmp_path / "tokens", steps=2, out=tmp_path / "run", **settings)
