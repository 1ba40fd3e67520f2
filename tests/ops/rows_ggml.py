"""Rows of the ops on GGML's blocks; `gguf` says what the blocks mean."""

from __future__ import annotations

import numpy as np

from mlx_native_py import DType, ops
from mlx_native_py.weights.ggml_types import GGML_TYPES

from .bench import Bench
from .table import row
from .weights import blocks, routed

FORMATS = tuple(GGML_TYPES)
SMALL = [DType.F16, DType.BF16]


@row(
    "ggml_matmul",
    format=FORMATS,
    dtype=[DType.F32],
    rows=[1, 3, 33],
    columns=[37],
    more={"dtype": SMALL, "rows": [8, 9], "columns": [5, 130]},
)
def ggml_matmul(bench: Bench, format: str, dtype: DType, rows: int, columns: int) -> None:
    w, values = blocks(bench, format, columns, 512)
    x = bench.normal(rows, 512, dtype=dtype)
    out = bench.out(rows, columns, dtype=dtype)
    bench.run(ops.ggml_matmul, bench.put(x), w, format, out=out)
    bench.quantised(out, x.astype(np.float64) @ values.T.astype(np.float64))


@row("ggml_matmul", format=["Q4_1", "Q8_0"], length=[32, 576, 1056], rows=[1, 12], more={"rows": [2, 40]})
def ggml_matmul_lengths(bench: Bench, format: str, length: int, rows: int) -> None:
    w, values = blocks(bench, format, 19, length)
    x = bench.normal(1, rows, length)
    out = bench.out(1, rows, 19)
    bench.run(ops.ggml_matmul, bench.put(x), w, format, out=out)
    bench.quantised(out, x.astype(np.float64) @ values.T.astype(np.float64))


@row("ggml_matmul", format=["Q4_1", "Q6_K"], rows=[2, 5, 12])
def ggml_matmul_few(bench: Bench, format: str, rows: int) -> None:
    """Rows that share what is unpacked, over more of x than is held at once."""
    w, values = blocks(bench, format, 40, 768)
    x = bench.normal(rows, 768)
    out = bench.out(rows, 40)
    bench.run(ops.ggml_matmul, bench.put(x), w, format, out=out)
    bench.quantised(out, x.astype(np.float64) @ values.T.astype(np.float64))


@row("ggml_matmul", format=["Q4_1", "Q6_K"])
def ggml_matmul_deep(bench: Bench, format: str) -> None:
    """One row that is longer than what is held of it at once."""
    w, values = blocks(bench, format, 40, 2304)
    x = bench.normal(1, 2304)
    out = bench.out(1, 40)
    bench.run(ops.ggml_matmul, bench.put(x), w, format, out=out)
    bench.quantised(out, x.astype(np.float64) @ values.T.astype(np.float64))


@row("ggml_matmul", format=FORMATS, dtype=[DType.F32], columns=[131], more={"dtype": SMALL, "columns": [128, 300]})
def ggml_matmul_large(bench: Bench, format: str, dtype: DType, columns: int) -> None:
    """A width that is worth a build of its own."""
    w, values = blocks(bench, format, columns, 512)
    x = bench.normal(1, 512, dtype=dtype)
    out = bench.out(1, columns, dtype=dtype)
    bench.run(ops.ggml_matmul, bench.put(x), w, format, out=out)
    bench.quantised(out, x.astype(np.float64) @ values.T.astype(np.float64))


@row(
    "ggml_matmul_id",
    format=FORMATS,
    dtype=[DType.F32],
    tokens=[(3, 2), (40, 3)],
    shared=[True],
    more={"dtype": SMALL, "tokens": [(1, 4), (70, 1), (9, 8)], "shared": [False]},
)
def ggml_matmul_id(bench: Bench, format: str, dtype: DType, tokens: tuple[int, int], shared: bool) -> None:
    w, values = blocks(bench, format, 4, 20, 256)
    ids = bench.integers(0, 5, *tokens)  # one id more than there are experts
    x = bench.normal(*(tokens[:1] if shared else tokens), 256, dtype=dtype)
    out = bench.out(*tokens, 20, dtype=dtype)
    bench.run(ops.ggml_matmul_id, bench.put(x), w, bench.put(ids), format, out=out)
    bench.quantised(out, routed(x, ids, values))


@row("ggml_matmul_id", format=["Q4_0"], experts=[1, 60], tokens=[(2, 5), (200, 6)], more={"experts": [7, 128]})
def ggml_matmul_id_experts(bench: Bench, format: str, experts: int, tokens: tuple[int, int]) -> None:
    w, values = blocks(bench, format, experts, 9, 32)
    ids = bench.integers(0, experts, *tokens)
    x = bench.normal(*tokens, 32)
    out = bench.out(*tokens, 9)
    bench.run(ops.ggml_matmul_id, bench.put(x), w, bench.put(ids), format, out=out)
    bench.quantised(out, routed(x, ids, values))


@row(
    "ggml_dequantize",
    format=FORMATS,
    dtype=[DType.F32],
    shape=[(1, 256), (3, 5, 512)],
    more={"dtype": SMALL, "shape": [(33, 768)]},
)
def ggml_dequantize(bench: Bench, format: str, dtype: DType, shape: tuple[int, ...]) -> None:
    w, values = blocks(bench, format, *shape)
    out = bench.out(*shape, dtype=dtype)
    bench.run(ops.ggml_dequantize, w, format, out=out)
    with np.errstate(over="ignore"):
        bench.exact(out, values.astype(dtype.numpy))


@row(
    "ggml_embedding",
    format=FORMATS,
    dtype=[DType.F32],
    shape=[(7,), (2, 3)],
    more={"dtype": SMALL, "shape": [(65,)]},
)
def ggml_embedding(bench: Bench, format: str, dtype: DType, shape: tuple[int, ...]) -> None:
    table, values = blocks(bench, format, 11, 256)
    ids = bench.integers(0, 12, *shape)  # one row more than there are
    out = bench.out(*shape, 256, dtype=dtype)
    bench.run(ops.ggml_embedding, bench.put(ids), table, format, out=out)
    with np.errstate(over="ignore"):
        known = np.concatenate([values, np.zeros_like(values[:1])]).astype(dtype.numpy)
    bench.exact(out, known[ids])
