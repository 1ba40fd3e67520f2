// Row by row: softmax  y = exp(x - max(x)) / sum(exp(x - max(x))), also of x * scale + mask, and
// logsumexp  y = max(x) + log(sum(exp(x - max(x)))).
#include <metal_stdlib>
using namespace metal;
#include "shared/reduce.h"

// Every operation rounds by itself, so that a fused kernel leaves the bits of the two that it stands for.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

// The row as it is.
template <typename T>
struct Plain {
  device const T *x;
  float operator[](uint i) const thread { return float(x[i]); }
};

enum MaskKind : uint { mask_f32, mask_f16, mask_bf16, mask_bool };

// The row times a scale, plus a mask; what a boolean mask denies is minus infinity.
template <typename T>
struct Masked {
  device const T *x;
  device const uchar *mask;
  ulong first;  // element of the mask
  float scale;
  uint kind;
  float operator[](uint i) const thread {
    float v = float(x[i]) * scale;
    switch (kind) {
      case mask_f32: return v + ((device const float *)mask)[first + i];
      case mask_f16: return v + float(((device const half *)mask)[first + i]);
      case mask_bf16: return v + float(((device const bfloat *)mask)[first + i]);
      default: return mask[first + i] ? v : -INFINITY;
    }
  }
};

template <typename Row>
float row_max(Row x, uint n, Team team, threadgroup float *scratch) {
  float most = -INFINITY;
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    most = max(most, x[i]);
  }
  return team_max(most, team, scratch);
}

template <typename Row>
float row_sum_exp(Row x, float most, uint n, Team team, threadgroup float *scratch) {
  float sum = 0;
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    sum += precise::exp(x[i] - most);
  }
  return team_sum(sum, team, scratch);
}

template <typename T, typename Row>
void row_softmax(Row x, device T *out, uint n, Team team, threadgroup float *scratch) {
  float most = row_max(x, n, team, scratch);
  float share = 1.0f / row_sum_exp(x, most, n, team, scratch + 32);
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    out[i] = T(precise::exp(x[i] - most) * share);
  }
}

template <typename T>
kernel void softmax(device const T *x [[buffer(0)]],
                    device T *out [[buffer(1)]],
                    constant uint &n [[buffer(2)]],
                    uint row [[threadgroup_position_in_grid]],
                    TEAM_ARGUMENTS) {
  threadgroup float scratch[64];
  Team team = {lane, simdgroup, simdgroups};
  row_softmax(Plain<T>{x + ulong(row) * n}, out + ulong(row) * n, n, team, scratch);
}

template <typename T>
kernel void scale_mask_softmax(device const T *x [[buffer(0)]],
                               device const uchar *mask [[buffer(1)]],
                               device T *out [[buffer(2)]],
                               constant uint &n [[buffer(3)]],
                               constant float &scale [[buffer(4)]],
                               constant uint &mask_rows [[buffer(5)]],
                               constant uint &mask_kind [[buffer(6)]],
                               uint row [[threadgroup_position_in_grid]],
                               TEAM_ARGUMENTS) {
  threadgroup float scratch[64];
  Team team = {lane, simdgroup, simdgroups};
  Masked<T> masked = {x + ulong(row) * n, mask, ulong(row % mask_rows) * n, scale, mask_kind};
  row_softmax(masked, out + ulong(row) * n, n, team, scratch);
}

template <typename T>
kernel void logsumexp(device const T *x [[buffer(0)]],
                      device T *out [[buffer(1)]],
                      constant uint &n [[buffer(2)]],
                      uint row [[threadgroup_position_in_grid]],
                      TEAM_ARGUMENTS) {
  threadgroup float scratch[64];
  Team team = {lane, simdgroup, simdgroups};
  Plain<T> values = {x + ulong(row) * n};
  float most = row_max(values, n, team, scratch);
  float sum = row_sum_exp(values, most, n, team, scratch + 32);
  if (team.thread_number() == 0) {
    out[row] = T(isinf(most) ? most : most + precise::log(sum));
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("softmax_" #name)]] kernel decltype(softmax<T>) softmax<T>; \
  template [[host_name("scale_mask_softmax_" #name)]] kernel decltype(scale_mask_softmax<T>) scale_mask_softmax<T>; \
  template [[host_name("logsumexp_" #name)]] kernel decltype(logsumexp<T>) logsumexp<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
