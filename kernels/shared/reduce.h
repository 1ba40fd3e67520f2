// Sums and extremes over a threadgroup of whole simdgroups; every thread gets the result.
// `scratch` has 32 values, and two calls in a row need different ones, or a barrier in between.
#include <metal_stdlib>
using namespace metal;

struct Team {
  uint lane;
  uint simdgroup;
  uint simdgroups;
  uint thread_number() const thread { return simdgroup * 32 + lane; }
  uint threads() const thread { return simdgroups * 32; }
  // A simdgroup's part of n neighbours, from which each lane takes every 32nd: memory is read in one go.
  uint part(uint n) const thread { return (n + threads() - 1) / threads() * 32; }
  uint begin(uint n) const thread { return simdgroup * part(n) + lane; }
  uint end(uint n) const thread { return min(n, (simdgroup + 1) * part(n)); }
};

#define TEAM_ARGUMENTS \
  uint lane [[thread_index_in_simdgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]], \
      uint simdgroups [[simdgroups_per_threadgroup]]

// `fold` is a function of MSL over a simdgroup, `start` what leaves its results as they are.
#define TEAM_REDUCTION(name, fold, T, start) \
  inline T name(T x, Team team, threadgroup T *scratch) { \
    x = fold(x); \
    if (team.simdgroups == 1) { \
      return x; \
    } \
    if (team.lane == 0) { \
      scratch[team.simdgroup] = x; \
    } \
    threadgroup_barrier(mem_flags::mem_threadgroup); \
    return fold(team.lane < team.simdgroups ? scratch[team.lane] : T(start)); \
  }

TEAM_REDUCTION(team_sum, simd_sum, float, 0)
TEAM_REDUCTION(team_sum, simd_sum, uint, 0)
TEAM_REDUCTION(team_max, simd_max, float, -INFINITY)
TEAM_REDUCTION(team_max, simd_max, uint, 0)
TEAM_REDUCTION(team_min, simd_min, uint, 0xFFFFFFFFu)

// What the threads before this one have in sum; `total` is that of all.
inline float team_sum_before(float x, Team team, threadgroup float *scratch, thread float &total) {
  float before = simd_prefix_exclusive_sum(x);
  float mine = simd_sum(x);
  if (team.simdgroups == 1) {
    total = mine;
    return before;
  }
  if (team.lane == 0) {
    scratch[team.simdgroup] = mine;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float each = team.lane < team.simdgroups ? scratch[team.lane] : 0.0f;
  total = simd_sum(each);
  return before + simd_sum(team.lane < team.simdgroup ? each : 0.0f);
}
