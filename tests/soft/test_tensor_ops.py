"""matmul2d of MetalPerformancePrimitives: tensors over memory, cooperative tensors, reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from . import harness
from .harness import BFLOAT

HEADER = """
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;
"""

# One tile of C = A B for each threadgroup; the tensors know their edges.
GEMM = (
    HEADER
    + """
struct Shape { int m, n, k; };

kernel void in_memory(device TA *a, device TB *b, device TC *c, constant Shape &s,
                      uint2 at [[threadgroup_position_in_grid]]) {
  auto A = tensor(a, TRANSPOSE_A ? dextents<int, 2>(s.m, s.k) : dextents<int, 2>(s.k, s.m));
  auto B = tensor(b, TRANSPOSE_B ? dextents<int, 2>(s.k, s.n) : dextents<int, 2>(s.n, s.k));
  auto C = tensor(c, dextents<int, 2>(s.n, s.m), array<int, 2>({1, s.n}));
  auto tA = TRANSPOSE_A ? A.slice(at.y * BM, 0) : A.slice(0, at.y * BM);
  auto tB = TRANSPOSE_B ? B.slice(0, at.x * BN) : B.slice(at.x * BN, 0);
  auto tC = C.slice(at.x * BN, at.y * BM);
  constexpr auto tile = matmul2d_descriptor(BM, BN, BK, TRANSPOSE_A, TRANSPOSE_B, false,
                                            matmul2d_descriptor::mode::MODE);
  matmul2d<tile, SCOPE> multiply;
  multiply.run(tA, tB, tC);
}

kernel void cooperative(device TA *a, device TB *b, device TC *c, constant Shape &s, device const float *bias,
                        uint2 at [[threadgroup_position_in_grid]]) {
  tensor<device TA, dextents<int, 2>, tensor_inline> A(a, dextents<int, 2>{s.k, s.m});
  tensor<device TB, dextents<int, 2>, tensor_inline> B(b, dextents<int, 2>{s.n, s.k});
  auto tA = A.slice(0, at.y * BM);
  auto tB = B.slice(at.x * BN, 0);
  auto tC = tensor(c, dextents<int, 2>(s.n, s.m)).slice(at.x * BN, at.y * BM);
  constexpr auto tile = matmul2d_descriptor(BM, BN, BK, TRANSPOSE_A, TRANSPOSE_B, false,
                                            matmul2d_descriptor::mode::MODE);
  matmul2d<tile, SCOPE> multiply;
  auto result = multiply.get_destination_cooperative_tensor<decltype(tA), decltype(tB), TC>();
  for (ushort i = 0; i < result.get_capacity(); ++i) {
    if (result.is_valid_element(i)) result[i] = TC(1);
  }
  multiply.run(tA, tB, result);
  for (ushort i = 0; i < result.get_capacity(); ++i) {
    if (!result.is_valid_element(i)) continue;
    auto place = result.get_multidimensional_index(i);
    int column = at.x * BN + place[0];
    if (column >= s.n) continue;
    TC value = result[i] + TC(bias[column]);
    result[i] = value < TC(0) ? TC(0) : value;
  }
  result.store(tC);
}
"""
)


def gemm(
    kernel: str,
    a: Any,
    b: Any,
    c: Any,
    *more: Any,
    tile: tuple[int, int, Any],
    simdgroups: int,
    transpose: str = "nn",
    mode: str = "multiply",
    names: tuple[str, str, str] = ("half", "half", "float"),
) -> NDArray[Any]:
    """Runs one kernel of GEMM over all tiles of `c`."""
    m, n = c.shape
    k = a.shape[0] if transpose[0] == "t" else a.shape[1]
    macros = {
        "TA": names[0], "TB": names[1], "TC": names[2], "BM": str(tile[0]), "BN": str(tile[1]), "BK": str(tile[2]),
        "TRANSPOSE_A": str(transpose[0] == "t").lower(), "TRANSPOSE_B": str(transpose[1] == "t").lower(),
        "MODE": mode, "SCOPE": f"execution_simdgroups<{simdgroups}>" if simdgroups else "execution_thread",
    }  # fmt: skip
    grid = (harness.groups_for(n, tile[1]), harness.groups_for(m, tile[0]))
    shape = np.array([m, n, k], np.int32).tobytes()
    group = 32 * simdgroups or 1
    return harness.run(GEMM, kernel, a, b, c, shape, *more, threadgroups=grid, group=group, macros=macros)[2]


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


DYNAMIC = "static_cast<int>(dynamic_extent)"


@pytest.mark.parametrize("transpose", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("mode", ["multiply", "multiply_accumulate"])
@pytest.mark.parametrize("simdgroups", [1, 4])
@pytest.mark.parametrize("shape", [(64, 32, 48), (70, 45, 19)])
def test_in_memory(transpose: str, mode: str, simdgroups: int, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, c = normal((m, k), np.float16), normal((k, n), np.float16, 1), normal((m, n), np.float32, 2)
    expected = a.astype(np.float64) @ b.astype(np.float64) + (c if mode == "multiply_accumulate" else 0)
    stored_a = a.T.copy() if transpose[0] == "t" else a
    stored_b = b.T.copy() if transpose[1] == "t" else b
    result = gemm(
        "in_memory",
        stored_a,
        stored_b,
        c,
        tile=(32, 32, DYNAMIC),
        simdgroups=simdgroups,
        transpose=transpose,
        mode=mode,
    )
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("tile", "simdgroups", "depth"),
    [
        ((64, 32), 4, DYNAMIC),
        ((16, 32), 1, "32"),
        ((24, 20), 4, "dynamic_length_v<int>"),
        ((7, 5), 0, DYNAMIC),
        ((128, 64), 4, DYNAMIC),
    ],
)
def test_cooperative_with_bias_and_activation(tile: tuple[int, int], simdgroups: int, depth: str) -> None:
    m, n, k = 77, 61, 32
    a, b, bias = normal((m, k), np.float16), normal((k, n), np.float16, 1), normal((n,), np.float32, 2)
    result = gemm("cooperative", a, b, np.zeros((m, n), np.float32), bias, tile=(*tile, depth), simdgroups=simdgroups)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


TYPES = {
    "bfloat": BFLOAT, "half": np.float16, "float": np.float32, "int8_t": np.int8, "uint8_t": np.uint8, "char": np.int8,
    "int": np.int32,
}  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [
        ("bfloat", "bfloat", "float"), ("bfloat", "bfloat", "bfloat"), ("float", "float", "float"),
        ("half", "bfloat", "half"), ("half", "int8_t", "float"), ("int8_t", "int8_t", "int"), ("char", "char", "int"),
        ("uint8_t", "int8_t", "int"), ("int8_t", "int8_t", "float"), ("half", "half", "half"),
        ("half", "float", "float"),
    ],
)  # fmt: skip
def test_element_types(names: tuple[str, str, str]) -> None:
    left, right, result = (np.dtype(TYPES[name]) for name in names)
    numbers = np.random.default_rng(3)
    a, b = numbers.integers(0, 9, (32, 24)).astype(left), numbers.integers(0, 9, (24, 32)).astype(right)
    c = numbers.integers(0, 9, (32, 32)).astype(result)
    outcome = gemm("in_memory", a, b, c, tile=(32, 32, DYNAMIC), simdgroups=1, mode="multiply_accumulate", names=names)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    assert np.array_equal(outcome, exact.astype(np.float32).astype(result))


# Both inputs wait in threadgroup memory; nothing clears the sums first.
STAGED = (
    HEADER
    + """
kernel void staged(device const half *a, device const half *b, device float *c, constant int &depth,
                   uint thread_ [[thread_index_in_threadgroup]]) {
  threadgroup half sa[64 * 16];
  threadgroup half sb[16 * 32];
  auto A = tensor<threadgroup half, dextents<int, 2>, tensor_inline>(sa, dextents<int, 2>(16, 64));
  auto B = tensor<threadgroup half, dextents<int, 2>, tensor_inline>(sb, dextents<int, 2>(32, 16));
  matmul2d<matmul2d_descriptor(64, 32, 16, false, false, false, matmul2d_descriptor::mode::multiply_accumulate),
           execution_simdgroups<4>> multiply;
  auto sums = multiply.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  for (int k = 0; k < depth; k += 16) {
    for (uint i = thread_; i < 64 * 16; i += 128) sa[i] = k + i % 16 < depth ? a[(i / 16) * depth + k + i % 16] : 0;
    for (uint i = thread_; i < 16 * 32; i += 128) sb[i] = k + i / 32 < depth ? b[(k + i / 32) * 32 + i % 32] : 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    auto tA = A.slice(0, 0);
    auto tB = B.slice<32, 16>(0, 0);
    multiply.run(tA, tB, sums);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  sums.store(tensor(c, extents<int, 32, 64>()));
}
"""
)


@pytest.mark.parametrize("depth", [64, 40])
def test_staged_in_threadgroup_memory(depth: int) -> None:
    a, b = normal((64, depth), np.float16), normal((depth, 32), np.float16, 1)
    result = harness.run(
        STAGED, "staged", a, b, np.zeros((64, 32), np.float32), np.int32(depth), threadgroups=1, group=128
    )[2]
    np.testing.assert_allclose(result, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)
