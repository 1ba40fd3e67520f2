"""simdgroup_matrix: load, store, arithmetic and the elements each lane holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .layout import SCALARS
from .program import Program, zeros

Array = NDArray[Any]


def _small(seed: int, dtype: Any, shape: tuple[int, ...] = (8, 8)) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def arithmetic(scalar: str) -> Program:
    """Every operation on 8x8 matrices of one type; small integers keep all results exact."""
    dtype = SCALARS[scalar]
    a, b = _small(1, dtype), _small(2, dtype)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    body = f"""
#include <metal_simdgroup_matrix>
typedef simdgroup_matrix<{scalar}, 8, 8> M;
kernel void k(device const {scalar}* a, device const {scalar}* b, device {scalar}* out, uint lane
    [[thread_index_in_simdgroup]]) {{
  threadgroup {scalar} t[128];
  simdgroup_{scalar}8x8 ma, mb, mc;
  simdgroup_load(ma, a);
  simdgroup_load(mb, b, 8);
  simdgroup_store(ma, out);
  simdgroup_multiply(mc, ma, mb);
  simdgroup_store(mc, out + 64, 8);
  simdgroup_multiply_accumulate(mc, ma, mb, ma);
  simdgroup_store(mc, out + 128, 8, ulong2(0, 0));
  simdgroup_load(mc, a, 8, ulong2(0, 0), true);
  simdgroup_store(mc, out + 192, 8);
  simdgroup_store(ma, out + 256, 8, ulong2(0, 0), true);
  mc = make_filled_simdgroup_matrix<{scalar}, 8>({scalar}(2));
  simdgroup_store(mc, out + 320, 8);
  mc = M({scalar}(3));
  simdgroup_store(mc, out + 384, 8);
  simdgroup_store(ma, t, 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_load(mc, t, 8);
  simdgroup_store(mc, out + 448, 8);
  M tile;
  simdgroup_load(tile, b, 8);
  tile.thread_elements()[0] += {scalar}(1);
  tile.thread_elements()[1] += {scalar}(1);
  simdgroup_store(tile, out + 512, 8);
  mc = simdgroup_matrix<{scalar}, 8, 8>({scalar}(0));
  simdgroup_multiply_accumulate(mc, tile, mb, mc);
  simdgroup_store(mc, out + 576, 8);
}}"""
    pieces = {
        "load-store": wide_a,
        "multiply": wide_a @ wide_b,
        "multiply_accumulate": wide_a @ wide_b + wide_a,
        "load-transposed": wide_a.T,
        "store-transposed": wide_a.T,
        "filled": np.full((8, 8), 2.0),
        "diagonal": np.eye(8) * 3,
        "threadgroup": wide_a,
        "thread_elements": wide_b + 1,
        "accumulate-elements": (wide_b + 1) @ wide_b,
    }
    results = {name: (2, piece.ravel().astype(dtype), 64 * n) for n, (name, piece) in enumerate(pieces.items())}
    args = [a, b, zeros(64 * len(pieces), dtype)]
    return Program(f"simdgroup-{scalar}", body, args, results, threads=32, group=32)


def _rows_and_columns() -> tuple[Array, Array]:
    """Apple's layout: lane's row, and column of its first element."""
    lane = np.arange(32)
    quarter = lane // 4
    return (quarter & 4) + (lane // 2) % 4, (quarter & 2) * 2 + (lane % 2) * 2


def elements() -> Program:
    """Which elements each lane holds, as kernels in the wild rely on."""
    body = """
#include <metal_simdgroup_matrix>
kernel void k(device const float* a, device float* out, uint lane [[thread_index_in_simdgroup]]) {
  simdgroup_float8x8 m;
  simdgroup_load(m, a, 8);
  out[2 * lane] = m.thread_elements()[0];
  out[2 * lane + 1] = m.thread_elements()[1];
}"""
    a = np.arange(64, dtype=np.float32)
    row, column = _rows_and_columns()
    want = np.stack([row * 8 + column, row * 8 + column + 1], 1).ravel()
    return Program("simdgroup-layout", body, [a, zeros(64)], {"lanes": (1, want)}, threads=32, group=32)


def mixed() -> Program:
    """Half and bfloat factors into float accumulators, strides, origins, several simdgroups, a loop over k."""
    body = """
#include <metal_simdgroup_matrix>
kernel void k(device const half* a, device const bfloat* b, device float* out, device float* wide,
              uint g [[simdgroup_index_in_threadgroup]]) {
  simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8>(0.0f);
  for (uint kk = 0; kk < 24; kk += 8) {
    simdgroup_half8x8 ma;
    simdgroup_half8x8 mb;
    simdgroup_load(ma, a + g * 8 * 24 + kk, 24);
    simdgroup_load(mb, a, 24, ulong2(kk, 8));
    simdgroup_multiply_accumulate(acc, ma, mb, acc);
  }
  simdgroup_store(acc, out + g * 64, 8);
  simdgroup_bfloat8x8 mc;
  simdgroup_load(mc, b, 8);
  simdgroup_float8x8 md = make_filled_simdgroup_matrix<float, 8>(1.0f);
  simdgroup_multiply_accumulate(md, mc, mc, md);
  simdgroup_store(md, wide, 16, ulong2(8 * (g % 2), 8 * (g / 2)));
}"""
    a, b = _small(5, np.float16, (32, 24)), _small(6, SCALARS["bfloat"])
    af, bf = a.astype(np.float64), b.astype(np.float64)
    blocks = []
    for g in range(4):
        total = np.zeros((8, 8))
        for kk in range(0, 24, 8):
            total += af[8 * g : 8 * g + 8, kk : kk + 8] @ af[8:16, kk : kk + 8]
        blocks.append(total)
    wide = np.tile(bf @ bf + 1, (2, 2))
    args = [a, b, zeros(256), zeros(256)]
    results = {"half-into-float": (2, np.stack(blocks).ravel()), "bfloat-into-float": (3, wide.ravel())}
    return Program("simdgroup-mixed", body, args, results, threads=128, group=128)


def all_programs() -> list[Program]:
    return [*(arithmetic(scalar) for scalar in ("float", "half", "bfloat")), elements(), mixed()]
