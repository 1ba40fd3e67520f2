"""Rotary embeddings (RoPE): the scaling variants in model files, and their application."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..encoder import Encoder
from ..json_fields import Fields
from ..memory.buffer import MlxBuffer
from ..ops import rope_at

__all__ = ["Rope", "RotaryEmbedding", "llama3_factors", "read_rope"]


@dataclass(frozen=True, slots=True)
class Rope:
    """The parameters of a rotary embedding; `factors` divide the frequencies, one per pair."""

    base: float
    dims: int
    scale: float = 1.0
    traditional: bool = False
    """Whether pairs are adjacent, as in Llama's GGUF files, rather than halves of the head."""
    factors: tuple[float, ...] = ()


def read_rope(fields: Fields, head_dim: int) -> tuple[Rope, Rope]:
    """The rope of full-attention layers and that of sliding-window layers."""
    given = fields.table("rope_parameters")
    full = given.table("full_attention") or given
    sliding = given.table("sliding_attention") or given
    base = full.positive("rope_theta", fields.positive("rope_theta", 10000.0))
    share = min(fields.positive("partial_rotary_factor", 1.0), 1.0)
    dims = fields.count("rope_dims", int(head_dim * share), most=head_dim)
    plain = Rope(base, dims, traditional=fields.flag("rope_traditional", False))
    scaled = _scaled(plain, fields.table("rope_scaling") or full)
    if "rope_local_base_freq" in fields or sliding is not given:
        local_base = sliding.positive("rope_theta", fields.positive("rope_local_base_freq", base))
        return scaled, replace(plain, base=local_base)
    return scaled, scaled


def _scaled(rope: Rope, scaling: Fields) -> Rope:
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind in ("default", "none"):
        return rope
    if kind == "linear":
        return replace(rope, scale=1 / scaling.positive("factor"))
    if kind == "llama3":
        return replace(rope, factors=llama3_factors(rope, scaling))
    raise scaling.wrong("rope_type" if "rope_type" in scaling else "type", "'default', 'linear' or 'llama3'")


def llama3_factors(rope: Rope, scaling: Fields) -> tuple[float, ...]:
    """Llama 3's frequency factors: low frequencies are divided by `factor`, high ones kept, the rest blended."""
    factor = scaling.positive("factor")
    low, high = scaling.positive("low_freq_factor", 1.0), scaling.positive("high_freq_factor", 4.0)
    if not high > low:
        raise scaling.wrong("high_freq_factor", f"more than low_freq_factor, {low}")
    trained = scaling.positive("original_max_position_embeddings", 8192)
    factors = []
    for pair in range(rope.dims // 2):
        turns = trained * rope.base ** (-2 * pair / rope.dims) / (2 * math.pi)
        blend = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - blend) / factor + blend))
    return tuple(factors)


class RotaryEmbedding:
    """A rotary embedding on a device."""

    def __init__(self, rope: Rope, factors: MlxBuffer | None) -> None:
        self.traditional = rope.traditional
        self.options: Mapping[str, Any] = {
            "dims": rope.dims,
            "base": rope.base,
            "scale": rope.scale,
            "factors": factors,
        }

    def __call__(self, enc: Encoder, x: MlxBuffer, positions: MlxBuffer) -> MlxBuffer:
        """Rotates x [tokens, heads, head_dim]."""
        return rope_at(enc, x, positions, traditional=self.traditional, **self.options)
