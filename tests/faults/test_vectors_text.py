"""Text from which no vectors can be learnt, and a training that is interrupted."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from gnomon.errors import GnomonError
from gnomon.vectors import Lines, WordVectors, train
from gnomon.vectors.encode import encode
from gnomon.vectors.negative_sampling import Learnt
from gnomon.vectors.source import Files
from vector_corpora import grouped_lines

TEXT = "\n".join(grouped_lines(40)) + "\n"


def test_every_kind_of_source_reads_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = TEXT.splitlines()
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    plain, packed, rows = tmp_path / "a.txt", tmp_path / "a.txt.gz", tmp_path / "a.jsonl"
    plain.write_text(TEXT, encoding="utf-8")
    packed.write_bytes(gzip.compress(TEXT.encode()))
    rows.write_text("\n".join(json.dumps({"text": line}) for line in lines), encoding="utf-8")
    (tmp_path / "wide.txt").write_text(TEXT, encoding="utf-16")
    (tmp_path / "folder" / "1.txt").write_text("\n".join(lines[:20]), encoding="utf-8")
    (tmp_path / "folder" / "deep" / "2.txt").write_text("\n".join(lines[20:]), encoding="utf-8")
    expected = encode(Lines(lines)).ids.tolist()
    for path in (plain, packed, rows, tmp_path / "wide.txt", tmp_path / "folder"):
        assert encode(Files([path])).ids.tolist() == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert encode(Files(["-"])).ids.tolist() == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "the text holds no words"),
        (b"\n \n\t\n", "the text holds no words"),
        (b"word", "0 of 1 different words"),
        (b"word " * 100, "1 of 1 different words"),
        (b"each word once only", "0 of 4 different words occur 5 times"),
        ("全是汉字没有空格\n".encode() * 9, "1 of 1 different words"),
        (b"good line\ncaf\xe9 line\n", r"\.txt:2: byte 13 .*0xE9.* is not UTF-8"),
    ],
)
def test_text_that_teaches_nothing(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(text)
    with pytest.raises(GnomonError, match=message) as found:
        train(path, threads=1, out=tmp_path / "out")
    assert found.value.hint
    assert [item.name for item in tmp_path.iterdir()] == ["bad.txt"]


def test_min_count_that_removes_everything_says_how_much_there_was(tmp_path: Path) -> None:
    with pytest.raises(GnomonError, match=r"0 of 15 different words occur 9999 times or more in the 320 words"):
        train(Lines(TEXT.splitlines()), min_count=9999)


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("cat dog horse cow " * 600_000, encoding="utf-8")
    corpus = encode(Files([path]))
    assert (corpus.sentences, corpus.words_read) == (1, 2_400_000)
    path.write_text("x" * 10_000_000 + " cat dog" * 9, encoding="utf-8")
    assert sorted(encode(Files([path])).vocabulary.words) == ["cat", "dog"]


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"window": 0}, {"negatives": 0}, {"epochs": 0}, {"threads": 0}, {"subsample": 2.0},
                {"method": "word2vec"}, {"learning_rate": 0.0}],
)  # fmt: skip
def test_settings_that_make_no_sense(options: dict[str, object]) -> None:
    with pytest.raises(GnomonError):
        train(Lines(TEXT.splitlines()), **options)  # type: ignore[arg-type]


def test_a_training_that_diverged_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Learnt(np.full((15, 2), np.nan, np.float32), None)
    monkeypatch.setattr("gnomon.vectors.skipgram.skipgram", lambda corpus, settings, watch: broken)
    with pytest.raises(GnomonError, match="diverged"):
        train(Lines(TEXT.splitlines()), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(GnomonError, match="cannot"):
        train(Lines(TEXT.splitlines()), out=tmp_path / "file" / "out")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("method", ["skipgram", "glove"])
def test_an_interrupted_training_saves_what_is_there(tmp_path: Path, number: signal.Signals, method: str) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("\n".join(grouped_lines(20_000)), encoding="utf-8")
    program = (
        "import gnomon.recipes.vectors as recipe\n"
        "from gnomon.cli.main import main\n"
        "told = recipe._Stages._told\n"
        "def tell(self, progress):\n"
        "    told(self, progress)\n"
        "    if progress.stage == 'training': print('training', flush=True)\n"
        "recipe._Stages._told = tell\n"
        f"main(['vectors', 'train', {str(text)!r}, '--method', {method!r}, '--epochs', '100000', '--size', '8',\n"
        f"      '--window', '2', '--out', {str(out)!r}, '--quiet'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    time.sleep(0.1)
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "what was learnt so far is in" in errors
    vectors = WordVectors.load(out)
    assert vectors.details["interrupted"] is True
    assert vectors.nearest("cat")
