// Many rows of x by a matrix: each threadgroup of four simdgroups makes a tile of 32 x 64 results, 32 values of k at a
// time. Two simdgroups stage the weights in threadgroup memory, unpacked, and two stage x.
//
// `W` as in shared/weights.h. Where the matrix is chosen by row, the rows come sorted by expert: `starts` has the place
// of each expert's first row in `order`, and a last pseudo expert holds the rows whose id is none.
#pragma once
#include "shared/matmul_shape.h"
#include "shared/tile_rows.h"
#include "shared/weights.h"

constant constexpr uint TILE_M = 32, TILE_N = 64, TILE_K = 32;
constant constexpr uint TILE_FLOATS = TILE_K * TILE_N + TILE_M * TILE_K;

template <typename W>
METAL_FUNC void stage_weights(W w, threadgroup float *tile, constant MatmulShape &shape, uint column, uint k,
                              uint thread_index) {
  // 64 runs of 32 values: a column's values of k, or half of the columns for one k.
  const uint across = shape.transposed ? thread_index : thread_index / 2;
  const uint along = shape.transposed ? 0 : thread_index % 2 * TILE_K;
  const uint row = (shape.transposed ? column : k) + across, most = shape.transposed ? shape.columns : shape.depth;
  const uint start = (shape.transposed ? k : column) + along, end = shape.transposed ? shape.depth : shape.columns;
  threadgroup float *to = tile + (shape.transposed ? across : across * TILE_N + along);
  const uint step = shape.transposed ? TILE_N : 1;
  for (uint at = 0; at < TILE_K; at += W::SPAN) {
    if (row < most && start + at < end) {
      store_span(w, row, (start + at) / W::SPAN, to + at * step, step);
    } else {
      for (uint i = 0; i < W::SPAN; ++i) to[(at + i) * step] = 0.0f;
    }
  }
}

template <typename T>
METAL_FUNC void stage_rows(device const T *x, threadgroup float *tile, constant MatmulShape &shape, bool valid, uint k,
                           uint thread_index) {
  const uint start = thread_index % 2 * (TILE_K / 2);
  threadgroup float *to = tile + thread_index * (TILE_K / 2);
  const uint left = valid && shape.depth > k + start ? shape.depth - k - start : 0;
  x += (k + start) * shape.x_column;
  if (left >= TILE_K / 2 && shape.x_column == 1) {
    for (uint i = 0; i < TILE_K / 2; ++i) to[i] = float(x[i]);
  } else {
    for (uint i = 0; i < TILE_K / 2; ++i) to[i] = i < left ? float(x[i * shape.x_column]) : 0.0f;
  }
}

template <typename W, typename T>
METAL_FUNC void tiled_matmul(W w, device const T *x, device const T *c, device T *out, device const uint *starts,
                             device const uint *order, constant MatmulShape &shape, threadgroup float *memory,
                             uint3 group, uint simd, uint thread_index) {
  const TileRows rows = tile_rows(shape, starts, group.y, TILE_M);
  if (rows.first >= rows.end) {
    return;
  }
  const bool routed = shape.experts != 0, nobody = routed && rows.expert == shape.experts;
  const uint column = group.x * TILE_N;
  threadgroup float *weights = memory, *inputs = memory + TILE_K * TILE_N;
  w.move(routed ? expert_start(shape, rows.expert) : batch_start(shape, shape.w_batch, group.z));
  c += batch_start(shape, shape.c_batch, group.z);
  out += ulong(group.z) * shape.rows * shape.columns;
  const uint stager = thread_index % 64, mine = rows.first + stager / 2;
  const bool valid = mine < rows.end;
  const uint row = !valid ? 0 : routed ? order[mine] : mine;
  x += batch_start(shape, shape.x_batch, group.z) + row / shape.share * shape.x_row;

  simdgroup_float8x8 sums[2][4], a[2], b[4];
#pragma clang loop unroll(full)
  for (uint i = 0; i < 2; ++i)
#pragma clang loop unroll(full)
    for (uint j = 0; j < 4; ++j) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  const uint above = simd / 2 * 16, before = simd % 2 * 32;
  for (uint k = 0; k < (nobody ? 0 : shape.depth); k += TILE_K) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simd < 2) {
      stage_weights(w, weights, shape, column, k, stager);
    } else {
      stage_rows(x, inputs, shape, valid, k, stager);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint kk = 0; kk < TILE_K; kk += 8) {
#pragma clang loop unroll(full)
      for (uint i = 0; i < 2; ++i) simdgroup_load(a[i], inputs + (above + 8 * i) * TILE_K + kk, TILE_K);
#pragma clang loop unroll(full)
      for (uint j = 0; j < 4; ++j) simdgroup_load(b[j], weights + kk * TILE_N + before + 8 * j, TILE_N);
#pragma clang loop unroll(full)
      for (uint i = 0; i < 2; ++i)
#pragma clang loop unroll(full)
        for (uint j = 0; j < 4; ++j) simdgroup_multiply_accumulate(sums[i][j], a[i], b[j], sums[i][j]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
  for (uint i = 0; i < 2; ++i)
#pragma clang loop unroll(full)
    for (uint j = 0; j < 4; ++j)
      simdgroup_store(sums[i][j], memory + (above + 8 * i) * TILE_N + before + 8 * j, TILE_N);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_index; i < TILE_M * TILE_N; i += 128) {
    const uint at = rows.first + i / TILE_N, n = column + i % TILE_N;
    if (at < rows.end && n < shape.columns) {
      const uint m = routed ? order[at] : at;
      out[ulong(m) * shape.columns + n] = finish(shape, c, memory[i], m, n);
    }
  }
}
