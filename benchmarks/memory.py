"""`make bench-memory`: the chunked loss against torch's own cross-entropy, forward and backward, in time and memory.

8,192 positions of width 576 (SmolLM2-135M's) on a vocabulary of 49,152. Each figure is a process of its own: the extra
memory is the highest resident size less that before the loss, the time is that of the second of two passes. Exits 1
unless the gradients agree.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from gnomon.nn.vocabulary import summed_cross_entropy
from harness import compared, interleaved, report


def loss_of(kind: str, features: Tensor, matrix: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy, by torch ("plain") or by us ("chunked")."""
    if kind == "plain":
        return F.cross_entropy(F.linear(features, matrix), targets)
    return summed_cross_entropy(features, matrix, None, targets) / len(targets)


def peak_mb() -> float:
    """The highest resident size so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(kind: str, options: argparse.Namespace, folder: Path) -> None:
    """Print seconds and extra megabytes, and leave the gradients in `folder`."""
    torch.manual_seed(0)
    features = torch.randn(options.tokens, options.width, requires_grad=True)
    matrix = torch.empty(options.vocabulary, options.width).normal_(std=0.02).requires_grad_()
    targets = torch.randint(options.vocabulary, (options.tokens,))
    torch.mm(torch.randn(64, 64), torch.randn(64, 64))  # the library's own buffers
    before = peak_mb()
    for _ in range(2):
        features.grad = matrix.grad = None
        started = time.perf_counter()
        loss_of(kind, features, matrix, targets).backward()
        seconds = time.perf_counter() - started
    print(seconds, peak_mb() - before)
    if features.grad is not None and matrix.grad is not None:
        save_file({"features": features.grad, "matrix": matrix.grad}, folder / f"{kind}.safetensors")


def main() -> int:
    """Measure both kinds in turn and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=49152)
    parser.add_argument("--width", type=int, default=576)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options, Path(options.folder))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        given = [item for name in ("tokens", "vocabulary", "width") for item in (f"--{name}", str(vars(options)[name]))]
        memory: dict[str, list[float]] = {"plain": [], "chunked": []}

        def run(kind: str) -> float:
            command = [sys.executable, __file__, *given, "--measure", kind, "--folder", folder]
            seconds, megabytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            memory[kind].append(float(megabytes))
            return float(seconds)

        times = interleaved({"chunked": lambda: run("chunked"), "plain": lambda: run("plain")}, repeats=options.repeats)
        ours, theirs = (load_file(Path(folder) / f"{kind}.safetensors") for kind in ("chunked", "plain"))
    work = f"loss {options.tokens} x {options.vocabulary}"
    settings = f"width {options.width}, {torch.get_num_threads()} threads"
    rows = [
        compared(f"{work}: seconds", settings, "torch", times["chunked"], times["plain"], unit="s"),
        compared(f"{work}: extra memory", settings, "torch", memory["chunked"], memory["plain"], unit="MB"),
    ]
    report("memory", rows, packages=("torch",))
    apart = max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
    print(f"gradients differ by at most {apart:.1e}")
    return int(apart > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
