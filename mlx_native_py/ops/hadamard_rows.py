"""The Walsh-Hadamard transform of rows of 2^k values, shared by several ops."""

from __future__ import annotations

from ..dtypes import DType
from ..encoder import Encoder, Out
from ..memory.buffer import MlxBuffer
from .support import SIMD, check_dtype, check_shape, kernel

__all__ = ["check_signs", "is_power", "team_for", "transform_rows"]


def transform_rows(
    enc: Encoder,
    x: MlxBuffer,
    out: MlxBuffer,
    scale: float,
    signs: MlxBuffer | None = None,
    inverse: bool = False,
) -> None:
    """Transforms rows of 2^k values; the result has their type, or f32."""
    rows, n = x.size // x.shape[-1], x.shape[-1]
    pipeline = kernel(enc, "hadamard", f"hadamard_transform_{x.dtype}_{out.dtype}")
    before, after = signs is not None and not inverse, signs is not None and inverse
    bits = bytes(4) if signs is None else signs
    enc.dispatch(
        pipeline, x, bits, Out(out), n, scale, before, after, threadgroups=rows, group=team_for(n), shared=n * 4
    )


def team_for(n: int) -> int:
    """Threads per row of n values: whole simdgroups, at least 8 values per thread."""
    return min(max(SIMD, n // 8), 256)


def is_power(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def check_signs(signs: MlxBuffer | None, n: int) -> None:
    if signs is not None:
        check_dtype("signs", signs, (DType.U32,))
        check_shape("signs", signs, ((n + 31) // 32,), f"a bit for each of {n} values")
