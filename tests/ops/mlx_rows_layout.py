"""Layouts and rows by number, as MLX has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import MlxDevice, fn

from .mlx_table import MlxRow, normal

X = normal(3, 4, 5)
IDS = np.asarray([[2, 0], [-1, 1]], np.int32)


def packed(bits: int, group_size: int) -> MlxRow:
    """MLX quantises; then both take rows of the result."""

    def ours(table: Any, ids: Any, stream: MlxDevice) -> Any:
        import mlx.core as mx

        w, scales, biases = (np.array(each) for each in mx.quantize(mx.array(table), group_size, bits))
        return fn.quantized_embedding(ids, w, scales, biases, group_size=group_size, bits=bits, stream=stream)

    def theirs(mx: Any, table: Any, ids: Any) -> Any:
        w, scales, biases = mx.quantize(table, group_size, bits)
        return mx.dequantize(w[ids], scales[ids], biases[ids], group_size, bits)

    name = "quantized_embedding"
    return MlxRow(
        name, (normal(6, 256), np.array([5, 0, 3], np.uint32)), ours=ours, mlx=theirs, note=f"{bits}-{group_size}"
    )


ROWS = [
    MlxRow("transpose", (X,), exact=True),
    MlxRow("transpose", (X, (2, 0, 1)), exact=True, note="axes"),
    MlxRow("transpose", (normal(40, 33), (1, 0)), exact=True, note="tiles"),
    MlxRow("swapaxes", (X, 0, -1), exact=True),
    MlxRow("contiguous", (X,), exact=True),
    MlxRow("as_strided", (normal(40), (3, 4), (2, 7), 1), exact=True),
    MlxRow("repeat", (X, 3), exact=True),
    MlxRow("repeat", (X, 2), {"axis": 1}, exact=True, note="axis"),
    MlxRow("tile", (X, (2, 1, 3)), exact=True),
    MlxRow("tile", (X, (2, 3, 1, 2)), exact=True, note="new-axis"),
    MlxRow("concatenate", ([X, normal(3, 2, 5), X],), {"axis": 1}, exact=True),
    MlxRow("concatenate", ([X, normal(6, 4, 5)],), exact=True, note="first"),
    MlxRow("slice", (X, np.array([1, 2], np.int32), (0, 2), (2, 4, 3)), exact=True),
    MlxRow("slice_update", (X, normal(1, 4, 2, seed=5), np.array([2, 3], np.int32), (0, 2)), exact=True),
    MlxRow("take", (X, IDS), exact=True, note="flat"),
    MlxRow("take", (X, IDS), {"axis": 0}, exact=True),
    MlxRow("take", (X, IDS), {"axis": 1}, exact=True, note="inner"),
    MlxRow("take", (X, IDS), {"axis": -1}, exact=True, note="last"),
    MlxRow("embedding", (np.array([3, 1], np.uint32), normal(4, 9)), mlx=lambda mx, ids, table: table[ids], exact=True),
    *(packed(bits, group_size) for bits in (2, 3, 4, 5, 6, 8) for group_size in (32, 64, 128)),
]
