"""One value out for each value in."""

from __future__ import annotations

from ..buffer import MlxBuffer
from ..encoder import CapturedOpKind, CommandEncoder
from .op import op
from .support import check_shape, kernel, one_dtype, result

__all__ = ["add"]


@op("a + b")
def add(enc: CommandEncoder, a: MlxBuffer, b: MlxBuffer, out: MlxBuffer | None = None) -> MlxBuffer:
    """The sum of two buffers of one shape."""
    dtype = one_dtype("add", a=a, b=b)
    check_shape("add", "b", b, a.shape, "the shape of a")
    out = result(enc, "add", out, a.shape, dtype)
    pipeline = kernel(enc, "elementwise", f"elementwise_add_{dtype}")
    enc.dispatch(pipeline, a, b, out, a.size, threads=a.size, kind=CapturedOpKind.ElemAdd)
    return out
