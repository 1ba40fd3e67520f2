// A few rows of x by a matrix whose rows lie along k: a simdgroup makes eight results, each lane takes a span in 32.
#pragma once
#include "shared/matmul_shape.h"
#include "shared/weights.h"

constant constexpr uint MATVEC_ROWS = 8;

// A span of x.
template <uint SPAN>
struct Keep {
  float4 x[SPAN / 4];
  METAL_FUNC void operator()(uint i, float4 v) thread { x[i] = v; }
};

// Products with a span of x, in four sums, so that a lane adds them up once.
template <uint SPAN>
struct Dot {
  thread const Keep<SPAN> &kept;
  float4 sum;
  METAL_FUNC void operator()(uint i, float4 q) thread { sum += q * kept.x[i]; }
};

METAL_FUNC float add_up(float4 v) { return (v.x + v.y) + (v.z + v.w); }

template <typename W, typename T>
METAL_FUNC void matvec(W w, device const T *x, device const T *c, device T *out, device const uint *ids,
                       constant MatmulShape &shape, uint3 group, uint simd, uint simds, uint lane) {
  const uint first = (group.x * simds + simd) * MATVEC_ROWS, row = group.y;
  if (first >= shape.columns) {
    return;
  }
  x += batch_start(shape, shape.x_batch, group.z) + row / shape.share * shape.x_row;
  c += batch_start(shape, shape.c_batch, group.z);
  out += (ulong(group.z) * shape.rows + row) * shape.columns;
  const uint left = shape.columns - first;
  if (shape.experts != 0 && ids[row] >= shape.experts) {
    if (lane < min(left, MATVEC_ROWS)) {
      out[first + lane] = T(0.0f);
    }
    return;
  }
  w.move(shape.experts != 0 ? expert_start(shape, ids[row]) : batch_start(shape, shape.w_batch, group.z));
  float4 sums[MATVEC_ROWS] = {};
  const uint spans = (shape.depth + W::SPAN - 1) / W::SPAN;
  for (uint s = lane; s < spans; s += 32) {
    Keep<W::SPAN> kept;
    put_values<W::SPAN>(x + s * W::SPAN, W::WHOLE ? uint(W::SPAN) : shape.depth - s * W::SPAN, kept);
    float4 total = 0.0f;
    for (uint i = 0; i < W::SPAN / 4; ++i) total += kept.x[i];
    for (uint r = 0; r < MATVEC_ROWS; ++r) {
      const uint column = first + min(r, left - 1);
      const float2 factors = w.factors(column, s);
      Dot<W::SPAN> dot = {kept, 0.0f};
      w.unpack(column, s, dot);
      sums[r] += W::BIASED ? factors.x * dot.sum + factors.y * total : factors.x * dot.sum;
    }
  }
  float results[MATVEC_ROWS];
  for (uint r = 0; r < MATVEC_ROWS; r += 4) {
    const float4 mine = float4(add_up(sums[r]), add_up(sums[r + 1]), add_up(sums[r + 2]), add_up(sums[r + 3]));
    const float4 all = simd_sum(mine);
    for (uint i = 0; i < 4; ++i) results[r + i] = all[i];
  }
  if (lane < min(left, MATVEC_ROWS)) {
    out[first + lane] = finish(shape, c, results[lane], row, first + lane);
  }
}
