// A few rows of x by a matrix whose rows lie along k: a simdgroup makes 32 results. First x is brought into the order
// and the units of the codes, and a lane for each row of the matrix reads its scales; then a quad of lanes takes four
// rows, eight apart. All lanes walk along k together, and neighbours read neighbouring bytes.
//
// `W` goes to a row with `go`, and takes `spans()` spans of 32 values at a time, in `groups()` groups with a scale each:
// `factors` has (scale, bias) of a group, `slot` and `unit` say where value i of a span of x goes and what it is
// multiplied by, and `codes` are a lane's share of a row, four of each 16 values with `quad`.
#pragma once
#include "shared/gate.h"
#include "shared/matmul_shape.h"
#include "shared/quads.h"
#include "shared/weights.h"

// Where it is given, the width of the matrix, so that the rows of a simdgroup lie at known distances.
constant uint DEPTH [[function_constant(2)]];

constant constexpr uint QUAD_RESULTS = 32, QUAD_ROWS = QUAD_RESULTS / 8;
// Spans of 32 values of x that lie in threadgroup memory, and those whose scales do, up to two for each and row of the
// matrix: so few that what is read around the scales is still at hand when the codes are.
constant constexpr uint QUAD_SPANS = 64, SCALED_SPANS = 16;
constant constexpr uint QUAD_FLOATS = QUAD_SPANS * (32 + 2) + SCALED_SPANS * 2 * QUAD_RESULTS;

// Groups that a format takes at a time, at most.
constant constexpr uint QUAD_GROUPS = 8;

METAL_FUNC uint depth_of(constant MatmulShape &shape) {
  return is_function_constant_defined(DEPTH) ? DEPTH : shape.depth;
}

// How many groups begin in a span: two where it has two scales.
template <typename W>
METAL_FUNC uint parts_of_span() {
  return W::groups() > W::spans() ? 2 : 1;
}

// Spans of x in threadgroup memory, and the sums of their parts.
template <typename W, typename T>
METAL_FUNC void put_inputs(device const T *x, threadgroup float *inputs, threadgroup float *totals, uint spans,
                           uint lane) {
  const uint width = 32 / parts_of_span<W>();
#pragma nounroll
  for (uint s = 0; s < spans; ++s) {
    const float value = float(x[32 * s + lane]);
    inputs[32 * s + W::slot(lane)] = value * W::unit(lane);
    float total = value;
#pragma unroll
    for (ushort distance = 1; distance < width; distance *= 2) total += simd_shuffle_xor(total, distance);
    const float mine = simd_shuffle(total, ushort(lane * width % 32));
    if (lane < 32 / width) {
      totals[32 / width * s + lane] = mine;
    }
  }
}

// (scale, bias) of some spans' groups. All are read before one is stored, so that groups in a word share its load.
template <typename W>
struct QuadFactors {
  float2 both[QUAD_GROUPS];
  QuadFactors(W w, uint row, uint span) {
#pragma unroll
    for (uint g = 0; g < W::groups(); ++g) both[g] = w.factors(row, span, g);
  }
};

// The scales of a lane's row in threadgroup memory; the answer is what its biases add to the row's product.
template <typename W>
METAL_FUNC float put_scales(W w, threadgroup const float *totals, threadgroup float *scales, uint first, uint spans,
                            uint lane) {
  const uint parts = parts_of_span<W>() * W::spans() / W::groups();
  float bias = 0.0f;
#pragma nounroll
  for (uint s = 0; s < spans; s += W::spans()) {
    const QuadFactors<W> factors(w, lane, first + s);
#pragma unroll
    for (uint g = 0; g < W::groups(); ++g, totals += parts, scales += QUAD_RESULTS) {
      scales[lane] = factors.both[g].x;
#pragma unroll
      for (uint p = 0; p < parts; ++p) bias = fma(factors.both[g].y, totals[p], bias);
    }
  }
  return bias;
}

template <typename W>
METAL_FUNC float4 add_spans(W w, threadgroup const float *inputs, threadgroup const float *scales, uint first,
                            uint spans, uint lane, float4 sums) {
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
        float dot = 0.0f;
#pragma unroll
        for (uint i = g * runs; i < (g + 1) * runs; ++i) {
          const float4 four = codes.quad(i);
#pragma unroll
          for (uint j = 0; j < 4; ++j) dot = fma(four[j], inputs[16 * i + 4 * j], dot);
        }
        sums[r] = fma(scales[QUAD_RESULTS * g + row], dot, sums[r]);
      }
    }
  return sums;
}

// A lane's own result: row `lane % 4 * 8 + lane / 4` of the simdgroup's. All of x may lie in memory already.
template <typename W, typename T>
METAL_FUNC float quad_sum(W w, device const T *x, threadgroup float *memory, uint spans, bool has_inputs, uint lane) {
  threadgroup float *totals = memory + 32 * QUAD_SPANS, *scales = totals + 2 * QUAD_SPANS;
  float4 sums = 0.0f;
  float bias = 0.0f;
#pragma nounroll
  for (uint s = 0; s < spans; s += QUAD_SPANS) {
    const uint count = min(QUAD_SPANS, spans - s);
    if (!has_inputs) {
      put_inputs<W>(x + 32 * s, memory, totals, count, lane);
      simdgroup_barrier(mem_flags::mem_threadgroup);
    }
#pragma nounroll
    for (uint i = 0; i < count; i += SCALED_SPANS) {
      const uint few = min(SCALED_SPANS, count - i);
      bias += put_scales(w, totals + parts_of_span<W>() * i, scales, s + i, few, lane);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      sums = add_spans(w, memory + 32 * i, scales, s + i, few, lane, sums);
      simdgroup_barrier(mem_flags::mem_threadgroup);
    }
  }
  sums += simd_shuffle_xor(sums, ushort(2));
  sums += simd_shuffle_xor(sums, ushort(1));
  return sums[lane % 4] + simd_shuffle(bias, ushort(lane % 4 * 8 + lane / 4));
}

template <typename W, typename T>
METAL_FUNC void quad_matvec(W w, device const T *x, device const T *c, device T *out, device const uint *ids,
                            constant MatmulShape &shape, threadgroup float *memory, uint3 group, uint lane) {
  const uint first = group.x * QUAD_RESULTS, row = group.y, width = is_gated() ? shape.columns / 2 : shape.columns;
  x += batch_start(shape, shape.x_batch, group.z) + row / shape.share * shape.x_row;
  c += batch_start(shape, shape.c_batch, group.z);
  out += (ulong(group.z) * shape.rows + row) * width;
  // The last results begin earlier, where the ones before them are made as well.
  const uint begin = min(first, width - QUAD_RESULTS), column = begin + lane % 4 * 8 + lane / 4;
  const bool mine = column >= first;
  if (shape.experts != 0 && ids[row] >= shape.experts) {
    if (mine) {
      out[column] = T(0.0f);
    }
    return;
  }
  w.move(shape.experts != 0 ? expert_start(shape, ids[row]) : batch_start(shape, shape.w_batch, group.z));
  w.go(begin);
  const uint spans = depth_of(shape) / 32;
  float gate = 0.0f, sum = 0.0f;
#pragma nounroll
  for (uint half_of_rows = 0; half_of_rows < (is_gated() ? 2 : 1); ++half_of_rows) {
    gate = sum;
    sum = quad_sum(w, x, memory, spans, half_of_rows != 0 && spans <= QUAD_SPANS, lane);
    w.go(width);
  }
  if (mine) {
    const T value = finish(shape, c, sum, row, is_gated() ? width + column : column);
    out[column] = is_gated() ? gated(finish(shape, c, gate, row, column), value) : value;
  }
}
