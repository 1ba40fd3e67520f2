"""Products, dense and quantised, as MLX has them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import DType, MlxDevice, fn

from .mlx_table import MlxRow, normal

PACKINGS: list[dict[str, Any]] = [
    *({"bits": bits, "group_size": group} for bits, group in ((2, 32), (3, 64), (4, 64), (5, 64), (6, 128), (8, 64))),
    {"mode": "mxfp4"},
]


def note(packing: dict[str, Any]) -> str:
    return "-".join(map(str, packing.values()))


def is_long(packing: dict[str, Any], dtype: DType) -> bool:
    """Every packing in f32, and every type with 4 bits, are in each run."""
    return dtype is not DType.F32 and packing != PACKINGS[2]


def packs(packing: dict[str, Any], dtype: DType) -> MlxRow:
    w = normal(5, 256, dtype=dtype)
    w[1, :128] = 0
    return MlxRow("quantize", (w,), packing, exact=True, note=f"{note(packing)}-{dtype}", long=is_long(packing, dtype))


def unpacks(packing: dict[str, Any], dtype: DType) -> MlxRow:
    def ours(w: Any, stream: MlxDevice) -> Any:
        parts: list[Any] = [*fn.quantize(w, **packing, stream=stream), None]
        return fn.dequantize(parts[0], parts[1], parts[2], **packing, stream=stream)

    def theirs(mx: Any, w: Any) -> Any:
        return mx.dequantize(*mx.quantize(w, **packing), **packing)

    w = normal(4, 128, dtype=dtype)
    told = f"{note(packing)}-{dtype}"
    return MlxRow("dequantize", (w,), ours=ours, mlx=theirs, exact=True, note=told, long=is_long(packing, dtype))


def multiplies(packing: dict[str, Any], rows: int, transpose: bool) -> MlxRow:
    def ours(x: Any, w: Any, stream: MlxDevice) -> Any:
        parts: list[Any] = [*fn.quantize(w, **packing, stream=stream), None]
        return fn.quantized_matmul(x, parts[0], parts[1], parts[2], transpose, **packing, stream=stream)

    def theirs(mx: Any, x: Any, w: Any) -> Any:
        return mx.quantized_matmul(x, *[*mx.quantize(w, **packing), None][:3], transpose, **packing)

    w = normal(33 if transpose else 128, 128, seed=1)
    kind = "transposed" if transpose else "plain"
    return MlxRow("quantized_matmul", (normal(rows, 128), w), ours=ours, mlx=theirs, note=f"{note(packing)}-{kind}")


def gathers(packing: dict[str, Any], x: Any, **indices: Any) -> MlxRow:
    def ours(x: Any, w: Any, stream: MlxDevice, **given: Any) -> Any:
        parts: list[Any] = [*fn.quantize(w, **packing, stream=stream), None]
        return fn.gather_qmm(x, parts[0], parts[1], parts[2], **given, **packing, stream=stream)

    def theirs(mx: Any, x: Any, w: Any, **given: Any) -> Any:
        return mx.gather_qmm(x, *[*mx.quantize(w, **packing), None][:3], **given, **packing)

    w = normal(4, 16, 128, seed=2)
    return MlxRow("gather_qmm", (x, w), indices, ours=ours, mlx=theirs, note=f"{note(packing)}-{len(indices)}")


RIGHT = np.asarray([[3, 1], [0, 0], [2, 3]], np.uint32)
LEFT = np.asarray([[0], [2], [1]], np.uint32)

ROWS = [
    MlxRow("matmul", (normal(3, 40), normal(40, 21, seed=1))),
    MlxRow("matmul", (normal(40), normal(40, 21, seed=1))),
    MlxRow("matmul", (normal(2, 9, 40), normal(40, seed=1))),
    MlxRow("matmul", (normal(40), normal(40, seed=1))),
    MlxRow("matmul", (normal(2, 1, 9, 40), normal(3, 40, 8, seed=1))),
    MlxRow("matmul", (normal(33, 70), normal(70, 65, seed=1))),
    MlxRow("addmm", (normal(21, seed=2), normal(3, 40), normal(40, 21, seed=1), 0.5, 2.0)),
    MlxRow("addmm", (normal(33, 1, seed=2), normal(33, 70), normal(70, 65, seed=1))),
    MlxRow("addmm", (normal(2, 3, 8, seed=2), normal(2, 3, 40), normal(40, 8, seed=1), -1.0, 1.0)),
    *(packs(packing, dtype) for packing in PACKINGS for dtype in (DType.F32, DType.F16, DType.BF16)),
    *(unpacks(packing, dtype) for packing in PACKINGS for dtype in (DType.F32, DType.F16, DType.BF16)),
    *(multiplies(packing, rows, kind) for packing in PACKINGS for rows in (1, 12) for kind in (True, False)),
    *(gathers(packing, normal(3, 1, 1, 128), rhs_indices=RIGHT) for packing in PACKINGS),
    gathers(PACKINGS[2], normal(3, 2, 128), lhs_indices=LEFT, rhs_indices=RIGHT),
]
