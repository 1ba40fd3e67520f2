"""Weights in groups that share a scale and a bias, packed as MLX packs them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import ops
from ..device import MlxDevice
from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer, as_array
from .call import Call, call

__all__ = ["dequantize", "gather_qmm", "quantize", "quantized_matmul"]


def quantize(
    w: Any,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, ...]:
    """Packs a matrix: the words, the scales and, unless `mode` is "mxfp4", the biases.

    >>> w = np.arange(64, dtype=np.float32).reshape(1, 64)
    >>> [part.shape for part in fn.quantize(w, group_size=64, bits=4)]
    [(1, 8), (1, 1), (1, 1)]
    """
    with call(stream) as run:
        return ops.quantize(  # type: ignore[no-any-return]
            run.enc, run.put(w, "w"), group_size=group_size, bits=bits, mode=mode
        )


def dequantize(
    w: Any,
    scales: Any,
    biases: Any = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    dtype: Any = None,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The values of packed weights.

    >>> w = np.tile(np.arange(16, dtype=np.float32), (1, 4))
    >>> fn.dequantize(*fn.quantize(w)).numpy()[0, :3]
    array([0., 1., 2.], dtype=float32)
    """
    with call(stream) as run:
        options = {"group_size": group_size, "bits": bits, "mode": mode}
        kind = None if dtype is None else DType.of(dtype)
        return ops.dequantize(run.enc, *_weights(run, w, scales, biases), dtype=kind, **options)  # type: ignore[no-any-return]


def quantized_matmul(
    x: Any,
    w: Any,
    scales: Any,
    biases: Any = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The product with packed weights, x @ w.T or, where not `transpose`, x @ w.

    >>> packed = fn.quantize(np.tile(np.arange(16, dtype=np.float32), (1, 4)))
    >>> fn.quantized_matmul(np.ones((1, 64), np.float32), *packed).numpy()
    array([[480.]], dtype=float32)
    """
    with call(stream) as run:
        options = {"group_size": group_size, "bits": bits, "mode": mode, "transpose": transpose}
        weights = _weights(run, w, scales, biases)
        return ops.quantized_matmul(run.enc, run.put(x, "x"), *weights, **options)  # type: ignore[no-any-return]


def gather_qmm(
    x: Any,
    w: Any,
    scales: Any,
    biases: Any = None,
    lhs_indices: Any = None,
    rhs_indices: Any = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    sorted_indices: bool = False,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Products of matrices x[lhs] and packed weights w[rhs], chosen by indices that broadcast against each other.

    >>> packed = fn.quantize(np.tile(np.arange(16, dtype=np.float32), (2, 1, 4)))
    >>> fn.gather_qmm(np.ones((1, 1, 64), np.float32), *packed, rhs_indices=np.uint32([1, 0, 1])).numpy()
    array([[[480.]],
    <BLANKLINE>
           [[480.]],
    <BLANKLINE>
           [[480.]]], dtype=float32)
    """
    if not transpose:
        raise InvalidArgument("gather_qmm: transpose is False; weights chosen by index are taken as w.T only")
    with call(stream) as run:
        rows, weights = run.put(x, "x"), _weights(run, w, scales, biases)
        if rows.ndim < 2 or weights[0].ndim < 3:
            raise InvalidArgument(
                f"gather_qmm: x has shape {list(rows.shape)} and w {list(weights[0].shape)}, expected [..., m, k] and "
                "[experts, n, packed k]"
            )
        *batch, m, k = rows.shape
        left, right = _indices(lhs_indices, batch), _indices(rhs_indices, weights[0].shape[:-2])
        left, right = np.broadcast_arrays(left, right)
        matrices = rows.reshape(rows.size // (m * k), m * k)
        chosen = ops.gather(run.enc, matrices, run.put(left.reshape(-1), "lhs_indices"))
        ids = run.put(np.repeat(right.reshape(-1), m), "rhs_indices")
        flat = [each if each is None else each.reshape(prod(each.shape[:-2]), *each.shape[-2:]) for each in weights]
        options = {"group_size": group_size, "bits": bits, "mode": mode}
        found = ops.quantized_matmul_id(run.enc, chosen.reshape(chosen.size // k, k), *flat, ids, **options)
        return found.reshape(*right.shape, m, found.shape[-1])  # type: ignore[no-any-return]


def _weights(run: Call, w: Any, scales: Any, biases: Any) -> tuple[MlxBuffer, MlxBuffer, MlxBuffer | None]:
    return run.put(w, "w"), run.put(scales, "scales"), None if biases is None else run.put(biases, "biases")


def _indices(given: Any, axes: Any) -> Any:
    if given is None:
        return np.arange(int(np.prod(axes)), dtype=np.uint32).reshape(axes)
    return np.asarray(as_array(given)).astype(np.uint32)
