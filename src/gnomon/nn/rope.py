"""Rotary positions (RoPE; Su et al. 2021), as the `rope_parameters` of Hugging Face's configurations ask for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnomon.errors import GnomonError, did_you_mean
from gnomon.nn.positions import PositionTable, frequencies

Rotation = tuple[Tensor, Tensor]


def rotary(head_size: int, parameters: Mapping[str, Any], *, max_positions: int) -> PositionTable:
    """RoPE (Su et al. 2021) as Hugging Face's `rope_parameters` ask for it: [P, 2, d], cosines and signed sines.

    Knows the types default, linear, llama3 and yarn, which depend on the position alone. Raises GnomonError for
    others, naming them, for a setting it does not know, and for an odd `head_size`.
    """
    if head_size % 2:
        raise GnomonError(f"rotary positions need an even head width, not {head_size}", "choose an even head_dim")
    turning, scale = _scaled(head_size, dict(parameters), max_positions)

    def values(positions: Tensor) -> Tensor:
        angles = positions[:, None] * turning.to(positions.device)
        cosines, sines = angles.cos() * scale, angles.sin() * scale
        return torch.stack([torch.cat([cosines, cosines], -1), torch.cat([-sines, sines], -1)], dim=1)

    return PositionTable(values)


def rotation_of(rows: Tensor) -> Rotation:
    """Rows of a rotary table [(B,) T, 2, d] as what `rotate` takes: cosines and signed sines, [(B,) T, 1, d] each."""
    cosines, sines = rows.unsqueeze(-3).unbind(-2)
    return cosines, sines


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (i, i + d / 2) of `x` [B, T, H, d] by the angles of its position."""
    cosines, sines = rotation
    if torch.is_grad_enabled() and x.requires_grad:
        result: Tensor = _Rotate.apply(x, cosines, sines)  # type: ignore[no-untyped-call]
        return result
    return torch.addcmul(x * cosines, _halves_swapped(x), sines)


class _Rotate(torch.autograd.Function):
    """The gradient of a rotation is the rotation back; autograd would keep and add the halves one by one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        ctx.save_for_backward(cosines, sines)
        return torch.addcmul(x * cosines, _halves_swapped(x), sines)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        cosines, sines = ctx.saved_tensors
        return torch.addcmul(gradient * cosines, _halves_swapped(gradient), sines, value=-1), None, None


def _halves_swapped(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat([x[..., half:], x[..., :half]], dim=-1)


_SETTINGS: dict[str, frozenset[str]] = {
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
    "yarn": frozenset(
        {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale"}
        | {"mscale_all_dim", "truncate"}
    ),
}
_REQUIRED: dict[str, frozenset[str]] = {
    "default": frozenset(),
    "linear": frozenset({"factor"}),
    "llama3": frozenset({"factor", "low_freq_factor", "high_freq_factor"}),
    "yarn": frozenset({"factor"}),
}
_REFUSED = {
    "dynamic": "its angles change with the length of the text, so no cached key would stay right",
    "longrope": "its angles change with the length of the text, so no cached key would stay right",
}


def _scaled(size: int, parameters: dict[str, Any], max_positions: int) -> tuple[Tensor, float]:
    """Angles per position [d / 2], and the factor of cosines and sines."""
    kind = str(parameters.pop("rope_type", parameters.pop("type", "default")))
    theta = float(parameters.pop("rope_theta", 10_000.0))
    parameters.pop("type", None)
    if kind not in _SETTINGS:
        why = _REFUSED.get(kind, did_you_mean(kind, _SETTINGS))
        raise GnomonError(f"RoPE of the type {kind!r} is not computed here", why)
    if parameters.pop("partial_rotary_factor", None) not in (None, 1, 1.0):
        raise GnomonError("RoPE on a part of each head (partial_rotary_factor) is not computed here")
    unknown = sorted(set(parameters) - _SETTINGS[kind])
    if unknown:
        raise GnomonError(
            f"rope_parameters: {unknown[0]} is unknown for the type {kind!r}", did_you_mean(unknown[0], _SETTINGS[kind])
        )
    lacking = sorted(_REQUIRED[kind] - set(parameters))
    if lacking:
        raise GnomonError(f"rope_parameters of the type {kind!r} lack {', '.join(lacking)}", "restore config.json")
    plain = frequencies(size, theta=theta)
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / float(parameters["factor"]), 1.0
    known = {"original_max_position_embeddings": max_positions} | parameters
    return _llama3(plain, known) if kind == "llama3" else _yarn(plain, known, size=size, theta=theta)


def _llama3(plain: Tensor, settings: Mapping[str, Any]) -> tuple[Tensor, float]:
    """Llama 3.1: long waves slowed by `factor`, short ones kept, those between blended."""
    factor, low, high = (float(settings[name]) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = settings["original_max_position_embeddings"] * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return plain * (kept + (1 - kept) / factor), 1.0


def _yarn(plain: Tensor, settings: Mapping[str, Any], *, size: int, theta: float) -> tuple[Tensor, float]:
    """YaRN (Peng et al. 2023): a ramp over features between slowed and kept, and a temperature of attention."""
    original = settings["original_max_position_embeddings"]
    factor = float(settings.get("factor") or 1.0)

    def feature(turns: float) -> float:
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = feature(settings.get("beta_fast") or 32), feature(settings.get("beta_slow") or 1)
    if settings.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    ramp = ((torch.arange(size // 2, dtype=torch.float32) - first) / ((last - first) or 1e-3)).clamp(0, 1)
    scale = settings.get("attention_factor")
    if scale is None:
        one, other = settings.get("mscale"), settings.get("mscale_all_dim")
        scale = _temperature(factor, one) / _temperature(factor, other) if one and other else _temperature(factor, 1)
    return plain * (1 - ramp) + plain / factor * ramp, float(scale)


def _temperature(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0
