"""Launches row kernels, one threadgroup per row."""

from __future__ import annotations

from typing import Any

from ..encoder import CapturedOpKind, Encoder
from ..pipelines.pipeline import Pipeline
from .support import SIMD

__all__ = ["for_rows", "row_threads"]

_MANY_ROWS = 256


def for_rows(
    enc: Encoder,
    pipeline: Pipeline,
    rows: int,
    length: int,
    *arguments: Any,
    kind: CapturedOpKind = CapturedOpKind.Other,
) -> None:
    """Runs a kernel over rows of the given length."""
    enc.dispatch(pipeline, *arguments, threadgroups=rows, group=row_threads(pipeline, length, rows), kind=kind)


def row_threads(pipeline: Pipeline, length: int, rows: int) -> int:
    """Threads per row: a power of two of simdgroups, more for longer rows.

    Many rows keep the device busy by themselves, and smaller groups synchronise less; few rows need every thread.
    """
    each = 128 if rows >= _MANY_ROWS else 16
    simdgroups = -(-length // (each * SIMD))
    most = pipeline.max_threads // SIMD
    return SIMD << min((simdgroups - 1).bit_length(), most.bit_length() - 1)
