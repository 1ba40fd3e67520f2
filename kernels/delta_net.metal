// The gated delta rule, token by token:  S = exp(-g) S,  S += beta (v - S k) k^T,  out = scale S q.
#include <metal_stdlib>
using namespace metal;

constant uint PER_LANE [[function_constant(0)]];  // values of a key in each lane, at most 8

struct Sizes {
  uint tokens, key_heads, key_dim, value_dim;
};

// A lane's values of a key or query, 0 beyond its end.
template <typename T>
inline void load_key(device const T *from, uint n, uint lane, thread float *values) {
  for (uint j = 0; j < PER_LANE; j++) {
    const uint i = j * 32 + lane;
    values[j] = i < n ? float(from[i]) : 0.0f;
  }
}

inline float dot_of(thread const float *a, thread const float *b) {
  float sum = 0;
  for (uint j = 0; j < PER_LANE; j++) {
    sum += a[j] * b[j];
  }
  return simd_sum(sum);
}

// q, k [sequences, tokens, key heads, key_dim], v, out [sequences, tokens, value heads, value_dim], g, beta without the
// last axis, state [sequences, value heads, value_dim, key_dim]. A simdgroup has one row of the state.
template <typename T>
kernel void gated_delta_net(device const T *q [[buffer(0)]],
                            device const T *k [[buffer(1)]],
                            device const T *v [[buffer(2)]],
                            device const float *g [[buffer(3)]],
                            device const float *beta [[buffer(4)]],
                            device float *state [[buffer(5)]],
                            device T *out [[buffer(6)]],
                            constant Sizes &sizes [[buffer(7)]],
                            constant float &scale [[buffer(8)]],
                            constant float &eps [[buffer(9)]],
                            constant bool &normalise [[buffer(10)]],
                            constant bool &tiled [[buffer(11)]],
                            uint3 at [[threadgroup_position_in_grid]],
                            uint3 groups [[threadgroups_per_grid]],
                            uint lane [[thread_index_in_simdgroup]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]],
                            uint simdgroups [[simdgroups_per_threadgroup]]) {
  const uint row = at.x * simdgroups + simdgroup, head = at.y, heads = groups.y;
  if (row >= sizes.value_dim) {
    return;
  }
  const uint n = sizes.key_dim;
  const uint key_head = tiled ? head % sizes.key_heads : head / (heads / sizes.key_heads);
  state += ((ulong(at.z) * heads + head) * sizes.value_dim + row) * n;
  float rows[8], key[8], query[8];
  load_key(state, n, lane, rows);
  for (uint t = 0; t < sizes.tokens; t++) {
    const ulong token = ulong(at.z) * sizes.tokens + t;
    const ulong from = (token * sizes.key_heads + key_head) * n, value = token * heads + head;
    load_key(k + from, n, lane, key);
    load_key(q + from, n, lane, query);
    const float key_factor = normalise ? precise::rsqrt(dot_of(key, key) + eps) : 1.0f;
    const float query_factor = normalise ? precise::rsqrt(dot_of(query, query) + eps) : 1.0f;
    const float decay = precise::exp(-g[value]);
    for (uint j = 0; j < PER_LANE; j++) {
      rows[j] *= decay;
      key[j] *= key_factor;
    }
    const float delta = beta[value] * (float(v[value * sizes.value_dim + row]) - dot_of(rows, key));
    for (uint j = 0; j < PER_LANE; j++) {
      rows[j] += delta * key[j];
    }
    const float found = dot_of(rows, query) * query_factor * scale;
    if (lane == 0) {
      out[value * sizes.value_dim + row] = T(found);
    }
  }
  for (uint j = 0; j < PER_LANE; j++) {
    const uint i = j * 32 + lane;
    if (i < n) {
      state[i] = rows[j];
    }
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("gated_delta_net_" #name)]] kernel decltype(gated_delta_net<T>) gated_delta_net<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
