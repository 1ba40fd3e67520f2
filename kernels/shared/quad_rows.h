// Several rows of x by a matrix whose rows lie along k: as shared/quad_matvec.h, but a lane's codes are made floats once
// and serve BATCH rows of x.
#pragma once
#include "shared/quad_matvec.h"

// Rows of x that a simdgroup takes, 2 to 4.
constant uint BATCH [[function_constant(6)]];

constant constexpr uint BATCH_MOST = 4;
// Spans of 32 values of each row of x that lie in threadgroup memory.
constant constexpr uint BATCH_SPANS = 16;
constant constexpr uint BATCH_INPUTS = 32 * BATCH_SPANS, BATCH_TOTALS = 2 * BATCH_SPANS;
constant constexpr uint BATCH_FLOATS =
    BATCH_MOST * (BATCH_INPUTS + BATCH_TOTALS) + 2 * BATCH_SPANS * QUAD_RESULTS;

// As `put_scales`: what its biases add to the lane's row, for each row of x.
template <typename W>
METAL_FUNC float4 put_batch_scales(W w, threadgroup const float *totals, threadgroup float *scales, uint first,
                                   uint spans, uint lane) {
  const uint parts = parts_of_span<W>() * W::spans() / W::groups();
  float4 bias = 0.0f;
#pragma nounroll
  for (uint s = 0; s < spans; s += W::spans()) {
    const QuadFactors<W> factors(w, lane, first + s);
#pragma unroll
    for (uint g = 0; g < W::groups(); ++g, totals += parts, scales += QUAD_RESULTS) {
      scales[lane] = factors.both[g].x;
#pragma unroll
      for (uint m = 0; m < BATCH; ++m)
#pragma unroll
        for (uint p = 0; p < parts; ++p) bias[m] = fma(factors.both[g].y, totals[m * BATCH_TOTALS + p], bias[m]);
    }
  }
  return bias;
}

// sums[r][m] is of row 8 * r of the quad's and row m of x.
template <typename W>
METAL_FUNC void add_batch_spans(W w, threadgroup const float *inputs, threadgroup const float *scales, uint first,
                                uint spans, uint lane, thread float4 *sums) {
  const uint part = lane % 4, runs = 2 * W::spans() / W::groups();
  inputs += part;
#pragma nounroll
  for (uint s = 0; s < spans; s += W::spans(), inputs += 32 * W::spans(), scales += QUAD_RESULTS * W::groups())
#pragma unroll
    for (uint r = 0; r < QUAD_ROWS; ++r) {
      const uint row = lane / 4 + 8 * r;
      const typename W::Codes codes = w.codes(row, first + s, part);
#pragma unroll
      for (uint g = 0; g < W::groups(); ++g) {
        float4 dots = 0.0f;
#pragma unroll
        for (uint i = g * runs; i < (g + 1) * runs; ++i) {
          const float4 four = codes.quad(i);
#pragma unroll
          for (uint j = 0; j < 4; ++j)
#pragma unroll
            for (uint m = 0; m < BATCH; ++m)
              dots[m] = fma(four[j], inputs[m * BATCH_INPUTS + 16 * i + 4 * j], dots[m]);
        }
        const float scale = scales[QUAD_RESULTS * g + row];
#pragma unroll
        for (uint m = 0; m < BATCH; ++m) sums[r][m] = fma(scale, dots[m], sums[r][m]);
      }
    }
}

template <typename W, typename T>
METAL_FUNC void quad_rows_matvec(W w, device const T *x, device T *out, constant MatmulShape &shape,
                                 threadgroup float *memory, uint3 group, uint lane) {
  const uint first = group.x * QUAD_RESULTS, row = group.y * BATCH, left = shape.rows - row;
  x += batch_start(shape, shape.x_batch, group.z) + row * shape.x_row;
  out += (ulong(group.z) * shape.rows + row) * shape.columns;
  const uint begin = min(first, shape.columns - QUAD_RESULTS), own = lane % 4 * 8 + lane / 4, column = begin + own;
  w.move(batch_start(shape, shape.w_batch, group.z));
  w.go(begin);
  threadgroup float *totals = memory + BATCH_MOST * BATCH_INPUTS, *scales = totals + BATCH_MOST * BATCH_TOTALS;
  const uint spans = depth_of(shape) / 32;
  float4 sums[QUAD_ROWS], bias = 0.0f;
#pragma unroll
  for (uint r = 0; r < QUAD_ROWS; ++r) sums[r] = 0.0f;
#pragma nounroll
  for (uint s = 0; s < spans; s += BATCH_SPANS) {
    const uint count = min(BATCH_SPANS, spans - s);
    // Where there are fewer rows, the last one again.
#pragma unroll
    for (uint m = 0; m < BATCH; ++m)
      put_inputs<W>(x + min(m, left - 1) * shape.x_row + 32 * s, memory + m * BATCH_INPUTS, totals + m * BATCH_TOTALS,
                    count, lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    bias += put_batch_scales(w, totals, scales, s, count, lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    add_batch_spans(w, memory, scales, s, count, lane, sums);
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
#pragma unroll
  for (uint m = 0; m < BATCH; ++m) {
    float4 rows = float4(sums[0][m], sums[1][m], sums[2][m], sums[3][m]);
    rows += simd_shuffle_xor(rows, ushort(2));
    rows += simd_shuffle_xor(rows, ushort(1));
    const float sum = rows[lane % 4] + simd_shuffle(bias[m], ushort(own));
    if (m < left && column >= first) {
      out[ulong(m) * shape.columns + column] = T(shape.alpha * sum);
    }
  }
}
