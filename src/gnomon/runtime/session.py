"""Opening onnx graphs on the CPU."""

from __future__ import annotations

from pathlib import Path

import onnxruntime

from gnomon.errors import GnomonError

_ERRORS_ONLY = 3


def open_session(model: Path | bytes, *, threads: int) -> onnxruntime.InferenceSession:
    """A session of a graph, from a file or from memory. Raises GnomonError when onnxruntime cannot read it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _ERRORS_ONLY
    # Idle threads that spin for work win a tenth on an idle machine, and lose half of it to whatever else runs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source = str(model) if isinstance(model, Path) else model
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common type but this
        name = model if isinstance(model, Path) else "the graph"
        raise GnomonError(
            f"onnxruntime cannot open {name}: {error}",
            "the file is damaged (deploy or export again), or this onnxruntime is too old for it",
        ) from error
