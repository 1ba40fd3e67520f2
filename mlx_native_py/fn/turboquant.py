"""TurboQuant: rows as codes of a few bits and norms, and back."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..memory.buffer import MlxBuffer
from .call import call
from .inputs import maybe

__all__ = ["tq_dequantize", "tq_quantize"]


def tq_quantize(
    x: Any, bits: int = 4, *, signs: Any = None, stream: MlxDevice | None = None
) -> tuple[MlxBuffer, MlxBuffer]:
    """Codes and norms of rows of 2^k values; `signs` is u32 words with a bit per value.

    >>> codes, norms = fn.tq_quantize(np.ones((3, 128), np.float32), bits=4)
    >>> codes, norms.numpy().ravel()
    (MlxBuffer(u8[3, 64], 192 bytes), array([11.313708, 11.313708, 11.313708], dtype=float32))
    """
    with call(stream) as run:
        return ops.tq_quantize(  # type: ignore[no-any-return]
            run.enc, run.put(x, "x"), bits=bits, signs=maybe(run, signs, "signs")
        )


def tq_dequantize(
    codes: Any, norms: Any, bits: int = 4, *, signs: Any = None, stream: MlxDevice | None = None
) -> MlxBuffer:
    """The rows that codes and norms stand for, f32.

    >>> x = np.random.default_rng(0).normal(size=(2, 256)).astype(np.float32)
    >>> again = fn.tq_dequantize(*fn.tq_quantize(x, bits=8), bits=8)
    >>> bool(np.abs(again.numpy() - x).max() < 0.1)
    True
    """
    with call(stream) as run:
        return ops.tq_dequantize(  # type: ignore[no-any-return]
            run.enc, run.put(codes, "codes"), run.put(norms, "norms"), bits=bits, signs=maybe(run, signs, "signs")
        )
