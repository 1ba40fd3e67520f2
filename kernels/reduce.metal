// Row by row: row_sum  y = sum(x),  cumsum  y[i] = x[0] + ... + x[i],  argmax and argmin.
#include <metal_stdlib>
using namespace metal;
#include "shared/order.h"
#include "shared/reduce.h"
#include "shared/extreme.h"

template <typename T>
kernel void row_sum(device const T *x [[buffer(0)]],
                    device T *out [[buffer(1)]],
                    constant uint &n [[buffer(2)]],
                    uint row [[threadgroup_position_in_grid]],
                    TEAM_ARGUMENTS) {
  threadgroup float scratch[32];
  Team team = {lane, simdgroup, simdgroups};
  x += ulong(row) * n;
  float sum = 0;
  for (uint i = team.thread_number(); i < n; i += team.threads()) {
    sum += float(x[i]);
  }
  sum = team_sum(sum, team, scratch);
  if (team.thread_number() == 0) {
    out[row] = T(sum);
  }
}

constant bool REVERSE [[function_constant(0)]];
constant bool INCLUSIVE [[function_constant(1)]];

inline uint summed_at(uint i, uint n) { return REVERSE ? n - 1 - i : i; }

// Each thread adds up four neighbours at a time; the sum of all before is carried from one round to the next.
template <typename T>
kernel void cumsum(device const T *x [[buffer(0)]],
                   device T *out [[buffer(1)]],
                   constant uint &n [[buffer(2)]],
                   uint row [[threadgroup_position_in_grid]],
                   TEAM_ARGUMENTS) {
  threadgroup float scratch[2][32];
  Team team = {lane, simdgroup, simdgroups};
  x += ulong(row) * n;
  out += ulong(row) * n;
  float carried = 0;
  uint round = 0;
  for (uint first = 0; first < n; first += 4 * team.threads(), ++round) {
    const uint mine = first + 4 * team.thread_number();
    const bool whole = n - first >= 4 * team.threads();
    float value[4];
    for (uint k = 0; k < 4; ++k) {
      value[k] = 0;
    }
    if (whole) {
      for (uint k = 0; k < 4; ++k) {
        value[k] = float(x[summed_at(mine + k, n)]);
      }
    } else {
      for (uint k = 0; k < 4 && mine + k < n; ++k) {
        value[k] = float(x[summed_at(mine + k, n)]);
      }
    }
    const float sum = value[0] + value[1] + value[2] + value[3];
    float total;
    float so_far = carried + team_sum_before(sum, team, scratch[round & 1], total);
    for (uint k = 0; k < 4; ++k) {
      const float with = so_far + value[k];
      value[k] = INCLUSIVE ? with : so_far;
      so_far = with;
    }
    if (whole) {
      for (uint k = 0; k < 4; ++k) {
        out[summed_at(mine + k, n)] = T(value[k]);
      }
    } else {
      for (uint k = 0; k < 4 && mine + k < n; ++k) {
        out[summed_at(mine + k, n)] = T(value[k]);
      }
    }
    carried += total;
  }
}

// The first of the largest, or smallest; a NaN counts as beyond all others.
template <typename T>
kernel void arg_extreme(device const T *x [[buffer(0)]],
                        device uint *index [[buffer(1)]],
                        device T *value [[buffer(2)]],
                        constant uint &n [[buffer(3)]],
                        constant bool &smallest [[buffer(4)]],
                        uint row [[threadgroup_position_in_grid]],
                        TEAM_ARGUMENTS) {
  threadgroup uint scratch[2][32];
  Team team = {lane, simdgroup, simdgroups};
  x += ulong(row) * n;
  const uint flip = smallest ? 0x80000000u : 0u;
  const Extreme mine = lane_extreme(x, n, flip, team);
  const bool any_nan = mine.nan_place != NOWHERE;
  const uint key = any_nan ? 0xFFFFFFFF : order_key(mine.value), most = team_max(key, team, scratch[0]);
  const uint best = key == most ? extreme_index(x, flip, mine, any_nan) : NOWHERE;
  const uint where = team_min(best, team, scratch[1]);
  if (team.thread_number() == 0) {
    index[row] = where;
    value[row] = x[where];
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("row_sum_" #name)]] kernel decltype(row_sum<T>) row_sum<T>; \
  template [[host_name("cumsum_" #name)]] kernel decltype(cumsum<T>) cumsum<T>; \
  template [[host_name("arg_extreme_" #name)]] kernel decltype(arg_extreme<T>) arg_extreme<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
