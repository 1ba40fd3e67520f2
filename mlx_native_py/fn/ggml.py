"""Weights in GGML's blocks, as GGUF files hold them: u8 arrays of whole rows, and the name of their format."""

from __future__ import annotations

from typing import Any

from .. import ops
from ..device import MlxDevice
from ..dtypes import DType
from ..memory.buffer import MlxBuffer
from .call import call

__all__ = ["ggml_dequantize", "ggml_embedding", "ggml_matmul", "ggml_matmul_id"]


def ggml_matmul(x: Any, w: Any, format: str, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Rows x [..., k] by weights w [n, bytes of a row].

    >>> block = np.concatenate([np.float16([0.5]).view(np.uint8), np.ones(32, np.uint8)])
    >>> fn.ggml_matmul(np.ones((1, 32), np.float32), block[None], "Q8_0").numpy()
    array([[16.]], dtype=float32)
    """
    with call(stream) as run:
        return ops.ggml_matmul(run.enc, run.put(x, "x"), run.put(w, "w"), format)  # type: ignore[no-any-return]


def ggml_matmul_id(x: Any, w: Any, ids: Any, format: str, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """Each row of x by the weights of its experts: w is [experts, n, bytes of a row], ids is u32 [..., top_k].

    >>> block = np.concatenate([np.float16([0.5]).view(np.uint8), np.ones(32, np.uint8)])
    >>> fn.ggml_matmul_id(np.ones((1, 32), np.float32), block[None, None], np.uint32([[0, 9]]), "Q8_0").numpy()
    array([[[16.],
            [ 0.]]], dtype=float32)
    """
    with call(stream) as run:
        arguments = run.put(x, "x"), run.put(w, "w"), run.put(ids, "ids")
        return ops.ggml_matmul_id(run.enc, *arguments, format)  # type: ignore[no-any-return]


def ggml_dequantize(w: Any, format: str, dtype: Any = DType.F32, *, stream: MlxDevice | None = None) -> MlxBuffer:
    """The values of blocks.

    >>> block = np.concatenate([np.float16([0.5]).view(np.uint8), np.arange(32, dtype=np.uint8)])
    >>> fn.ggml_dequantize(block[None], "Q8_0").numpy()[0, :3]
    array([0. , 0.5, 1. ], dtype=float32)
    """
    with call(stream) as run:
        return ops.ggml_dequantize(run.enc, run.put(w, "w"), format, dtype=DType.of(dtype))  # type: ignore[no-any-return]


def ggml_embedding(
    ids: Any, table: Any, format: str, dtype: Any = DType.F32, *, stream: MlxDevice | None = None
) -> MlxBuffer:
    """Rows of a table of blocks, by u32 ids.

    >>> block = np.concatenate([np.float16([0.5]).view(np.uint8), np.arange(32, dtype=np.uint8)])
    >>> fn.ggml_embedding(np.uint32([0]), block[None], "Q8_0").numpy()[0, :3]
    array([0. , 0.5, 1. ], dtype=float32)
    """
    with call(stream) as run:
        arguments = run.put(ids, "ids"), run.put(table, "table")
        return ops.ggml_embedding(run.enc, *arguments, format, dtype=DType.of(dtype))  # type: ignore[no-any-return]
