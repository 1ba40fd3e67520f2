// out = softmax(softcap(scale * q k^T) + mask) v for many queries: a simdgroup takes 32 of a head, a lane for each, over
// blocks of 32 keys, with a running maximum and sum of weights. Keys and values are the same for all lanes. Queries
// lie in device memory, turned so that numbers of lanes are side by side: heads are too wide for threadgroup memory.
#include <metal_stdlib>
using namespace metal;
#include "shared/attention.h"

constant constexpr uint LANES = 32;   // queries of a threadgroup
constant constexpr uint KEYS = 32;    // of a block
constant constexpr uint TOGETHER = 4; // keys, or columns, that each number of a lane serves at once
constant constexpr uint PART = 32;    // columns of values that are staged at once

// Numbers of lanes lie side by side; but for `staged`, each lane has its own.
struct Space {
  device float *q;            // [DIM, LANES]
  threadgroup float *o;       // [V_DIM, LANES]
  threadgroup float *scores;  // [KEYS, LANES], later weights
  threadgroup float *staged;  // [TOGETHER, DIM] of keys, or [KEYS, PART] of values
  Space(device float *turned, threadgroup float *memory)
      : q(turned), o(memory), scores(o + V_DIM * LANES), staged(scores + KEYS * LANES) {}
};

// The products of the lane's query with the keys of a block.
template <typename Rows>
METAL_FUNC void multiply_keys(Rows keys, uint base, uint count, Space space, uint lane) {
  device const float *q = space.q + lane;
  threadgroup const float *k = space.staged;
  for (uint j = 0; j < count; j += TOGETHER) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint r = 0; r < TOGETHER; ++r)
      for (uint i = 0; i * 32 < DIM; ++i)
        if (inside(i, lane, DIM))
          space.staged[r * DIM + i * 32 + lane] = keys.at(base + min(j + r, count - 1), i * 32, lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (uint d = 0; d < DIM; ++d) {
      const float value = q[d * LANES];
      s0 += value * k[d];
      s1 += value * k[DIM + d];
      s2 += value * k[2 * DIM + d];
      s3 += value * k[3 * DIM + d];
    }
    threadgroup float *to = space.scores + j * LANES + lane;
    to[0] = s0;
    to[LANES] = s1;
    to[2 * LANES] = s2;
    to[3 * LANES] = s3;
  }
}

// Scores become weights. Answers by how much the former sums of the lane's query fade.
METAL_FUNC float weigh(constant Attention &a, device const uchar *mask, Query q, uint base, uint count,
                       threadgroup float *scores, thread float &most, thread float &sum) {
  float top = most;
  for (uint j = 0; j < count; ++j) {
    const float s = score(a, mask, scores[j * LANES], base + j, q);
    scores[j * LANES] = s;
    top = max(top, s);
  }
  const float level = max(top, -FLT_MAX), fade = exp(most - level);
  float total = 0.0f;
  for (uint j = 0; j < count; ++j) {
    const float weight = exp(scores[j * LANES] - level);
    scores[j * LANES] = weight;
    total += weight;
  }
  sum = sum * fade + total;
  most = top;
  return fade;
}

// Adds the values of a block, weighed, to the sums so far.
template <typename Rows>
METAL_FUNC void add_values(Rows values, uint base, uint count, float fade, Space space, uint lane) {
  threadgroup const float *p = space.scores + lane;
  for (uint column = 0; column < V_DIM; column += PART) {
    simdgroup_barrier(mem_flags::mem_threadgroup);
    const uint width = min(PART, V_DIM - column);
    for (uint j = 0; j < count; ++j)
      if (inside(column / PART, lane, V_DIM))
        space.staged[j * PART + lane] = values.at(base + j, column, lane);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint c = 0; c < width; c += TOGETHER) {
      threadgroup const float *v = space.staged + c;
      threadgroup float *o = space.o + (column + c) * LANES + lane;
      float o0 = o[0] * fade, o1 = o[LANES] * fade, o2 = o[2 * LANES] * fade, o3 = o[3 * LANES] * fade;
      for (uint j = 0; j < count; ++j) {
        const float weight = p[j * LANES];
        o0 += weight * v[j * PART];
        o1 += weight * v[j * PART + 1];
        o2 += weight * v[j * PART + 2];
        o3 += weight * v[j * PART + 3];
      }
      o[0] = o0;
      o[LANES] = o1;
      o[2 * LANES] = o2;
      o[3 * LANES] = o3;
    }
  }
}

template <typename T, typename Rows>
METAL_FUNC void attend(constant Attention &a, device const T *queries, Rows keys, Rows values,
                       device const uchar *mask, device const uchar *sinks, device T *out, device float *turned,
                       uint batch, uint length, threadgroup float *memory, uint3 group, uint3 groups, uint lane) {
  const ulong place = (ulong(group.z) * groups.y + group.y) * groups.x + group.x;
  const Space space(turned + place * (DIM * LANES), memory);
  const uint head = group.y, tile = group.x * LANES, index = min(tile + lane, a.queries - 1);
  const Query q = query_at(a, batch, head, index, length);
  device const T *row = queries + batch * a.q_stride[0] + head * a.q_stride[1] + index * a.q_stride[2];
  for (uint d = 0; d < DIM; ++d) space.q[d * LANES + lane] = float(row[d]);
  for (uint c = 0; c < V_DIM; ++c) space.o[c * LANES + lane] = 0.0f;
  const int position = query_at(a, batch, head, tile, length).position;
  const Range range = visible(a, length, position, position + int(LANES) - 1);
  const bool sink = a.sink_kind != NO_NUMBERS;
  float most = sink ? number(sinks, a.sink_kind, head) : -INFINITY, sum = sink ? 1.0f : 0.0f;
  for (uint base = range.begin; base < range.end; base += KEYS) {
    const uint count = min(KEYS, range.end - base);
    multiply_keys(keys, base, count, space, lane);
    const float fade = weigh(a, mask, q, base, count, space.scores + lane, most, sum);
    add_values(values, base, count, fade, space, lane);
  }
  if (tile + lane < a.queries) {
    const float factor = length ? 1.0f / sum : 0.0f;
    device T *to = out + batch * a.out_stride[0] + head * a.out_stride[1] + index * a.out_stride[2];
    for (uint c = 0; c < V_DIM; ++c) to[c] = T(space.o[c * LANES + lane] * factor);
  }
}

#define ATTEND_SPACE \
  const uint batch = at.z, length = sequence_length(a, lengths, batch); \
  const ulong row = batch * a.kv_stride[0] + at.y / a.group * a.kv_stride[1], step = a.kv_stride[2];

template <typename T, typename S>
kernel void sdpa_lanes(device const T *q [[buffer(0)]],
                       device const S *k [[buffer(1)]],
                       device const S *v [[buffer(2)]],
                       device const uchar *mask [[buffer(3)]],
                       device const uchar *sinks [[buffer(4)]],
                       constant uint *lengths [[buffer(5)]],
                       device float *turned [[buffer(6)]],
                       device T *out [[buffer(7)]],
                       constant Attention &a [[buffer(8)]],
                       threadgroup float *memory [[threadgroup(0)]],
                       uint3 at [[threadgroup_position_in_grid]],
                       uint3 groups [[threadgroups_per_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
  ATTEND_SPACE
  const DenseRows<S> keys(k, row, step, DIM), values(v, row, step, V_DIM);
  attend(a, q, keys, values, mask, sinks, out, turned, batch, length, memory, at, groups, lane);
}

template <typename T, uint bits>
kernel void sdpa_lanes_affine(device const T *q [[buffer(0)]],
                              device const uint *k [[buffer(1)]],
                              device const T *k_scales [[buffer(2)]],
                              device const T *k_biases [[buffer(3)]],
                              device const uint *v [[buffer(4)]],
                              device const T *v_scales [[buffer(5)]],
                              device const T *v_biases [[buffer(6)]],
                              device const uchar *mask [[buffer(7)]],
                              device const uchar *sinks [[buffer(8)]],
                              constant uint *lengths [[buffer(9)]],
                              device float *turned [[buffer(10)]],
                              device T *out [[buffer(11)]],
                              constant Attention &a [[buffer(12)]],
                              threadgroup float *memory [[threadgroup(0)]],
                              uint3 at [[threadgroup_position_in_grid]],
                              uint3 groups [[threadgroups_per_grid]],
                              uint lane [[thread_index_in_simdgroup]]) {
  ATTEND_SPACE
  const AffineRows<T, bits> keys(k, k_scales, k_biases, row, step, DIM, a.quantised_group);
  const AffineRows<T, bits> values(v, v_scales, v_biases, row, step, V_DIM, a.quantised_group);
  attend(a, q, keys, values, mask, sinks, out, turned, batch, length, memory, at, groups, lane);
}

#define FOR_BITS(name, T, bits) \
  template [[host_name("sdpa_lanes_" #name "_q" #bits)]] kernel decltype(sdpa_lanes_affine<T, bits>) \
      sdpa_lanes_affine<T, bits>;
FOR_BITS(f32, float, 8)
FOR_BITS(f32, float, 4)
FOR_BITS(f16, half, 8)
FOR_BITS(f16, half, 4)
FOR_BITS(bf16, bfloat, 8)
FOR_BITS(bf16, bfloat, 4)

#define FOR_TYPES(name, T, kv_name, S) \
  template [[host_name("sdpa_lanes_" #name "_" #kv_name)]] kernel decltype(sdpa_lanes<T, S>) sdpa_lanes<T, S>;
FOR_TYPES(f32, float, f32, float)
FOR_TYPES(f32, float, f16, half)
FOR_TYPES(f32, float, bf16, bfloat)
FOR_TYPES(f16, half, f16, half)
FOR_TYPES(bf16, bfloat, bf16, bfloat)
