"""The commands of both READMEs run as they are written, long ones with tiny settings added; both have the same."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import pytest

from gnomon.cli.main import run
from gnomon.config import commented_toml
from gnomon.recipes.demo import demo_questions as questions
from gnomon.recipes.frontier import Config

ROOT = Path(__file__).resolve().parents[2]
READMES = ("README.md", "README.zh-CN.md")
TINY = {
    "frontier": "--student static --tune.epochs 1 --distil.copies 0 --distil.epochs 1",
    "tune": "--epochs 1",
    "distill": "--copies 0 --epochs 1",
    "vectors train": "--size 16 --epochs 1 --threads 1",
    "pretrain": "--depth 1 --context 32 --steps 3 --batch-tokens 256 --threads 1",
    "export": "--threads 1",
    "generate": "--max-new-tokens 8",
}


def commands(readme: str) -> list[str]:
    """Every `gnomon ...` line of the shell blocks, comments taken off."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / readme).read_text(encoding="utf-8"), re.DOTALL)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("gnomon ")]


@pytest.fixture
def folder(tmp_path: Path, demo_questions: Path, minilm_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a data.csv of a few hundred questions, all as lines of corpus.txt, and the teacher as DIR."""
    with (tmp_path / "data.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        writer.writerows((example.text, example.label) for example in questions().examples[:400])
    (tmp_path / "corpus.txt").write_text("\n".join(questions().texts), encoding="utf-8")
    (tmp_path / "DIR").symlink_to(minilm_folder)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_both_readmes_give_the_same_commands_and_the_same_python() -> None:
    assert commands(READMES[0]) == commands(READMES[1])
    assert len(commands(READMES[0])) >= 7
    blocks = [
        re.findall(r"```python\n(.*?)```", (ROOT / readme).read_text(encoding="utf-8"), re.DOTALL) for readme in READMES
    ]
    assert blocks[0] == blocks[1]
    figures = [re.findall(r"\d+\.\d+", (ROOT / readme).read_text(encoding="utf-8")) for readme in READMES]
    assert figures[0] == figures[1]


def test_the_commands_and_the_python_of_the_readme_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for line in commands(READMES[0]):
        words = shlex.split(line)[1:]
        if "--resume" not in words:
            words += shlex.split(TINY.get(" ".join(words[:2]), TINY.get(words[0], "")))
        if words[0] == "frontier" and "--resume" not in words:
            words += ["--threads", "1"]
        code = run(words)
        said = capsys.readouterr()
        # No model of a few hundred questions is sure to answer in a millisecond; then the nearest is named.
        assert code == 0 or (words[0] == "advise" and "nearest" in said.err), f"{line}\n{said.err}"
    assert (folder / "run" / "report.html").stat().st_size > 10_000
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / READMES[0]).read_text(encoding="utf-8"), re.DOTALL)
    tiny = (
        "from gnomon.recipes.settings import DistilSettings, TuneSettings\n"
        "settings = dict(student=('static',), tune=TuneSettings(epochs=1), distil=DistilSettings(copies=0, epochs=1))\n"
    )
    program = tiny + block.replace('out="run"', 'out="run", threads=1, **settings')
    exec(compile(program, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip().splitlines()[-1] in {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}


def test_the_tree_and_the_links_of_the_readme_exist() -> None:
    for readme in READMES:
        text = (ROOT / readme).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
            assert (ROOT / target).exists(), f"{readme} names {target}"
        tree = re.search(r"src/gnomon/\n(.*?)tests/", text, re.DOTALL)
        assert tree is not None
        for line in filter(str.strip, tree[1].splitlines()):
            names, _, _ = line.strip().partition("   ")
            for name in names.split():
                assert (ROOT / "src" / "gnomon" / name).is_dir(), name


def test_no_figure_is_left_to_fill_in() -> None:
    for readme in READMES:
        assert "@FIGURES@" not in (ROOT / readme).read_text(encoding="utf-8")


def test_the_example_is_what_init_writes() -> None:
    text = (ROOT / "examples" / "frontier.toml").read_text(encoding="utf-8")
    written = commented_toml(Config, title="gnomon frontier --config THIS_FILE")
    assert text == written.replace('data = ""', 'data = "demo"').replace('teacher = ""', 'teacher = "demo"')
