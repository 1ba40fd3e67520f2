// A few rows of x by a matrix whose rows lie along k: a simdgroup takes eight rows of the matrix.
#pragma once
#include "shared/dense.h"
#include "shared/gate.h"
#include "shared/matmul_shape.h"
#include "shared/weights.h"

constant constexpr uint MATVEC_ROWS = 8;

// The results of a simdgroup: `count` of a row of `width`, from `first` on. A gated one takes two rows of the matrix.
struct MatvecResults {
  uint width, made, first, count;
  MatvecResults(uint columns, uint number)
      : width(is_gated() ? columns / 2 : columns),
        made(is_gated() ? MATVEC_ROWS / 2 : MATVEC_ROWS),
        first(number * made),
        count(first < width ? min(made, width - first) : 0) {}
  // The r-th of the matrix's rows; where there are fewer, the last one again.
  METAL_FUNC uint row(uint r) const thread { return first + min(r % made, count - 1) + r / made * width; }
};

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

// What a lane adds to each row's sum; it takes a span in 32.
template <typename W, typename T>
METAL_FUNC void lane_sums(W w, device const T *x, constant MatmulShape &shape, MatvecResults results, uint lane,
                          thread float *sums) {
  float4 fours[MATVEC_ROWS] = {};
  const uint spans = (shape.depth + W::SPAN - 1) / W::SPAN;
  for (uint s = lane; s < spans; s += 32) {
    Keep<W::SPAN> kept;
    put_values<W::SPAN>(x + s * W::SPAN, W::WHOLE ? uint(W::SPAN) : shape.depth - s * W::SPAN, kept);
    float4 total = 0.0f;
    for (uint i = 0; i < W::SPAN / 4; ++i) total += kept.x[i];
    for (uint r = 0; r < MATVEC_ROWS; ++r) {
      const uint row = results.row(r);
      const float2 factors = w.factors(row, s);
      Dot<W::SPAN> dot = {kept, 0.0f};
      w.unpack(row, s, dot);
      fours[r] += W::BIASED ? factors.x * dot.sum + factors.y * total : factors.x * dot.sum;
    }
  }
  for (uint r = 0; r < MATVEC_ROWS; ++r) sums[r] = add_up(fours[r]);
}

// Plain values of which neighbouring lanes take neighbouring ones.
template <typename V>
struct Neighbours {
  Dense<V> dense;
  METAL_FUNC void move(ulong elements) thread { dense.move(elements); }
};

template <typename V, typename T>
METAL_FUNC void lane_sums(Neighbours<V> w, device const T *x, constant MatmulShape &shape, MatvecResults results,
                          uint lane, thread float *sums) {
  device const V *rows[MATVEC_ROWS];
  for (uint r = 0; r < MATVEC_ROWS; ++r) {
    rows[r] = w.dense.values + results.row(r) * w.dense.row_step;
    sums[r] = 0.0f;
  }
  const uint whole = shape.depth / 32 * 32;
  for (uint k = 0; k < whole; k += 32) {
    const float value = float(x[k + lane]);
    for (uint r = 0; r < MATVEC_ROWS; ++r) sums[r] += value * float(rows[r][k + lane]);
  }
  if (whole + lane < shape.depth) {
    const float value = float(x[whole + lane]);
    for (uint r = 0; r < MATVEC_ROWS; ++r) sums[r] += value * float(rows[r][whole + lane]);
  }
}

template <typename W, typename T>
METAL_FUNC void matvec(W w, device const T *x, device const T *c, device T *out, device const uint *ids,
                       constant MatmulShape &shape, uint3 group, uint simd, uint simds, uint lane) {
  const MatvecResults results(shape.columns, group.x * simds + simd);
  const uint row = group.y, column = results.first + lane;
  if (results.count == 0) {
    return;
  }
  x += batch_start(shape, shape.x_batch, group.z) + row / shape.share * shape.x_row;
  c += batch_start(shape, shape.c_batch, group.z);
  out += (ulong(group.z) * shape.rows + row) * results.width;
  if (shape.experts != 0 && ids[row] >= shape.experts) {
    if (lane < results.count) {
      out[column] = T(0.0f);
    }
    return;
  }
  w.move(shape.experts != 0 ? expert_start(shape, ids[row]) : batch_start(shape, shape.w_batch, group.z));
  float sums[MATVEC_ROWS], own = 0.0f, up = 0.0f;
  lane_sums(w, x, shape, results, lane, sums);
  for (uint r = 0; r < results.made; ++r) {
    const float sum = simd_sum(sums[r]);
    own = lane == r ? sum : own;
  }
  if (is_gated()) {
    for (uint r = 0; r < results.made; ++r) {
      const float sum = simd_sum(sums[results.made + r]);
      up = lane == r ? sum : up;
    }
  }
  if (lane < results.count) {
    const T value = finish(shape, c, own, row, column);
    out[column] = is_gated() ? gated(value, finish(shape, c, up, row, results.width + column)) : value;
  }
}
