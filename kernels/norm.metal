// Row by row: rms_norm  y = x / sqrt(mean(x^2) + eps) * w,  l2_norm  y = x / sqrt(sum(x^2) + eps),
// layer_norm  y = (x - mean(x)) / sqrt(var(x) + eps) * w + b, and rms_norm with a residual, a factor or RoPE around it.
#include <metal_stdlib>
using namespace metal;
#include "shared/reduce.h"
#include "shared/turns.h"

// Every operation rounds by itself, so that a fused kernel leaves the bits of the two that it stands for.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

// `share` is 1 / n for the mean of the squares and 1 for their sum.
template <typename T>
kernel void rms_norm(device const T *x [[buffer(0)]],
                     device const T *weight [[buffer(1)]],
                     device T *out [[buffer(2)]],
                     constant uint &n [[buffer(3)]],
                     constant float &eps [[buffer(4)]],
                     constant float &share [[buffer(5)]],
                     constant bool &has_weight [[buffer(6)]],
                     uint row [[threadgroup_position_in_grid]],
                     TEAM_ARGUMENTS) {
  threadgroup float scratch[32];
  Team team = {lane, simdgroup, simdgroups};
  const uint count = n;
  const bool weighted = has_weight;
  x += ulong(row) * n;
  out += ulong(row) * n;
  float squares = 0;
  for (uint i = team.thread_number(); i < count; i += team.threads()) {
    float v = float(x[i]);
    squares += v * v;
  }
  float factor = precise::rsqrt(team_sum(squares, team, scratch) * share + eps);
  for (uint i = team.thread_number(); i < count; i += team.threads()) {
    float w = weighted ? float(weight[i]) : 1.0f;
    out[i] = T(float(x[i]) * factor * w);
  }
}

// y = (rms_norm(x + before) * w * times + after) * scale, where each part may be missing; `sum` gets x + before.
struct Around {
  uchar before, weight, times, after, sum;
};

template <typename T>
kernel void rms_norm_around(device const T *x [[buffer(0)]],
                            device const T *weight [[buffer(1)]],
                            device const T *before [[buffer(2)]],
                            device const T *times [[buffer(3)]],
                            device const T *after [[buffer(4)]],
                            device T *out [[buffer(5)]],
                            device T *sum [[buffer(6)]],
                            constant uint &length [[buffer(7)]],
                            constant float &eps [[buffer(8)]],
                            constant float &scale_by [[buffer(9)]],
                            constant Around &given [[buffer(10)]],
                            uint row [[threadgroup_position_in_grid]],
                            TEAM_ARGUMENTS) {
  threadgroup float scratch[32];
  Team team = {lane, simdgroup, simdgroups};
  const uint n = length;
  const float scale = scale_by;
  const Around has = given;
  ulong first = ulong(row) * n;
  float squares = 0;
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    float v = float(x[first + i]);
    if (has.before) {
      v += float(before[first + i]);
    }
    squares += v * v;
  }
  float factor = precise::rsqrt(team_sum(squares, team, scratch) * precise::divide(1.0f, float(n)) + eps);
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    float v = float(x[first + i]);
    if (has.before) {
      v += float(before[first + i]);
    }
    float y = v * factor;
    if (has.weight) {
      y *= float(weight[i]);
    }
    if (has.times) {
      y *= float(times[first + i]);
    }
    if (has.after) {
      y += float(after[first + i]);
    }
    // The sum goes last, since it may lie over x or over what was added to it.
    out[first + i] = T(y * scale);
    if (has.sum) {
      sum[first + i] = T(v);
    }
  }
}

template <typename T>
kernel void layer_norm(device const T *x [[buffer(0)]],
                       device const T *weight [[buffer(1)]],
                       device const T *bias [[buffer(2)]],
                       device T *out [[buffer(3)]],
                       constant uint &n [[buffer(4)]],
                       constant float &eps [[buffer(5)]],
                       constant bool &has_weight [[buffer(6)]],
                       constant bool &has_bias [[buffer(7)]],
                       uint row [[threadgroup_position_in_grid]],
                       TEAM_ARGUMENTS) {
  threadgroup float scratch[2][32];
  Team team = {lane, simdgroup, simdgroups};
  x += ulong(row) * n;
  out += ulong(row) * n;
  float sum = 0;
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    sum += float(x[i]);
  }
  float mean = team_sum(sum, team, scratch[0]) / float(n);
  float squares = 0;
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    float d = float(x[i]) - mean;
    squares += d * d;
  }
  float factor = precise::rsqrt(team_sum(squares, team, scratch[1]) / float(n) + eps);
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    float w = has_weight ? float(weight[i]) : 1.0f;
    float b = has_bias ? float(bias[i]) : 0.0f;
    out[i] = T((float(x[i]) - mean) * factor * w + b);
  }
}

// One simdgroup per head of a token: rms_norm over the head, then NeoX RoPE over its first `dims` values.
template <typename T>
kernel void head_norm_rope(device const T *x [[buffer(0)]],
                           device const T *weight [[buffer(1)]],
                           device const int *positions [[buffer(2)]],
                           device const float *factors [[buffer(3)]],
                           device T *out [[buffer(4)]],
                           constant ulong *turns [[buffer(5)]],
                           constant uint &heads [[buffer(6)]],
                           constant uint &n [[buffer(7)]],
                           constant uint &dims [[buffer(8)]],
                           constant float &eps [[buffer(9)]],
                           constant uint2 &stride [[buffer(10)]],  // of positions: in memory, and what a token adds
                           constant bool &has_weight [[buffer(11)]],
                           constant bool &has_factors [[buffer(12)]],
                           uint2 head [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]]) {
  ulong first = (ulong(head.y) * heads + head.x) * n;
  x += first;
  out += first;
  float squares = 0;
  for (uint i = lane; i < n; i += 32) {
    float v = float(x[i]);
    squares += v * v;
  }
  float factor = precise::rsqrt(simd_sum(squares) / float(n) + eps);
  int position = positions[head.y * stride.x] + int(head.y * stride.y);
  uint pairs = dims / 2;
  for (uint i = lane; i < pairs; i += 32) {
    ulong turn = has_factors ? divided_turn(turns[i], factors[i]) : turns[i];
    float cosine;
    float sine = sine_of_turns(turn, position, cosine);
    float a = float(x[i]) * factor, b = float(x[i + pairs]) * factor;
    if (has_weight) {
      a *= float(weight[i]);
      b *= float(weight[i + pairs]);
    }
    out[i] = T(a * cosine - b * sine);
    out[i + pairs] = T(a * sine + b * cosine);
  }
  for (uint i = dims + lane; i < n; i += 32) {
    float w = has_weight ? float(weight[i]) : 1.0f;
    out[i] = T(float(x[i]) * factor * w);
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("rms_norm_" #name)]] kernel decltype(rms_norm<T>) rms_norm<T>; \
  template [[host_name("rms_norm_around_" #name)]] kernel decltype(rms_norm_around<T>) rms_norm_around<T>; \
  template [[host_name("layer_norm_" #name)]] kernel decltype(layer_norm<T>) layer_norm<T>; \
  template [[host_name("head_norm_rope_" #name)]] kernel decltype(head_norm_rope<T>) head_norm_rope<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
