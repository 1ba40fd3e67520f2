// out = softmax(softcap(scale * q k^T) + mask) v for many queries: 32 of a head per threadgroup, 8 per simdgroup, over
// blocks of 32 keys, with a running maximum and sum of weights per query.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
#include "shared/attention.h"

// Columns in parts of one size each, so that every matrix has a register of its own.
constant uint SLICE [[function_constant(2)]];    // of DIM: columns of keys that are staged at once
constant uint COLUMNS [[function_constant(3)]];  // of V_DIM: columns of the result that a threadgroup holds
constant uint V_SLICE [[function_constant(4)]];  // of COLUMNS: columns of values that are staged at once

constant constexpr uint SIMDS = 4;
constant constexpr uint ROWS = 8;   // queries of a simdgroup
constant constexpr uint KEYS = 32;  // of a block
constant constexpr uint MOST_SLICE = 128;
constant constexpr uint MOST_COLUMNS = 256;
constant constexpr uint PITCH = MOST_SLICE + 4;

// The rows of a block, columns [first, first + width), by the whole threadgroup; rows behind the last are zero, since
// what lies there may be anything.
template <typename Rows>
METAL_FUNC void stage(Rows rows, uint base, uint count, uint first, uint width,
                      threadgroup typename Rows::Element *staged, uint lane, uint simd) {
  for (uint j = simd; j < KEYS; j += SIMDS)
    for (uint i = 0; i * 32 < width; ++i)
      if (inside(i, lane, width))
        staged[j * PITCH + i * 32 + lane] =
            typename Rows::Element(j < count ? rows.at(base + j, first + i * 32, lane) : 0.0f);
}

// Four lanes share a query's row of scores, each with every fourth key; what they find joins the row's part so far.
// The scores [KEYS, ROWS] become weights. Answers by how much the row's former sums fade.
METAL_FUNC float weigh(constant Attention &a, device const uchar *mask, Query q, uint base, uint count,
                       threadgroup float *scores, thread float &most, thread float &sum, uint lane) {
  const uint row = lane % ROWS, first = lane / ROWS;
  float s[KEYS / 4], top = most;
  for (uint c = 0; c < KEYS / 4; ++c) {
    const uint key = c * 4 + first;
    s[c] = key < count ? score(a, mask, scores[key * ROWS + row], base + key, q) : -INFINITY;
    top = max(top, s[c]);
  }
  top = max(top, simd_shuffle_xor(top, 8));
  top = max(top, simd_shuffle_xor(top, 16));
  const float level = max(top, -FLT_MAX), fade = exp(most - level);
  float total = 0.0f;
  for (uint c = 0; c < KEYS / 4; ++c) {
    const float weight = exp(s[c] - level);
    scores[(c * 4 + first) * ROWS + row] = weight;
    total += weight;
  }
  total += simd_shuffle_xor(total, 8);
  total += simd_shuffle_xor(total, 16);
  sum = sum * fade + total;
  most = top;
  return fade;
}

// Rows of `o` times a factor each, by a product with a diagonal matrix.
METAL_FUNC void scale_rows(thread simdgroup_float8x8 *o, float factor, threadgroup float *diagonal, uint lane) {
  for (uint i = lane; i < ROWS * ROWS; i += 32) diagonal[i] = 0.0f;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (lane < ROWS) diagonal[lane * (ROWS + 1)] = factor;
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 factors;
  simdgroup_load(factors, diagonal, ROWS);
  simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
  for (uint c = 0; c < COLUMNS / 8; ++c) simdgroup_multiply(o[c], factors, o[c]);
}

// A slice of the queries of a simdgroup, transposed.
template <typename T>
METAL_FUNC void load_queries(thread simdgroup_matrix<T, 8, 8> *q, device const T *rows, ulong pitch, uint first) {
#pragma clang loop unroll(full)
  for (uint c = 0; c < SLICE / 8; ++c) simdgroup_load(q[c], rows + first + c * 8, pitch, ulong2(0, 0), true);
}

struct Place {
  uint3 group;
  uint lane;
  uint simd;
};

template <typename T, typename Rows>
METAL_FUNC void prefill(constant Attention &a, device const T *queries, Rows keys, Rows values,
                        device const uchar *mask, device const uchar *sinks, device T *out, uint batch, uint length,
                        uint first_column, threadgroup typename Rows::Element *staged, threadgroup float *scores,
                        Place place) {
  typedef simdgroup_matrix<typename Rows::Element, 8, 8> Tile;
  const uint lane = place.lane, simd = place.simd, head = place.group.y;
  const uint tile = place.group.x * ROWS * SIMDS, begin = tile + simd * ROWS;
  // The last rows are taken as eight that exist; those of another simdgroup are not written again.
  const uint start = min(begin, a.queries - ROWS);
  const bool busy = begin < a.queries;
  const Query q = query_at(a, batch, head, start + lane % ROWS, length);
  device const T *rows = queries + batch * a.q_stride[0] + head * a.q_stride[1] + start * a.q_stride[2];
  threadgroup float *own = scores + simd * KEYS * ROWS;
  const int position = query_at(a, batch, head, tile, length).position;
  const Range range = visible(a, length, position, position + int(ROWS * SIMDS) - 1);

  const bool sink = a.sink_kind != NO_NUMBERS;
  float most = sink ? number(sinks, a.sink_kind, head) : -INFINITY, sum = sink ? 1.0f : 0.0f;
  simdgroup_matrix<T, 8, 8> qs[MOST_SLICE / 8];
  simdgroup_float8x8 o[MOST_COLUMNS / 8], s[KEYS / 8];
#pragma clang loop unroll(full)
  for (uint c = 0; c < COLUMNS / 8; ++c) o[c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  if (DIM == SLICE) load_queries(qs, rows, a.q_stride[2], 0);

  for (uint base = range.begin; base < range.end; base += KEYS) {
    const uint count = min(KEYS, range.end - base);
#pragma clang loop unroll(full)
    for (uint j = 0; j < KEYS / 8; ++j) s[j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma clang loop unroll(full)
    for (uint first = 0; first < DIM; first += SLICE) {
      stage(keys, base, count, first, SLICE, staged, lane, simd);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (busy) {
        if (DIM > SLICE) load_queries(qs, rows, a.q_stride[2], first);
#pragma clang loop unroll(full)
        for (uint c = 0; c < SLICE / 8; ++c)
#pragma clang loop unroll(full)
          for (uint j = 0; j < KEYS / 8; ++j) {
            Tile k;
            simdgroup_load(k, staged + j * 8 * PITCH + c * 8, PITCH);
            simdgroup_multiply_accumulate(s[j], k, qs[c], s[j]);
          }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    simdgroup_float8x8 p[KEYS / 8];
    if (busy) {
#pragma clang loop unroll(full)
      for (uint j = 0; j < KEYS / 8; ++j) simdgroup_store(s[j], own + j * 8 * ROWS, ROWS);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      const float fade = weigh(a, mask, q, base, count, own, most, sum, lane);
      const bool fades = simd_any(fade != 1.0f);
      simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma clang loop unroll(full)
      for (uint j = 0; j < KEYS / 8; ++j) simdgroup_load(p[j], own + j * 8 * ROWS, ROWS, ulong2(0, 0), true);
      simdgroup_barrier(mem_flags::mem_threadgroup);
      if (fades) scale_rows(o, fade, own, lane);
    }
#pragma clang loop unroll(full)
    for (uint first = 0; first < COLUMNS; first += V_SLICE) {
      stage(values, base, count, first_column + first, V_SLICE, staged, lane, simd);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (busy) {
#pragma clang loop unroll(full)
        for (uint c = 0; c < V_SLICE / 8; ++c)
#pragma clang loop unroll(full)
          for (uint j = 0; j < KEYS / 8; ++j) {
            Tile v;
            simdgroup_load(v, staged + j * 8 * PITCH + c * 8, PITCH);
            simdgroup_multiply_accumulate(o[first / 8 + c], p[j], v, o[first / 8 + c]);
          }
      }
      threadgroup_barrier(mem_flags::mem_threadgroup);
    }
  }

  if (!busy) return;
  scale_rows(o, length ? 1.0f / sum : 0.0f, own, lane);
  device T *to = out + batch * a.out_stride[0] + head * a.out_stride[1] + first_column;
#pragma clang loop unroll(full)
  for (uint first = 0; first < COLUMNS / 8; first += 4) {
#pragma clang loop unroll(full)
    for (uint c = 0; c < 4; ++c)
      if (first + c < COLUMNS / 8) simdgroup_store(o[first + c], own + c * 8, 32);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    if (inside(first / 4, lane, COLUMNS))
      for (uint row = begin - start; row < ROWS; ++row)
        to[(start + row) * a.out_stride[2] + first * 8 + lane] = T(own[row * 32 + lane]);
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

#define PREFILL_SPACE(Element) \
  threadgroup Element staged[KEYS * PITCH]; \
  threadgroup float scores[SIMDS * KEYS * ROWS]; \
  const uint parts = V_DIM / COLUMNS, batch = at.z / parts, column = at.z % parts * COLUMNS; \
  const uint length = sequence_length(a, lengths, batch); \
  const ulong row = batch * a.kv_stride[0] + at.y / a.group * a.kv_stride[1], step = a.kv_stride[2];

template <typename T, typename S>
kernel void sdpa_prefill(device const T *q [[buffer(0)]],
                         device const S *k [[buffer(1)]],
                         device const S *v [[buffer(2)]],
                         device const uchar *mask [[buffer(3)]],
                         device const uchar *sinks [[buffer(4)]],
                         constant uint *lengths [[buffer(5)]],
                         device T *out [[buffer(6)]],
                         constant Attention &a [[buffer(7)]],
                         uint3 at [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]]) {
  PREFILL_SPACE(S)
  const DenseRows<S> keys(k, row, step, DIM), values(v, row, step, V_DIM);
  prefill(a, q, keys, values, mask, sinks, out, batch, length, column, staged, scores, {at, lane, simd});
}

template <typename T, uint bits>
kernel void sdpa_prefill_affine(device const T *q [[buffer(0)]],
                                device const uint *k [[buffer(1)]],
                                device const T *k_scales [[buffer(2)]],
                                device const T *k_biases [[buffer(3)]],
                                device const uint *v [[buffer(4)]],
                                device const T *v_scales [[buffer(5)]],
                                device const T *v_biases [[buffer(6)]],
                                device const uchar *mask [[buffer(7)]],
                                device const uchar *sinks [[buffer(8)]],
                                constant uint *lengths [[buffer(9)]],
                                device T *out [[buffer(10)]],
                                constant Attention &a [[buffer(11)]],
                                uint3 at [[threadgroup_position_in_grid]],
                                uint lane [[thread_index_in_simdgroup]],
                                uint simd [[simdgroup_index_in_threadgroup]]) {
  PREFILL_SPACE(T)
  const AffineRows<T, bits> keys(k, k_scales, k_biases, row, step, DIM, a.quantised_group);
  const AffineRows<T, bits> values(v, v_scales, v_biases, row, step, V_DIM, a.quantised_group);
  prefill(a, q, keys, values, mask, sinks, out, batch, length, column, staged, scores, {at, lane, simd});
}

#define FOR_BITS(name, T, bits) \
  template [[host_name("sdpa_prefill_" #name "_q" #bits)]] kernel decltype(sdpa_prefill_affine<T, bits>) \
      sdpa_prefill_affine<T, bits>;
FOR_BITS(f32, float, 8)
FOR_BITS(f32, float, 4)
FOR_BITS(f16, half, 8)
FOR_BITS(f16, half, 4)
FOR_BITS(bf16, bfloat, 8)
FOR_BITS(bf16, bfloat, 4)

#define FOR_TYPES(name, T, kv_name, S) \
  template [[host_name("sdpa_prefill_" #name "_" #kv_name)]] kernel decltype(sdpa_prefill<T, S>) sdpa_prefill<T, S>;
FOR_TYPES(f32, float, f32, float)
FOR_TYPES(f32, float, f16, half)
FOR_TYPES(f32, float, bf16, bfloat)
FOR_TYPES(f16, half, f16, half)
FOR_TYPES(bf16, bfloat, bf16, bfloat)
