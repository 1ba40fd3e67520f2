// Around the experts' matmuls: slots (token, k) sorted by expert, rows gathered, act(gate) * up, and the weighted sum.
#include <metal_stdlib>
using namespace metal;

// One simdgroup per expert, in the order of slots; one more for the slots whose expert does not exist.
kernel void moe_sort(device const uint *ids [[buffer(0)]],
                     device uint *counts [[buffer(1)]],
                     device uint *offsets [[buffer(2)]],
                     device uint *order [[buffer(3)]],
                     device uint *places [[buffer(4)]],
                     constant uint &slots [[buffer(5)]],
                     constant uint &experts [[buffer(6)]],
                     uint expert [[threadgroup_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]]) {
  uint lower = 0, own = 0;
  for (uint i = lane; i < slots; i += 32) {
    const uint id = min(ids[i], experts);
    lower += id < expert;
    own += id == expert;
  }
  const uint first = simd_sum(lower), count = simd_sum(own);
  if (lane == 0) {
    offsets[expert] = first;
    if (expert < experts) {
      counts[expert] = count;
    }
  }
  uint next = first;
  for (uint start = 0; start < slots && next < first + count; start += 32) {
    const uint i = start + lane;
    const uint here = i < slots && min(ids[i], experts) == expert ? 1 : 0;
    const uint place = next + simd_prefix_exclusive_sum(here);
    if (here) {
      order[place] = i;
      places[i] = place;
    }
    next += simd_sum(here);
  }
}

// Row i of the result is the row of the token that slot order[i] belongs to.
template <typename T>
kernel void moe_permute(device const T *x [[buffer(0)]],
                        device const uint *order [[buffer(1)]],
                        device T *out [[buffer(2)]],
                        constant uint &width [[buffer(3)]],
                        constant uint &tokens [[buffer(4)]],
                        constant uint &top_k [[buffer(5)]],
                        uint2 at [[thread_position_in_grid]]) {
  const uint token = order[at.y] / top_k;
  if (at.x < width && token < tokens) {
    out[ulong(at.y) * width + at.x] = x[ulong(token) * width + at.x];
  }
}

struct Parts {
  uchar places, shared, residual;
};

// out = sum_k weights_k * y_k + sigmoid(shared_logit) * shared + residual; row k of y is at `places`, or in order.
template <typename T>
kernel void moe_reduce(device const T *y [[buffer(0)]],
                       device const float *weights [[buffer(1)]],
                       device const uint *places [[buffer(2)]],
                       device const T *shared [[buffer(3)]],
                       device const float *shared_logit [[buffer(4)]],
                       device const T *residual [[buffer(5)]],
                       device T *out [[buffer(6)]],
                       constant uint &width [[buffer(7)]],
                       constant uint &top_k [[buffer(8)]],
                       constant uint &rows [[buffer(9)]],
                       constant Parts &has [[buffer(10)]],
                       uint2 at [[thread_position_in_grid]]) {
  if (at.x >= width) {
    return;
  }
  const ulong here = ulong(at.y) * width + at.x;
  float sum = 0;
  for (uint k = 0; k < top_k; k++) {
    const ulong slot = ulong(at.y) * top_k + k;
    const ulong row = has.places ? min(places[slot], rows - 1) : slot;
    sum += weights[slot] * float(y[row * width + at.x]);
  }
  if (has.shared) {
    sum += float(shared[here]) / (1.0f + precise::exp(-shared_logit[at.y]));
  }
  out[here] = T(has.residual ? sum + float(residual[here]) : sum);
}

inline float silu(float x) { return x / (1.0f + precise::exp(-x)); }

// The tanh form: 0.5 (1 + tanh(u)) is the sigmoid of 2 u.
inline float gelu(float x) {
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return x / (1.0f + precise::exp(-2.0f * u));
}

// Rows of gate || up, each n wide.
template <typename T>
kernel void moe_gated(device const T *gate_up [[buffer(0)]],
                      device T *out [[buffer(1)]],
                      constant uint &n [[buffer(2)]],
                      constant bool &is_gelu [[buffer(3)]],
                      uint2 at [[thread_position_in_grid]]) {
  if (at.x >= n) {
    return;
  }
  const ulong here = ulong(at.y) * n * 2 + at.x;
  const float gate = float(gate_up[here]), up = float(gate_up[here + n]);
  out[ulong(at.y) * n + at.x] = T((is_gelu ? gelu(gate) : silu(gate)) * up);
}

template [[host_name("moe_permute_2")]] kernel decltype(moe_permute<ushort>) moe_permute<ushort>;
template [[host_name("moe_permute_4")]] kernel decltype(moe_permute<uint>) moe_permute<uint>;

#define FOR_TYPE(name, T) \
  template [[host_name("moe_reduce_" #name)]] kernel decltype(moe_reduce<T>) moe_reduce<T>; \
  template [[host_name("moe_gated_" #name)]] kernel decltype(moe_gated<T>) moe_gated<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
