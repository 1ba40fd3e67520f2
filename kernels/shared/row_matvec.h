// A few rows of x by a matrix of plain values whose rows lie along k: a simdgroup makes eight results, and neighbouring
// lanes read neighbouring values of a row.
#pragma once
#include "shared/dense.h"
#include "shared/matmul_shape.h"

constant constexpr uint ROW_RESULTS = 8;

template <typename V, typename T>
METAL_FUNC void row_matvec(Dense<V> w, device const T *x, device const T *c, device T *out, device const uint *ids,
                           constant MatmulShape &shape, uint3 group, uint simd, uint simds, uint lane) {
  const uint first = (group.x * simds + simd) * ROW_RESULTS, row = group.y;
  if (first >= shape.columns) {
    return;
  }
  x += batch_start(shape, shape.x_batch, group.z) + row / shape.share * shape.x_row;
  c += batch_start(shape, shape.c_batch, group.z);
  out += (ulong(group.z) * shape.rows + row) * shape.columns;
  const uint left = shape.columns - first;
  if (shape.experts != 0 && ids[row] >= shape.experts) {
    if (lane < min(left, ROW_RESULTS)) {
      out[first + lane] = T(0.0f);
    }
    return;
  }
  w.move(shape.experts != 0 ? expert_start(shape, ids[row]) : batch_start(shape, shape.w_batch, group.z));
  device const V *rows[ROW_RESULTS];
  float sums[ROW_RESULTS];
  for (uint r = 0; r < ROW_RESULTS; ++r) {
    rows[r] = w.values + (first + min(r, left - 1)) * w.row_step;
    sums[r] = 0.0f;
  }
  const uint whole = shape.depth / 32 * 32;
  for (uint k = 0; k < whole; k += 32) {
    const float value = float(x[k + lane]);
    for (uint r = 0; r < ROW_RESULTS; ++r) sums[r] += value * float(rows[r][k + lane]);
  }
  if (whole + lane < shape.depth) {
    const float value = float(x[whole + lane]);
    for (uint r = 0; r < ROW_RESULTS; ++r) sums[r] += value * float(rows[r][whole + lane]);
  }
  for (uint r = 0; r < ROW_RESULTS; ++r) {
    const float sum = simd_sum(sums[r]);
    if (lane == r && r < left) {
      out[first + r] = finish(shape, c, sum, row, first + r);
    }
  }
}
