// Parts of state-space layers: y = silu(causal depthwise convolution of x), with the last inputs kept as state;
// rms_norm(x) * w * silu(z); g = softplus(a + dt_bias) * -ssm_a and beta = sigmoid(b).
#include <metal_stdlib>
using namespace metal;

inline float sigmoid(float x) { return 1.0f / (1.0f + precise::exp(-x)); }

// x [sequences, tokens, channels], weight [channels, taps], state [sequences, channels, taps - 1].
// A thread has `span` tokens of a channel. Only the first span, of taps - 1 tokens or more, looks at the old state,
// so its thread may leave the new one.
template <typename T>
kernel void ssm_conv(device const T *x [[buffer(0)]],
                     device const T *weight [[buffer(1)]],
                     device T *state [[buffer(2)]],
                     device T *out [[buffer(3)]],
                     constant uint &channels [[buffer(4)]],
                     constant uint &tokens [[buffer(5)]],
                     constant uint &taps [[buffer(6)]],
                     constant uint &span [[buffer(7)]],
                     uint3 at [[thread_position_in_grid]]) {
  const uint channel = at.x;
  if (channel >= channels) {
    return;
  }
  const uint kept = taps - 1;
  x += ulong(at.z) * tokens * channels + channel;
  out += ulong(at.z) * tokens * channels + channel;
  weight += ulong(channel) * taps;
  state += (ulong(at.z) * channels + channel) * kept;
  const uint last = min(tokens, (at.y + 1) * span);
  for (uint token = at.y * span; token < last; token++) {
    float sum = 0;
    for (uint tap = 0; tap < taps; tap++) {
      const uint from = token + tap;
      const float value = from < kept ? float(state[from]) : float(x[ulong(from - kept) * channels]);
      sum += float(weight[tap]) * value;
    }
    out[ulong(token) * channels] = T(sum * sigmoid(sum));
  }
  if (at.y == 0) {
    for (uint i = 0; i < kept; i++) {
      const uint from = tokens + i;
      state[i] = from < kept ? state[from] : x[ulong(from - kept) * channels];
    }
  }
}

// One simdgroup per row.
template <typename T>
kernel void ssm_norm_gate(device const T *x [[buffer(0)]],
                          device const T *weight [[buffer(1)]],
                          device const T *z [[buffer(2)]],
                          device T *out [[buffer(3)]],
                          constant uint &n [[buffer(4)]],
                          constant float &eps [[buffer(5)]],
                          uint row [[threadgroup_position_in_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const ulong first = ulong(row) * n;
  float squares = 0;
  for (uint i = lane; i < n; i += 32) {
    squares += float(x[first + i]) * float(x[first + i]);
  }
  const float factor = precise::rsqrt(simd_sum(squares) / float(n) + eps);
  for (uint i = lane; i < n; i += 32) {
    const float gate = float(z[first + i]);
    out[first + i] = T(float(x[first + i]) * factor * float(weight[i]) * (gate * sigmoid(gate)));
  }
}

// log(1 + exp(x)): log(1 + u) is twice the artanh of u / (2 + u), which is at most 1/3 here.
inline float softplus(float x) {
  const float u = precise::exp(-fabs(x));
  const float r = u / (2.0f + u), r2 = r * r;
  float series = 0;
  for (int i = 15; i > 0; i -= 2) {
    series = series * r2 + 1.0f / float(i);
  }
  return (x > 0.0f ? x : 0.0f) + 2.0f * r * series;
}

template <typename T>
kernel void compute_g_beta(device const T *a [[buffer(0)]],
                           device const T *b [[buffer(1)]],
                           device const float *dt_bias [[buffer(2)]],
                           device const float *ssm_a [[buffer(3)]],
                           device float *g [[buffer(4)]],
                           device float *beta [[buffer(5)]],
                           constant uint &heads [[buffer(6)]],
                           uint2 at [[thread_position_in_grid]]) {
  if (at.x >= heads) {
    return;
  }
  const ulong i = ulong(at.y) * heads + at.x;
  g[i] = softplus(float(a[i]) + dt_bias[at.x]) * -ssm_a[at.x];
  beta[i] = sigmoid(float(b[i]));
}

#define FOR_TYPE(name, T) \
  template [[host_name("ssm_conv_" #name)]] kernel decltype(ssm_conv<T>) ssm_conv<T>; \
  template [[host_name("ssm_norm_gate_" #name)]] kernel decltype(ssm_norm_gate<T>) ssm_norm_gate<T>; \
  template [[host_name("compute_g_beta_" #name)]] kernel decltype(compute_g_beta<T>) compute_g_beta<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
