"""Launches elementwise kernels, one thread per element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..encoder import CapturedOpKind, Encoder, Out
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline

__all__ = ["for_each"]

MOST = 1 << 31
"""The maximum number of elements per launch; larger buffers take several."""


def for_each(
    enc: Encoder,
    pipeline: Pipeline,
    inputs: Sequence[MlxBuffer],
    out: MlxBuffer,
    *scalars: Any,
    counted: bool = False,
    kind: CapturedOpKind = CapturedOpKind.Other,
) -> MlxBuffer:
    """Runs a kernel of (inputs, out, scalars) for each element of `out`; `counted` kernels take the count last."""
    for first in range(0, out.size, MOST):
        count = min(MOST, out.size - first)
        parts = (*inputs, out)
        if count < out.size:
            parts = tuple(part.slice_view(first * part.dtype.size, count) for part in parts)
        tail = (*scalars, count) if counted else scalars
        enc.dispatch(pipeline, *parts[:-1], Out(parts[-1]), *tail, threads=count, kind=kind)
    return out
