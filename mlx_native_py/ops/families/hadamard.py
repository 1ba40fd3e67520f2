"""The Walsh-Hadamard transform of rows."""

from __future__ import annotations

import math

from ...encoder import Encoder
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..hadamard_rows import check_signs, is_power, transform_rows
from ..op import Output, op
from ..support import check_dtype, kernel, result, rows_of, shown

__all__ = ["hadamard_transform"]

_FACTORS = (1, 12, 20, 28)
_LONGEST = 8192


@op("H x * scale, scale 1/sqrt(n) unless given; signs flipped before H, or after it where inverse")
def hadamard_transform(
    enc: Encoder,
    x: MlxBuffer,
    scale: float | None = None,
    *,
    signs: MlxBuffer | None = None,
    inverse: bool = False,
    out: Output = None,
) -> MlxBuffer:
    """The Walsh-Hadamard transform along the last axis of m * 2^k values, m one of 1, 12, 20, 28 and 2^k <= 8192.

    With the default scale and m = 1 it is its own inverse. `signs` has one bit per value of a row, in u32 words from
    the lowest bit; `inverse` undoes the transform with the same signs.
    """
    check_dtype("x", x)
    rows, n = rows_of("x", x)
    parts = next((m for m in _FACTORS if n % m == 0 and is_power(n // m) and n // m <= _LONGEST), None)
    if parts is None:
        raise InvalidArgument(
            f"x is {shown(x)}, expected a last axis of m * 2^k with m one of 1, 12, 20, 28 and 2^k <= {_LONGEST}"
        )
    if signs is not None and parts != 1:
        raise InvalidArgument(f"signs need a last axis of 2^k, and x is {shown(x)}")
    check_signs(signs, n)
    out = result(enc, out, x.shape, x.dtype)
    length = n // parts
    factor = 1 / math.sqrt(n) if scale is None else scale
    transform_rows(enc, x.reshape(rows * parts, length), out.reshape(rows * parts, length), factor, signs, inverse)
    if parts != 1:
        pipeline = kernel(enc, "hadamard", f"hadamard_parts_{x.dtype}")
        enc.dispatch(pipeline, out, length, parts, threads=(length, rows))
    return out
