"""A deployed encoder against transformers: one text of 16 tokens, MiniLM."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from gnomon.deploy.encoder import build_encoder
from gnomon.models.base import HeadConfig
from gnomon.models.folders import read_folder
from gnomon.recipes.demo import demo_teacher
from gnomon.runtime.onnx import OnnxScorer
from harness import Row, compared, interleaved

TOKENS, LABELS, CALLS, REPEATS = 16, 6, 30, 7


def encoder_rows(threads: list[int]) -> Iterator[Row]:
    """Ours with its label head, theirs without one."""
    from transformers import AutoModel

    folder = demo_teacher()
    source = read_folder(folder)
    generator = np.random.default_rng(0)
    size = source.config.hidden_size
    head = {"head.out.weight": generator.normal(0, 0.02, (LABELS, size)), "head.out.bias": np.zeros(LABELS)}
    arrays = {**source.arrays, **{name: array.astype(np.float32) for name, array in head.items()}}
    graph = build_encoder(source.config, HeadConfig("mean"), arrays)
    theirs = AutoModel.from_pretrained(folder).eval()
    ids = generator.integers(1000, 20000, (1, TOKENS))
    for count in threads:
        scorer = OnnxScorer(graph, threads=count)
        mask = np.ones(ids.shape, np.bool_)
        inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.ones(ids.shape, dtype=torch.long)}

        def forward(count: int = count, inputs: dict[str, torch.Tensor] = inputs) -> object:
            torch.set_num_threads(count)
            with torch.inference_mode():
                return theirs(**inputs)

        def score(scorer: OnnxScorer = scorer, mask: np.ndarray = mask) -> object:
            return scorer.logits(ids, mask)

        found = interleaved({"ours": _milliseconds(score), "theirs": _milliseconds(forward)}, repeats=REPEATS)
        settings = f"{count} thread{'s' if count > 1 else ''}, batch 1"
        yield compared("MiniLM 16 tokens", settings, "transformers", found["ours"], found["theirs"], unit="ms")


def _milliseconds(call: Callable[[], object]) -> Callable[[], float]:
    """The median of some calls, in milliseconds."""

    def run() -> float:
        times = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            call()
            times.append(time.perf_counter() - begin)
        return 1000 * float(np.median(times))

    return run
