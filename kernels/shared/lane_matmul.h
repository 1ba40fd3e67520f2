// Several rows of x by a matrix: a simdgroup makes 32 columns of results for up to 64 rows, a lane for each column, 32
// values of k at a time. Weights are unpacked once for all rows; each lane reads back what it has unpacked itself.
//
// `W`, `starts` and `order` as in shared/tiled_matmul.h.
#pragma once
#include "shared/dense.h"
#include "shared/matmul_shape.h"
#include "shared/tile_rows.h"
#include "shared/weights.h"

constant constexpr uint LANE_ROWS = 64, LANE_K = 32, LANE_COLUMNS = 32;
constant constexpr uint LANE_FLOATS = LANE_K * LANE_COLUMNS + LANE_ROWS * (LANE_K + LANE_COLUMNS);

// 32 values of k for `column`, which is the lane's; they lie 32 apart.
template <typename W>
METAL_FUNC void unpack_column(W w, threadgroup float *to, constant MatmulShape &shape, uint column, uint k, uint depth,
                              uint lane) {
  for (uint at = 0; at < LANE_K; at += W::SPAN)
    if (at < depth) {
      store_span(w, column, (k + at) / W::SPAN, to + at * LANE_COLUMNS + lane, LANE_COLUMNS);
    }
}

template <typename W>
METAL_FUNC void unpack_weights(W w, threadgroup float *to, constant MatmulShape &shape, uint column, uint k,
                               uint depth, uint lane) {
  if (shape.transposed) {
    unpack_column(w, to, shape, min(column + lane, shape.columns - 1), k, depth, lane);
  } else if (lane < depth) {  // a lane for each k
    store_span(w, k + lane, column / W::SPAN, to + lane * LANE_COLUMNS, 1);
  }
}

template <typename T>
METAL_FUNC void copy_weights(Dense<T> w, threadgroup float *to, uint depth, uint lane) {
  for (uint i = 0; i < depth; ++i, w.values += w.row_step, to += LANE_COLUMNS) to[lane] = float(w.values[lane]);
}

template <typename T>
METAL_FUNC void unpack_weights(Dense<T> w, threadgroup float *to, constant MatmulShape &shape, uint column, uint k,
                               uint depth, uint lane) {
  if (shape.transposed) {
    unpack_column(w, to, shape, min(column + lane, shape.columns - 1), k, depth, lane);
    return;
  }
  w.values += k * w.row_step + column;
  if (column + LANE_COLUMNS <= shape.columns) {
    copy_weights(w, to, depth, lane);
  } else if (column + lane < shape.columns) {
    copy_weights(w, to, depth, lane);
  } else {
    for (uint i = 0; i < depth; ++i) to[i * LANE_COLUMNS + lane] = 0.0f;
  }
}

// Up to 32 values of k for each row.
template <typename T>
METAL_FUNC void take_rows(device const T *x, threadgroup float *to, constant MatmulShape &shape, TileRows rows,
                          device const uint *order, uint k, uint lane) {
  x += (k + lane) * shape.x_column;
  for (uint at = rows.first; at < rows.end; ++at, to += LANE_K) {
    const ulong row = shape.experts != 0 ? order[at] / shape.share : at;
    to[lane] = float(x[row * shape.x_row]);
  }
}

// Four rows at a time, so that each weight that is read serves four products.
template <typename P>
METAL_FUNC void add_products(threadgroup const float *weights, P x, ulong x_row, threadgroup float *sums, uint rows,
                             uint depth, uint lane) {
  weights += lane;
  sums += lane;
  for (uint m = 0; m < rows; m += 4, sums += 4 * LANE_COLUMNS) {
    const P x0 = x + m * x_row, x1 = x + min(m + 1, rows - 1) * x_row, x2 = x + min(m + 2, rows - 1) * x_row,
            x3 = x + min(m + 3, rows - 1) * x_row;
    float a = sums[0], b = sums[LANE_COLUMNS], c = sums[2 * LANE_COLUMNS], d = sums[3 * LANE_COLUMNS];
    for (uint k = 0; k < depth; ++k) {
      const float w = weights[k * LANE_COLUMNS];
      a += w * x0[k];
      b += w * x1[k];
      c += w * x2[k];
      d += w * x3[k];
    }
    sums[0] = a;
    sums[LANE_COLUMNS] = b;
    sums[2 * LANE_COLUMNS] = c;
    sums[3 * LANE_COLUMNS] = d;
  }
}

// The next values of k: floats side by side are read where they lie, others are brought into threadgroup memory first.
METAL_FUNC bool lies_ready(device const float *, constant MatmulShape &shape) {
  return shape.x_column == 1 && shape.experts == 0;
}
template <typename T>
METAL_FUNC bool lies_ready(device const T *, constant MatmulShape &) {
  return false;
}

template <typename T>
METAL_FUNC void multiply(threadgroup const float *weights, device const T *x, threadgroup float *inputs,
                         threadgroup float *sums, constant MatmulShape &shape, TileRows rows,
                         device const uint *order, uint k, uint depth, uint lane) {
  const uint count = rows.end - rows.first;
  if (lies_ready(x, shape)) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    add_products(weights, (device const float *)x + rows.first * shape.x_row + k, shape.x_row, sums, count, depth,
                 lane);
    return;
  }
  if (depth == LANE_K) {
    take_rows(x, inputs, shape, rows, order, k, lane);
  } else if (lane < depth) {
    take_rows(x, inputs, shape, rows, order, k, lane);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  add_products(weights, (threadgroup const float *)inputs, ulong(LANE_K), sums, count, depth, lane);
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
  for (uint m = 0; m < LANE_ROWS; ++m) sums[m * LANE_COLUMNS + lane] = 0.0f;
  const uint depth = nobody ? 0 : shape.depth, whole = depth / LANE_K * LANE_K;
  for (uint k = 0; k < whole; k += LANE_K) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    unpack_weights(w, weights, shape, column, k, LANE_K, lane);
    multiply(weights, x, inputs, sums, shape, rows, order, k, LANE_K, lane);
  }
  if (whole < depth) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    unpack_weights(w, weights, shape, column, whole, depth - whole, lane);
    multiply(weights, x, inputs, sums, shape, rows, order, whole, depth - whole, lane);
  }
  if (column + lane < shape.columns) {
    for (uint at = 0; at < count; ++at) {
      const uint m = routed ? order[rows.first + at] : rows.first + at;
      out[ulong(m) * shape.columns + column + lane] = finish(shape, c, sums[at * LANE_COLUMNS + lane], m, column + lane);
    }
  }
}
