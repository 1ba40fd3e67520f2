"""The Walsh-Hadamard transform of rows."""

from __future__ import annotations

import math

from ..dtypes import DType
from ..encoder import CommandEncoder, Out
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .op import op
from .support import SIMD, check_dtype, check_shape, kernel, result, rows_of, shown

__all__ = ["check_signs", "hadamard_transform", "is_power", "team_for", "transform_rows"]

_FACTORS = (1, 12, 20, 28)
_LONGEST = 8192


@op("H x * scale, scale 1/sqrt(n) unless given; signs flipped before H, or after it where inverse")
def hadamard_transform(
    enc: CommandEncoder,
    x: MlxBuffer,
    *,
    scale: float | None = None,
    signs: MlxBuffer | None = None,
    inverse: bool = False,
    out: MlxBuffer | None = None,
) -> MlxBuffer:
    """The Walsh-Hadamard transform along the last axis of m * 2^k values, m one of 1, 12, 20, 28 and 2^k <= 8192.

    With its own scale and m = 1 it is its own inverse. `signs` has a bit per value of a row, u32 words from the
    lowest bit on; `inverse` undoes the transform that had the same signs.
    """
    check_dtype("hadamard_transform", "x", x)
    rows, n = rows_of("hadamard_transform", "x", x)
    parts = next((m for m in _FACTORS if n % m == 0 and is_power(n // m) and n // m <= _LONGEST), None)
    if parts is None:
        raise InvalidArgument(
            f"hadamard_transform: x is {shown(x)}, expected a last axis of m * 2^k with m one of 1, 12, 20, 28 "
            f"and 2^k <= {_LONGEST}"
        )
    if signs is not None and parts != 1:
        raise InvalidArgument(f"hadamard_transform: signs need a last axis of 2^k, and x is {shown(x)}")
    check_signs("hadamard_transform", signs, n)
    out = result(enc, "hadamard_transform", out, x.shape, x.dtype)
    length = n // parts
    factor = 1 / math.sqrt(n) if scale is None else scale
    transform_rows(enc, x.reshape(rows * parts, length), out.reshape(rows * parts, length), factor, signs, inverse)
    if parts != 1:
        pipeline = kernel(enc, "hadamard", f"hadamard_parts_{x.dtype}")
        enc.dispatch(pipeline, out, length, parts, threads=(length, rows))
    return out


def transform_rows(
    enc: CommandEncoder,
    x: MlxBuffer,
    out: MlxBuffer,
    scale: float,
    signs: MlxBuffer | None = None,
    inverse: bool = False,
) -> None:
    """Rows of 2^k values; the result has their type, or f32."""
    rows, n = x.size // x.shape[-1], x.shape[-1]
    pipeline = kernel(enc, "hadamard", f"hadamard_transform_{x.dtype}_{out.dtype}")
    before, after = signs is not None and not inverse, signs is not None and inverse
    bits = bytes(4) if signs is None else signs
    enc.dispatch(
        pipeline, x, bits, Out(out), n, scale, before, after, threadgroups=rows, group=team_for(n), shared=n * 4
    )


def team_for(n: int) -> int:
    """Threads that transform n values: whole simdgroups, each thread with 8 values or more."""
    return min(max(SIMD, n // 8), 256)


def is_power(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0


def check_signs(op: str, signs: MlxBuffer | None, n: int) -> None:
    if signs is not None:
        check_dtype(op, "signs", signs, (DType.U32,))
        check_shape(op, "signs", signs, ((n + 31) // 32,), f"a bit for each of {n} values")
