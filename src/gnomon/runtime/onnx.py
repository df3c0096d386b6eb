"""A classifier as an onnx graph, scored by onnxruntime on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnomon.runtime.session import open_session


class OnnxScorer:
    """Token ids to logits through one onnxruntime session, which several threads may share."""

    def __init__(self, model: Path | bytes, *, threads: int = 1) -> None:
        """Open a graph, from a file or from memory. Raises GnomonError when onnxruntime cannot read it."""
        self._session = open_session(model, threads=threads)

    def logits(self, ids: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Class scores float32 [B, C] of ids int64 [B, T] and `mask` bool [B, T], as `Scorer` asks for them."""
        real = np.ones(ids.shape, np.int64) if mask is None else mask.astype(np.int64)
        logits: np.ndarray = self._session.run(None, {"input_ids": ids, "attention_mask": real})[0]
        return logits
