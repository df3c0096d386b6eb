"""What a command needs beyond the base install, asked for before anything else is done."""

from __future__ import annotations

from gnomon.errors import require


def need_training(command: str) -> None:
    """Raise GnomonError with the install line unless what trains, deploys and draws is installed."""
    for module in ("torch", "onnx", "sklearn", "matplotlib"):
        require(module, extra="train", purpose=command)
