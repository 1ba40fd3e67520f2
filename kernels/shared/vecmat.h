// A few rows of x by a matrix whose rows lie along n: a threadgroup makes up to 32 spans of results. Each thread adds
// up one span over a share of k, and the shares are added at the end.
#pragma once
#include "shared/matmul_shape.h"
#include "shared/weights.h"

constant constexpr uint VECMAT_THREADS = 128, VECMAT_SPAN = 32;

// Sums of a span: a value of x times a row of weights, row after row.
template <bool BIASED>
struct Sums {
  float4 sums[VECMAT_SPAN / 4];
  float2 factors;
  METAL_FUNC void operator()(uint i, float4 q) thread {
    sums[i] += BIASED ? factors.x * q + factors.y : factors.x * q;
  }
};

template <typename W, typename T>
METAL_FUNC void vecmat(W w, device const T *x, device const T *c, device T *out, constant MatmulShape &shape,
                       threadgroup float *memory, uint3 group, uint thread_index) {
  const uint row = group.y, first = group.x * 32, spans = (shape.columns + VECMAT_SPAN - 1) / VECMAT_SPAN;
  const uint wide = min(spans - first, 32u), shares = VECMAT_THREADS / wide, share = thread_index / wide;
  x += batch_start(shape, shape.x_batch, group.z) + row * shape.x_row;
  c += batch_start(shape, shape.c_batch, group.z);
  out += (ulong(group.z) * shape.rows + row) * shape.columns;
  w.move(batch_start(shape, shape.w_batch, group.z));
  Sums<W::BIASED != 0> own = {};
  for (uint k = share; k < shape.depth && share < shares; k += shares) {
    own.factors = float(x[k * shape.x_column]) * w.factors(k, first + thread_index % wide);
    w.unpack(k, first + thread_index % wide, own);
  }
  for (uint i = 0; i < VECMAT_SPAN / 4; ++i)
    for (uint j = 0; j < 4; ++j) memory[thread_index * VECMAT_SPAN + 4 * i + j] = own.sums[i][j];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_index; i < wide * VECMAT_SPAN; i += VECMAT_THREADS) {
    const uint column = first * VECMAT_SPAN + i;
    float sum = 0.0f;
    for (uint s = 0; s < shares; ++s) sum += memory[s * wide * VECMAT_SPAN + i];
    if (column < shape.columns) {
      out[column] = finish(shape, c, sum, row, column);
    }
  }
}
