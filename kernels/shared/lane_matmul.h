// Several rows of x by a matrix: a simdgroup makes 32 columns of results for up to 64 rows, a lane for each column, 32
// values of k at a time. Weights are unpacked once for all rows; each lane reads back what it has unpacked itself.
//
// `W`, `starts` and `order` as in shared/tiled_matmul.h.
#pragma once
#include "shared/dense.h"
#include "shared/matmul_shape.h"
#include "shared/tile_rows.h"
#include "shared/weights.h"

constant constexpr uint LANE_ROWS = 64, LANE_K = 32, LANE_COLUMNS = 32, LANE_TOGETHER = 4;
constant constexpr uint LANE_FLOATS = LANE_K * LANE_COLUMNS + LANE_ROWS * (LANE_K + LANE_COLUMNS);

// 32 values of k for each of 32 columns; a column's lie 32 apart. Columns beyond the last one repeat it.
template <typename W>
METAL_FUNC void unpack_along_k(W w, threadgroup float *to, constant MatmulShape &shape, uint column, uint k, uint lane) {
  for (uint at = 0; at < LANE_K; at += W::SPAN)
    if (k + at < shape.depth) {
      store_span(w, min(column + lane, shape.columns - 1), (k + at) / W::SPAN, to + at * LANE_COLUMNS + lane,
                 LANE_COLUMNS);
    }
}

template <typename W>
METAL_FUNC void unpack_columns(W w, threadgroup float *to, constant MatmulShape &shape, uint column, uint k,
                               uint lane) {
  if (shape.transposed) {
    unpack_along_k(w, to, shape, column, k, lane);
  } else if (k + lane < shape.depth) {  // a lane for each k
    store_span(w, k + lane, column / W::SPAN, to + lane * LANE_COLUMNS, 1);
  }
}

template <typename T>
METAL_FUNC void unpack_columns(Dense<T> w, threadgroup float *to, constant MatmulShape &shape, uint column, uint k,
                               uint lane) {
  if (shape.transposed) {
    unpack_along_k(w, to, shape, column, k, lane);
    return;
  }
  w.values += k * w.row_step + min(column + lane, shape.columns - 1);
  for (uint i = 0; i < min(LANE_K, shape.depth - k); ++i) to[i * LANE_COLUMNS + lane] = float(w.values[i * w.row_step]);
}

// 32 values of k for each row, zeros where there is none.
template <typename T>
METAL_FUNC void take_rows(device const T *x, threadgroup float *to, constant MatmulShape &shape, TileRows rows,
                          device const uint *order, uint k, uint lane) {
  x += min(k + lane, shape.depth - 1) * shape.x_column;
  const bool valid = k + lane < shape.depth;
  for (uint at = rows.first; at < rows.end; ++at, to += LANE_K) {
    const uint row = (shape.experts != 0 ? order[at] : at) / shape.share;
    to[lane] = valid ? float(x[row * shape.x_row]) : 0.0f;
  }
}

METAL_FUNC void add_products(threadgroup const float *weights, threadgroup const float *x, threadgroup float *sums,
                             uint rows, uint depth, uint lane) {
  for (uint m = 0; m < rows; m += LANE_TOGETHER) {
    float own[LANE_TOGETHER];
    for (uint r = 0; r < LANE_TOGETHER; ++r) own[r] = sums[(m + r) * LANE_COLUMNS + lane];
    for (uint k = 0; k < depth; ++k) {
      const float w = weights[k * LANE_COLUMNS + lane];
      for (uint r = 0; r < LANE_TOGETHER; ++r) own[r] += w * x[(m + r) * LANE_K + k];
    }
    for (uint r = 0; r < LANE_TOGETHER; ++r) sums[(m + r) * LANE_COLUMNS + lane] = own[r];
  }
}

template <typename W, typename T>
METAL_FUNC void lane_matmul(W w, device const T *x, device const T *c, device T *out, device const uint *starts,
                            device const uint *order, constant MatmulShape &shape, threadgroup float *memory,
                            uint3 group, uint lane) {
  const TileRows rows = tile_rows(shape, starts, group.y, LANE_ROWS);
  if (rows.first >= rows.end) {
    return;
  }
  const bool routed = shape.experts != 0, nobody = routed && rows.expert == shape.experts;
  const uint column = group.x * LANE_COLUMNS, count = rows.end - rows.first;
  threadgroup float *weights = memory, *inputs = weights + LANE_K * LANE_COLUMNS;
  threadgroup float *sums = inputs + LANE_ROWS * LANE_K;
  w.move(routed ? expert_start(shape, rows.expert) : batch_start(shape, shape.w_batch, group.z));
  x += batch_start(shape, shape.x_batch, group.z);
  c += batch_start(shape, shape.c_batch, group.z);
  out += ulong(group.z) * shape.rows * shape.columns;
  for (uint m = 0; m < LANE_ROWS; ++m) sums[m * LANE_COLUMNS + lane] = inputs[m * LANE_K + lane] = 0.0f;
  for (uint i = 0; i < LANE_K; ++i) weights[i * LANE_COLUMNS + lane] = 0.0f;
  for (uint k = 0; k < (nobody ? 0 : shape.depth); k += LANE_K) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    unpack_columns(w, weights, shape, column, k, lane);
    take_rows(x, inputs, shape, rows, order, k, lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    add_products(weights, inputs, sums, count, min(LANE_K, shape.depth - k), lane);
  }
  if (column + lane < shape.columns) {
    for (uint at = 0; at < count; ++at) {
      const uint m = routed ? order[rows.first + at] : rows.first + at;
      out[ulong(m) * shape.columns + column + lane] = finish(shape, c, sums[at * LANE_COLUMNS + lane], m, column + lane);
    }
  }
}
