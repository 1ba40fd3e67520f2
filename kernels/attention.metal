// out = softmax(softcap(scale * q k^T) + mask) v for few queries, the keys split among threadgroups: each leaves its
// part with the maximum and the sum of its weights, and a second kernel joins them. Also: masks as buffers.
#include <metal_stdlib>
using namespace metal;
#include "shared/attention.h"

constant constexpr uint SIMDS = 4;   // simdgroups of a threadgroup
constant constexpr uint KEYS = 32;   // keys that a simdgroup weighs at once, one per lane
constant constexpr uint PITCH = 33;  // so that lanes reading a column each meet different banks
constant constexpr uint MOST = 16;   // columns per lane

// What a simdgroup or a threadgroup knows of its keys: the greatest logit, and the sum of the weights below it.
struct Part {
  float sum;
  float most;
};

// Blocks of keys in `range`, `step` apart, by one simdgroup; a lane holds columns lane, lane + 32, ... of the query and
// of `o`, the sum of weighted values. Products of columns cross the lanes through threadgroup memory, so that the
// weight of a key is computed once, by a lane of its own.
template <typename T, typename Rows>
METAL_FUNC Part weigh(constant Attention &a, device const T *query, Rows keys, Rows values, device const uchar *mask,
                      Query q, Range range, uint step, Part part, thread float *o, threadgroup float *products,
                      threadgroup float *weights, uint lane) {
  float qs[MOST];
  for (uint i = 0; i * 32 < DIM; ++i) qs[i] = inside(i, lane, DIM) ? float(query[i * 32 + lane]) : 0.0f;
  for (uint base = range.begin; base < range.end; base += step) {
    const uint count = min(KEYS, range.end - base);
    for (uint j = 0; j < count; ++j) {
      float dot = 0.0f;
      for (uint i = 0; i * 32 < DIM; ++i)
        if (inside(i, lane, DIM)) dot += qs[i] * keys.at(base + j, i * 32, lane);
      products[j * PITCH + lane] = dot;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    float s = -INFINITY;
    if (lane < count) {
      float dot = 0.0f;
      for (uint i = 0; i < 32; ++i) dot += products[lane * PITCH + i];
      s = score(a, mask, dot, base + lane, q);
    }
    const float most = max(part.most, simd_max(s)), level = max(most, -FLT_MAX);
    const float weight = exp(s - level), fade = exp(part.most - level);
    part = {part.sum * fade + simd_sum(weight), most};
    weights[lane] = weight;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i * 32 < V_DIM; ++i) o[i] *= fade;
    for (uint j = 0; j < count; ++j) {
      const float w = weights[j];
      for (uint i = 0; i * 32 < V_DIM; ++i)
        if (inside(i, lane, V_DIM)) o[i] += w * values.at(base + j, i * 32, lane);
    }
  }
  return part;
}

// One query of one head and one split of its keys, by each `together`-th simdgroup: heads that share their keys read
// them at the same time.
template <typename T, typename Rows>
METAL_FUNC void decode(constant Attention &a, device const T *queries, Rows keys, Rows values, device const uchar *mask,
                       device const uchar *sinks, device float *parts, device T *out, Query q, uint split, uint splits,
                       threadgroup float *products, threadgroup float *weights, threadgroup Part *found, uint lane,
                       uint simd) {
  const uint sharers = SIMDS / a.together, first = simd % a.together, own = simd / a.together;
  const Range all = visible(a, q.length, q.position, q.position);
  const uint share = ((all.end - all.begin + splits - 1) / splits + KEYS - 1) / KEYS * KEYS;
  const uint begin = min(all.begin + split * share, all.end);
  const Range mine = {begin + own * KEYS, min(begin + share, all.end)};
  const bool sink = a.sink_kind != NO_NUMBERS && split == 0 && own == 0;
  Part part = {sink ? 1.0f : 0.0f, sink ? number(sinks, a.sink_kind, q.head) : -INFINITY};
  float o[MOST];
  for (uint i = 0; i < MOST; ++i) o[i] = 0.0f;
  device const T *query = queries + q.batch * a.q_stride[0] + q.head * a.q_stride[1] + q.index * a.q_stride[2];
  threadgroup float *space = products + simd * KEYS * PITCH;
  part = weigh(a, query, keys, values, mask, q, mine, sharers * KEYS, part, o, space, weights + simd * KEYS, lane);

  if (lane == 0) found[simd] = part;
  for (uint i = 0; i * 32 < V_DIM; ++i) space[i * 32 + lane] = o[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Part total = {0.0f, -INFINITY};
  for (uint s = first; s < SIMDS; s += a.together) total.most = max(total.most, found[s].most);
  float fade[SIMDS];
  for (uint s = first; s < SIMDS; s += a.together) {
    fade[s] = exp(found[s].most - max(total.most, -FLT_MAX));
    total.sum += found[s].sum * fade[s];
  }
  const ulong row = (ulong(q.batch) * a.heads + q.head) * a.queries + q.index;
  device float *left = parts + (row * splits + split) * (V_DIM + 2);
  if (splits > 1 && own == 0 && lane == 0) {
    left[V_DIM] = total.sum;
    left[V_DIM + 1] = total.most;
  }
  const float whole = q.length ? 1.0f / total.sum : 0.0f;
  for (uint column = own * 32 + lane; column < V_DIM; column += sharers * 32) {
    float sum = 0.0f;
    for (uint s = first; s < SIMDS; s += a.together) sum += products[s * KEYS * PITCH + column] * fade[s];
    if (splits > 1)
      left[column] = sum;
    else
      out[q.batch * a.out_stride[0] + q.head * a.out_stride[1] + q.index * a.out_stride[2] + column] = T(sum * whole);
  }
}

#define DECODE_SPACE \
  threadgroup float products[SIMDS * KEYS * PITCH]; \
  threadgroup float weights[SIMDS * KEYS]; \
  threadgroup Part found[SIMDS]; \
  const uint y = at.y * a.together + simd % a.together, head = y / a.queries; \
  const Query query = query_at(a, at.z, head, y % a.queries, sequence_length(a, lengths, at.z)); \
  const ulong row = at.z * a.kv_stride[0] + head / a.group * a.kv_stride[1], step = a.kv_stride[2];

template <typename T, typename S>
kernel void sdpa_decode(device const T *q [[buffer(0)]],
                        device const S *k [[buffer(1)]],
                        device const S *v [[buffer(2)]],
                        device const uchar *mask [[buffer(3)]],
                        device const uchar *sinks [[buffer(4)]],
                        constant uint *lengths [[buffer(5)]],
                        device float *parts [[buffer(6)]],
                        device T *out [[buffer(7)]],
                        constant Attention &a [[buffer(8)]],
                        uint3 at [[threadgroup_position_in_grid]],
                        uint3 groups [[threadgroups_per_grid]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simd [[simdgroup_index_in_threadgroup]]) {
  DECODE_SPACE
  const DenseRows<S> keys(k, row, step, DIM), values(v, row, step, V_DIM);
  decode(a, q, keys, values, mask, sinks, parts, out, query, at.x, groups.x, products, weights, found, lane, simd);
}

template <typename T, uint bits>
kernel void sdpa_decode_affine(device const T *q [[buffer(0)]],
                               device const uint *k [[buffer(1)]],
                               device const T *k_scales [[buffer(2)]],
                               device const T *k_biases [[buffer(3)]],
                               device const uint *v [[buffer(4)]],
                               device const T *v_scales [[buffer(5)]],
                               device const T *v_biases [[buffer(6)]],
                               device const uchar *mask [[buffer(7)]],
                               device const uchar *sinks [[buffer(8)]],
                               constant uint *lengths [[buffer(9)]],
                               device float *parts [[buffer(10)]],
                               device T *out [[buffer(11)]],
                               constant Attention &a [[buffer(12)]],
                               uint3 at [[threadgroup_position_in_grid]],
                               uint3 groups [[threadgroups_per_grid]],
                               uint lane [[thread_index_in_simdgroup]],
                               uint simd [[simdgroup_index_in_threadgroup]]) {
  DECODE_SPACE
  const AffineRows<T, bits> keys(k, k_scales, k_biases, row, step, DIM, a.quantised_group);
  const AffineRows<T, bits> values(v, v_scales, v_biases, row, step, V_DIM, a.quantised_group);
  decode(a, q, keys, values, mask, sinks, parts, out, query, at.x, groups.x, products, weights, found, lane, simd);
}

// out = sum of exp(most_s - most) * sums_s over the sum of exp(most_s - most) * sum_s, over splits s
template <typename T>
kernel void sdpa_merge(device const float *parts [[buffer(0)]],
                       constant uint *lengths [[buffer(1)]],
                       device T *out [[buffer(2)]],
                       constant Attention &a [[buffer(3)]],
                       constant uint &splits [[buffer(4)]],
                       uint3 at [[thread_position_in_grid]]) {
  const uint head = at.y / a.queries, index = at.y % a.queries;
  const ulong row = (ulong(at.z) * a.heads + head) * a.queries + index, pitch = a.v_dim + 2;
  device const float *left = parts + row * splits * pitch;
  float most = -FLT_MAX, weight = 0.0f, sum = 0.0f;
  for (uint s = 0; s < splits; ++s) most = max(most, left[s * pitch + a.v_dim + 1]);
  for (uint s = 0; s < splits; ++s) {
    const float fade = exp(left[s * pitch + a.v_dim + 1] - most);
    weight += left[s * pitch + a.v_dim] * fade;
    sum += left[s * pitch + at.x] * fade;
  }
  const float whole = sequence_length(a, lengths, at.z) ? 1.0f / weight : 0.0f;
  out[at.z * a.out_stride[0] + head * a.out_stride[1] + index * a.out_stride[2] + at.x] = T(sum * whole);
}

// out[i, j] = whether query i, at position offset + i, may see key j; or 0 and minus infinity.
template <typename T>
kernel void attention_mask(device T *out [[buffer(0)]],
                           constant uint &keys [[buffer(1)]],
                           constant int &offset [[buffer(2)]],
                           constant uint &causal [[buffer(3)]],
                           constant uint &window [[buffer(4)]],
                           constant T &seen [[buffer(5)]],
                           constant T &unseen [[buffer(6)]],
                           uint2 at [[thread_position_in_grid]]) {
  const int position = offset + int(at.y), key = int(at.x);
  const bool hidden = (causal && key > position) || (window && position - key >= int(window));
  out[ulong(at.y) * keys + at.x] = hidden ? unseen : seen;
}

#define FOR_BITS(name, T, bits) \
  template [[host_name("sdpa_decode_" #name "_q" #bits)]] kernel decltype(sdpa_decode_affine<T, bits>) \
      sdpa_decode_affine<T, bits>;
#define FOR_TYPE(name, T) \
  FOR_BITS(name, T, 8) \
  FOR_BITS(name, T, 4) \
  template [[host_name("sdpa_merge_" #name)]] kernel decltype(sdpa_merge<T>) sdpa_merge<T>; \
  template [[host_name("attention_mask_" #name)]] kernel decltype(attention_mask<T>) attention_mask<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
template [[host_name("attention_mask_bool")]] kernel decltype(attention_mask<bool>) attention_mask<bool>;

#define FOR_TYPES(name, T, kv_name, S) \
  template [[host_name("sdpa_decode_" #name "_" #kv_name)]] kernel decltype(sdpa_decode<T, S>) sdpa_decode<T, S>;
FOR_TYPES(f32, float, f32, float)
FOR_TYPES(f32, float, f16, half)
FOR_TYPES(f32, float, bf16, bfloat)
FOR_TYPES(f16, half, f16, half)
FOR_TYPES(bf16, bfloat, bf16, bfloat)
