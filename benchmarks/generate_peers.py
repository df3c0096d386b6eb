"""The peers of `benchmarks/generate.py`: each continues prompts greedily and never stops early.

`generate(prompts, count)` takes ids [B, T] and gives ids [B, count]; what is measured is that call.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from gnomon.recipes.language_models import open_model

_silent = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda level, text, data: None)


class Generator(Protocol):
    """One way to generate."""

    def generate(self, prompts: np.ndarray, count: int) -> np.ndarray:
        """Ids int64 [B, T] -> the ids that follow, [B, count]."""
        ...


class Ours:
    """A deployed folder, or the torch model of any other."""

    def __init__(self, folder: Path, *, threads: int, through_torch: bool = False) -> None:
        self._threads = threads if through_torch else None
        self.stepper = open_model(str(folder), threads=threads).stepper

    def generate(self, prompts: np.ndarray, count: int) -> np.ndarray:
        """The loop of `gnomon.decoding` without its text."""
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        self.stepper.trim(0)
        chosen = [self.stepper.prefill(prompts, np.ones(prompts.shape, np.bool_)).argmax(axis=1)]
        for _ in range(count - 1):
            chosen.append(self.stepper.step(chosen[-1]).argmax(axis=1))
        return np.stack(chosen, axis=1)


class Transformers:
    """transformers' `generate`, float32, as it comes."""

    def __init__(self, folder: Path, *, threads: int, use_cache: bool = True) -> None:
        from transformers import AutoModelForCausalLM

        self._threads, self._use_cache = threads, use_cache
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def generate(self, prompts: np.ndarray, count: int) -> np.ndarray:
        """Greedy."""
        torch.set_num_threads(self._threads)
        with torch.inference_mode():
            ids = self.model.generate(
                torch.from_numpy(prompts),
                attention_mask=torch.ones(prompts.shape, dtype=torch.long),
                min_new_tokens=count,
                max_new_tokens=count,
                do_sample=False,
                use_cache=self._use_cache,
                pad_token_id=0,
            )
        found: np.ndarray = ids[:, prompts.shape[1] :].numpy()
        return found


class CTranslate2:
    """CTranslate2's Generator, int8."""

    def __init__(self, folder: Path, work: Path, *, threads: int) -> None:
        import ctranslate2

        converted = work / f"{folder.name}-ctranslate2"
        if not converted.exists():
            ctranslate2.converters.TransformersConverter(str(folder)).convert(str(converted), quantization="int8")
        self._tokens: list[str] = json.loads((converted / "vocabulary.json").read_text())
        self._generator = ctranslate2.Generator(
            str(converted), device="cpu", compute_type="int8", intra_threads=threads, inter_threads=1
        )

    def generate(self, prompts: np.ndarray, count: int) -> np.ndarray:
        """Greedy; texts by their tokens, as it wants them."""
        results = self._generator.generate_batch(
            [[self._tokens[token] for token in row] for row in prompts],
            max_length=count,
            min_length=count,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=[],
        )
        return np.array([result.sequences_ids[0] for result in results])


class LlamaCpp:
    """llama.cpp through its own C interface (llama-cpp-python, built on this machine), a GGUF file."""

    def __init__(self, file: Path, *, threads: int, rows: int = 1, columns: int = 512) -> None:
        import llama_cpp

        self._library = llama_cpp
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_seq_max = rows * columns, rows * columns, rows
        settings.n_threads = settings.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(self._model, settings)
        self._size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self._model))

    def generate(self, prompts: np.ndarray, count: int) -> np.ndarray:
        """Greedy: the best of its scores, of which no copy is made."""
        library = self._library
        library.llama_memory_clear(library.llama_get_memory(self._context), True)
        logits = self._decode(prompts, 0)
        chosen = [logits.argmax(axis=1)]
        for step in range(count - 1):
            chosen.append(self._decode(chosen[-1][:, None], prompts.shape[1] + step).argmax(axis=1))
        return np.stack(chosen, axis=1)

    def _decode(self, ids: np.ndarray, past: int) -> np.ndarray:
        """More ids [B, T] of each row -> the scores [B, V] after the last."""
        library, (rows, length) = self._library, ids.shape
        batch = library.llama_batch_init(rows * length, 0, 1)
        batch.n_tokens = rows * length
        for place, (row, column) in enumerate(np.ndindex(rows, length)):
            batch.token[place], batch.pos[place] = int(ids[row, column]), past + column
            batch.n_seq_id[place], batch.seq_id[place][0] = 1, row
            batch.logits[place] = column == length - 1
        if library.llama_decode(self._context, batch):
            raise RuntimeError("llama.cpp could not decode")
        library.llama_batch_free(batch)
        last = [(row + 1) * length - 1 for row in range(rows)]
        pointers = [library.llama_get_logits_ith(self._context, place) for place in last]
        return np.stack([np.ctypeslib.as_array(pointer, (self._size,)) for pointer in pointers])
