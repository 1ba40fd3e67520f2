"""Cooperative tensors as inputs, their layout, reductions, iterators, and what matmul2d refuses."""

from __future__ import annotations

import numpy as np
import pytest

from . import harness
from .harness import Array
from .test_tensor_ops import HEADER, normal

# Elements addressed by lane: a lane holds four neighbours in two rows of each tile of 16 x 16.
FRAGMENTS = (
    HEADER
    + """
kernel void fragments(device const half *a, device const half *b, device float *c,
                      ushort lane [[thread_index_in_simdgroup]]) {
  constexpr auto shape = matmul2d_descriptor(16, 32, 16, TRANSPOSE_A, TRANSPOSE_B, true,
                                             matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<shape, execution_simdgroup> multiply;
  auto A = multiply.get_left_input_cooperative_tensor<half, half, float>();
  auto B = multiply.get_right_input_cooperative_tensor<half, half, float>();
  auto C = multiply.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  const int row = ((lane >> 2) & 4) | ((lane >> 1) & 3), column = (((lane >> 2) & 2) | (lane & 1)) * 4;
  for (int i = 0; i < 8; i++) {
    const int r = row + (i / 4) * 8, q = column + i % 4;
    A[i] = a[r * 16 + q];
    for (int half_ = 0; half_ < 2; half_++) {
      B[8 * half_ + i] = TRANSPOSE_B ? b[(16 * half_ + r) * 16 + q] : b[r * 32 + 16 * half_ + q];
      C[8 * half_ + i] = c[r * 32 + 16 * half_ + q];
    }
  }
  multiply.run(A, B, C);
  for (int i = 0; i < 16; i++) c[(row + (i % 8 / 4) * 8) * 32 + i / 8 * 16 + column + i % 4] = C[i];
}

kernel void places(device int *out, device int *counts, ushort lane [[thread_index_in_simdgroup]]) {
  matmul2d<matmul2d_descriptor(ROWS, COLUMNS, 16), execution_simdgroup> multiply;
  auto A = multiply.get_left_input_cooperative_tensor<half, half, float>();
  auto B = multiply.get_right_input_cooperative_tensor<half, half, float>();
  auto C = multiply.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  int count = 0;
  for (auto it = C.begin(); it != C.end(); ++it, ++count) {
    auto place = it.get_multidimensional_index();
    out[place[1] * COLUMNS + place[0]] += 1;
  }
  for (ushort i = 0; i < C.get_capacity(); i++) count -= C.get_mask(i);
  counts[lane] = count;
}
"""
)


@pytest.mark.parametrize("transpose", ["nn", "nt", "tn", "tt"])
def test_elements_by_lane(transpose: str) -> None:
    a, b, c = normal((16, 16), np.float16), normal((16, 32), np.float16, 1), normal((16, 32), np.float32, 2)
    stored = (a.T.copy() if transpose[0] == "t" else a, b.T.copy() if transpose[1] == "t" else b)
    macros = {"TRANSPOSE_A": str(int(transpose[0] == "t")), "TRANSPOSE_B": str(int(transpose[1] == "t"))}
    macros |= {"ROWS": "16", "COLUMNS": "16"}
    result = harness.run(FRAGMENTS, "fragments", *stored, c, threadgroups=1, group=32, macros=macros)[2]
    np.testing.assert_allclose(result, a.astype(np.float64) @ b.astype(np.float64) + c, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (32, 48), (8, 8), (5, 13), (16, 24)])
def test_each_element_has_one_place(rows: int, columns: int) -> None:
    macros = {"TRANSPOSE_A": "0", "TRANSPOSE_B": "0", "ROWS": str(rows), "COLUMNS": str(columns)}
    empty = (np.zeros((rows, columns), np.int32), np.full(32, 9, np.int32))
    seen, counts = harness.run(FRAGMENTS, "places", *empty, threadgroups=1, group=32, macros=macros)
    assert np.all(seen == 1)
    assert np.all(counts == 0)


SOFTMAX = (
    HEADER
    + """
kernel void softmax(device half *q, device half *k, device half *v, device float *out) {
  auto Q = tensor(q, extents<int, 32, 32>());
  auto K = tensor(k, extents<int, 32, 32>());
  auto V = tensor(v, extents<int, 32, 32>());
  matmul2d<matmul2d_descriptor(32, 32, 32, false, true), execution_simdgroup> scores;
  matmul2d<matmul2d_descriptor(32, 32, 32), execution_simdgroup> mix;
  auto S = scores.get_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  scores.run(Q, K, S);
  auto line = scores.get_row_reduction_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  reduce_rows(S, line, reduction_operation::max, reduction_operation_identity<float>::max_identity);
  if (!is_iterator_compatible(S, line)) return;
  for (auto it = S.begin(); it != S.end(); ++it) *it = exp(*it - *line.map_iterator(it));
  reduce_rows(S, line);
  for (auto it = S.begin(); it != S.end(); ++it) *it /= *line.map_iterator(it);
  if (!mix.is_compatible_as_left_input<half, half, float>(S)) return;
  auto P = mix.get_left_input_cooperative_tensor<half, half, float>(S);
  auto R = mix.get_destination_cooperative_tensor<decltype(P), decltype(V), float>();
  mix.run(P, V, R);
  R.store(tensor(out, extents<int, 32, 32>()));
}

kernel void columns(device half *a, device half *b, device float *out) {
  auto A = tensor(a, extents<int, 16, 64>());
  auto B = tensor(b, extents<int, 32, 16>());
  matmul2d<matmul2d_descriptor(64, 32), execution_simdgroups<4>> multiply;
  auto C = multiply.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  multiply.run(A, B, C);
  auto line = multiply.get_column_reduction_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  reduce_columns(C, line, reduction_operation::min, reduction_operation_identity<float>::min_identity);
  line.store(tensor(out, extents<int, 32>()));
}
"""
)


def test_attention_stays_in_registers() -> None:
    q, k, v = (normal((32, 32), np.float16, seed) for seed in range(3))
    result = harness.run(SOFTMAX, "softmax", q, k, v, np.zeros((32, 32), np.float32), threadgroups=1, group=32)[3]
    scores = np.exp(q.astype(np.float64) @ k.T.astype(np.float64))
    np.testing.assert_allclose(
        result, scores / scores.sum(1, keepdims=True) @ v.astype(np.float64), rtol=1e-2, atol=2e-3
    )


def test_column_reduction() -> None:
    a, b = normal((64, 16), np.float16), normal((16, 32), np.float16, 1)
    result = harness.run(SOFTMAX, "columns", a, b, np.zeros(32, np.float32), threadgroups=1, group=128)[2]
    np.testing.assert_allclose(result, (a.astype(np.float64) @ b.astype(np.float64)).min(0), rtol=1e-5, atol=1e-5)


THREAD = (
    HEADER
    + """
kernel void by_thread(device half *weights, device half *out, device uchar *packed,
                      uint at [[thread_position_in_grid]]) {
  half input[4] = {half(at), 1, 2, 3}, result[8];
  auto X = tensor(input, dextents<int, 2>(4, 1));
  auto Y = tensor(result, dextents<int, 2>(8, 1));
  auto W = tensor(weights, dextents<int, 2>(8, 4));
  matmul2d<matmul2d_descriptor(1, 8, 4), execution_thread>{}.run(X, W, Y);
  tensor<device int4b_format, dextents<int, 2>, tensor_inline> signed_(packed, dextents<int, 2>(8, 4));
  tensor<device uint4b_format, dextents<int, 2>, tensor_inline> unsigned_(packed, dextents<int, 2>(8, 4));
  auto S = tensor(out + at * 24 + 8, dextents<int, 2>(8, 1));
  auto U = tensor(out + at * 24 + 16, dextents<int, 2>(8, 1));
  matmul2d<matmul2d_descriptor(1, 8, 4), execution_thread>{}.run(X, signed_, S);
  matmul2d<matmul2d_descriptor(1, 8, 4), execution_thread>{}.run(X, unsigned_, U);
  auto element = [&, at](int i) { return Y[i, 0]; };
  for (int i = 0; i < 8; i++) out[at * 24 + i] = element(i);
}
"""
)


def test_one_thread_and_four_bit_elements() -> None:
    numbers = np.random.default_rng(0)
    weights, codes = numbers.integers(-8, 8, (4, 8)), numbers.integers(0, 16, (4, 8))
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    result = harness.run(
        THREAD, "by_thread", weights.astype(np.float16), np.zeros((3, 3, 8), np.float16), packed, threads=3
    )[1]
    for at in range(3):
        x = np.array([at, 1, 2, 3])
        signed = np.where(codes > 7, codes - 16, codes)
        expected: Array = np.stack([x @ weights, x @ signed, x @ codes])
        assert np.array_equal(result[at], expected)


SQUARE = "tensor({}, dextents<int, 2>(16, 16))"
RUN = "auto A = {}; auto B = tensor(b, dextents<int, 2>(16, 16)); auto C = {}; multiply.run(A, B, C);"
LEFT = "multiply.get_left_input_cooperative_tensor<half, half, float>()"
A, C = SQUARE.format("a"), SQUARE.format("c")
# What the kernel gets, what it does, and a part of the answer.
REFUSED = {
    "constant input": ("constant half *a", RUN.format(A, C), "deployment target of 27.3"),
    "load of constant": ("constant half *a", f"auto left = {LEFT}; left.load({A});", "deployment target of 27.3"),
    "constant destination": ("constant float *a", RUN.format(SQUARE.format("b"), A), "the destination must not be"),
    "const input": ("device const half *a", RUN.format(A, C), "must not be const"),
    "rank": ("device half *a", RUN.format("tensor(a, dextents<int, 1>(16))", C), "two dimensions"),
    "types": ("device int *a", RUN.format(A, C), "element types"),
    "scope": ("device half *a", f"wide.{LEFT.removeprefix('multiply.')};", "need the scope execution_simdgroup"),
    "handle": ("device half *a", "tensor<device half, dextents<int, 2>> h;", "only inline tensors"),
    "argument": ("tensor<device half, dextents<int, 2>> a [[buffer(2)]]", "", "tensors as kernel arguments"),
    "indices": ("device half *a", f"{A}[1] = 2;", "one index for each dimension"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    parameter, body, message = REFUSED[name]
    source = f"""
kernel void refused(device half *b, device float *c, {parameter}) {{
  matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroup> multiply;
  matmul2d<matmul2d_descriptor(16, 16, 16), execution_simdgroups<4>> wide;
  {body}
}}"""
    refusals = harness.rejections(HEADER + source, "refused")
    assert any(message in error.text for error in refusals), refusals


def test_wrong_number_of_simdgroups_is_a_fault() -> None:
    a, b = normal((64, 16), np.float16), normal((16, 32), np.float16, 1)
    with pytest.raises(harness.RunFailed):
        harness.run(SOFTMAX, "columns", a, b, np.zeros(32, np.float32), threadgroups=1, group=64)
