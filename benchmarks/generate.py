"""`make bench-generate`: generating against transformers, CTranslate2 and llama.cpp, and what narrow weights cost.

A prompt of 128 tokens and 256 new ones, greedy, the whole call timed; interleaved medians. `--only` takes a part of the
rows' names, so that a long run can be made in pieces.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch

from generate_encoder import encoder_rows
from generate_models import exported, prompts, question_ids, random_folder, smollm2_folder
from generate_peers import CTranslate2, Generator, LlamaCpp, Ours, Transformers
from gnomon.decoding.logprobs import score_rows
from gnomon.runtime.generator import open_language_model
from harness import BUILD, Row, compared, interleaved, report

PROMPT, NEW = 128, 256
WORK = BUILD / "generate"
BATCH = 8
SCORED, SCORED_LENGTH = 8192, 256
COLD_RUNS = 5


def main() -> None:
    """Run every row that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[""], help="rows whose name holds one of these")
    parser.add_argument("--trained", type=Path, nargs="*", default=[], help="more models to measure the loss of")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name, folder_of in (("SmolLM2", smollm2_folder), ("15M", random_folder)):
        if any(asked(work, options) for work in _names(name)):
            folder = folder_of(WORK)
            for threads in options.threads:
                rows += [*deployed_rows(name, folder, threads, options), *batch_rows(name, folder, threads, options)]
                rows += torch_rows(name, folder, threads, options)
    if asked("MiniLM 16 tokens", options):
        rows += encoder_rows(options.threads)
    if asked("SmolLM2 cold start", options):
        rows.append(cold_start_row(smollm2_folder(WORK)))
    for name, folder in (("SmolLM2", smollm2_folder(WORK)), *((one.name, one) for one in options.trained)):
        if asked(f"{name} perplexity", options):
            rows += quality_rows(name, folder)
    packages = ("torch", "transformers", "onnxruntime", "ctranslate2", "llama-cpp-python")
    report("generate", rows, packages=packages, keep=options.only != [""])


def asked(work: str, options: argparse.Namespace) -> bool:
    """Whether the row of this name is wanted."""
    return any(part in work for part in options.only)


def _names(name: str) -> list[str]:
    kinds = ("8-bit", "4-bit", f"batch {BATCH} 8-bit", f"batch {BATCH} 4-bit", "torch", "torch prefill", "torch cache")
    return [f"{name} {kind}" for kind in kinds]


def deployed_rows(name: str, folder: Path, threads: int, options: argparse.Namespace) -> Iterator[Row]:
    """Both widths against every peer, at batch 1."""
    works = [work for bits in (8, 4) if asked(work := f"{name} {bits}-bit", options)]
    if works:
        yield from _against_peers(works, folder, 1, threads, options.repeats)


def batch_rows(name: str, folder: Path, threads: int, options: argparse.Namespace) -> Iterator[Row]:
    """Both widths against every peer, several prompts at once."""
    works = [f"{name} batch {BATCH} {bits}-bit" for bits in (8, 4)]
    works = [work for work in works if asked(work, options)]
    if works:
        yield from _against_peers(works, folder, BATCH, threads, options.repeats)


def _against_peers(works: list[str], folder: Path, rows: int, threads: int, repeats: int) -> Iterator[Row]:
    ids = prompts(folder, rows, PROMPT)
    columns = PROMPT + NEW
    contenders: dict[str, Generator] = {
        "transformers": Transformers(folder, threads=threads),
        "CTranslate2": CTranslate2(folder, WORK, threads=threads),
    }
    for work in works:
        bits = int(work.split("-bit")[0].split()[-1])
        contenders[work] = Ours(exported(folder, bits=bits), threads=threads)
        if importlib.util.find_spec("llama_cpp"):
            file = exported(folder, bits=bits, to="gguf")
            contenders[f"llama.cpp {bits}"] = LlamaCpp(file, threads=threads, rows=rows, columns=columns)
    seconds = interleaved({key: _timed(one, ids, NEW) for key, one in contenders.items()}, repeats=repeats)
    for work in works:
        bits = work.split("-bit")[0].split()[-1]
        for key, theirs in seconds.items():
            if key in ("transformers", "CTranslate2", f"llama.cpp {bits}"):
                peer = key.removesuffix(f" {bits}")
                yield _row(work, threads, peer, seconds[work], theirs, rows * NEW)


def _row(work: str, threads: int, peer: str, ours: list[float], theirs: list[float], tokens: int) -> Row:
    settings = f"{threads} thread{'s' if threads > 1 else ''}, {PROMPT} + {NEW} tokens"
    rates = [[tokens / one for one in seconds] for seconds in (ours, theirs)]
    return compared(work, settings, peer, *rates, unit="tokens/s", lower_is_better=False)


def torch_rows(name: str, folder: Path, threads: int, options: argparse.Namespace) -> Iterator[Row]:
    """The torch path: decoding and prefill against transformers, and the cache against reading everything again."""
    settings = f"{threads} thread{'s' if threads > 1 else ''}"
    wanted = {work for work in _names(name) if asked(work, options)}
    if not wanted & {f"{name} {kind}" for kind in ("torch", "torch prefill", "torch cache")}:
        return
    ours, theirs = Ours(folder, threads=threads, through_torch=True), Transformers(folder, threads=threads)
    both: Mapping[str, Generator] = {"ours": ours, "theirs": theirs}
    for work, length, count in ((f"{name} torch", PROMPT, 64), (f"{name} torch prefill", 512, 1)):
        if work in wanted:
            ids = prompts(folder, 1, length)
            found = interleaved({key: _timed(one, ids, count) for key, one in both.items()}, repeats=options.repeats)
            said = f"{settings}, {length} + {count} tokens"
            yield compared(work, said, "transformers", found["ours"], found["theirs"], unit="s")
    if f"{name} torch cache" in wanted and name == "15M":
        ids = prompts(folder, 1, PROMPT)
        runs: dict[str, Callable[[], float]] = {
            "cached": _timed(ours, ids, 512),
            "recomputed": lambda: _recomputed(ours, ids, 512),
        }
        found = interleaved(runs, repeats=1)
        said = f"{settings}, {PROMPT} + 512 tokens"
        yield compared(f"{name} torch cache", said, "recomputing", found["cached"], found["recomputed"], unit="s")


def _timed(generator: Generator, ids: np.ndarray, count: int) -> Callable[[], float]:
    """One generation in seconds; the first call of a generator is preceded by a short one."""
    warm = False

    def run() -> float:
        nonlocal warm
        if not warm:
            generator.generate(ids, min(count, 4))
            warm = True
        begin = time.perf_counter()
        found = generator.generate(ids, count)
        seconds = time.perf_counter() - begin
        if found.shape != (len(ids), count):
            raise RuntimeError(f"{found.shape[1]} tokens were generated, not {count}")
        return seconds

    return run


def _recomputed(ours: Ours, ids: np.ndarray, count: int) -> float:
    """The same tokens without a cache."""
    begin = time.perf_counter()
    for _ in range(count):
        ours.stepper.trim(0)
        chosen = ours.stepper.prefill(ids, np.ones(ids.shape, np.bool_)).argmax(axis=1)
        ids = np.concatenate([ids, chosen[:, None]], axis=1)
    return time.perf_counter() - begin


def cold_start_row(folder: Path) -> Row:
    """Whole processes, to the first token, against a process that does as little with transformers."""
    deployed = exported(folder, bits=8)
    arguments = [str(deployed), "The capital of France is", "--max-new-tokens", "1"]
    load = "from transformers import AutoModelForCausalLM as M, AutoTokenizer as T"
    steps = f"m, t = M.from_pretrained({str(folder)!r}), T.from_pretrained({str(folder)!r})"
    ids = "i = t('The capital of France is', return_tensors='pt')"
    program = f"{load}; {steps}; {ids}; print(t.decode(m.generate(**i, max_new_tokens=1)[0]))"
    console = str(Path(sys.executable).with_name("gnomon"))
    runs: dict[str, Callable[[], float]] = {
        "ours": lambda: _process([console, "generate", *arguments]),
        "theirs": lambda: _process([sys.executable, "-c", program]),
    }
    for run in runs.values():
        run()
    found = interleaved(runs, repeats=COLD_RUNS)
    settings = "whole process, first token included, 8 bits"
    return compared("SmolLM2 cold start", settings, "transformers", found["ours"], found["theirs"], unit="s")


def _process(command: list[str]) -> float:
    begin = time.perf_counter()
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begin


def quality_rows(name: str, folder: Path) -> Iterator[Row]:
    """Perplexity on real questions with narrow weights against that with full ones."""
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0))))
    ids = question_ids(folder)[:SCORED]
    texts = [ids[start : start + SCORED_LENGTH] for start in range(0, len(ids), SCORED_LENGTH)]
    full = Ours(folder, threads=torch.get_num_threads(), through_torch=True).stepper
    expected = -float(np.concatenate(score_rows(full, texts, pad_id=0)).mean())
    for bits in (32, 8, 4):
        stepper = open_language_model(exported(folder, bits=bits)).stepper
        found = -float(np.concatenate(score_rows(stepper, texts, pad_id=0)).mean())
        settings = f"{bits} bits, {len(ids):,} tokens of questions"
        perplexities = [math.exp(found)], [math.exp(expected)]
        yield compared(f"{name} perplexity", settings, "full weights", *perplexities, unit="perplexity")


if __name__ == "__main__":
    main()
