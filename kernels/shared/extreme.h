// The first of the largest numbers of a row. Blocks of numbers are compared as a whole; where the largest is in its block
// is looked up at the end. All loops go round as often as the row is long, whatever its numbers.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint EXTREME_STEPS = 8;
constant constexpr uint NAN_ABOVE = 0x7F800000;

inline bool is_nan(uint bits) { return (bits & 0x7FFFFFFF) > NAN_ABOVE; }

struct Extreme {
  float value;     // NaN is passed over; -INFINITY where there is nothing else
  uint index;      // 0xFFFFFFFF for a lane that has no number at all
  uint first_nan;  // 0xFFFFFFFF where there is none
};

// Of a lane's numbers, those from `team.begin` to `team.end`; `flip` is the sign bit where the smallest is wanted.
template <typename T>
inline Extreme lane_extreme(device const T *x, uint n, uint flip, Team team) {
  const uint end = team.end(n);
  uint at = team.simdgroup * team.part(n), block = at + team.lane, nan_block = 0xFFFFFFFF;
  Extreme found = {-INFINITY, block < end ? block : 0xFFFFFFFFu, 0xFFFFFFFFu};
  for (; at + 32 * EXTREME_STEPS <= end; at += 32 * EXTREME_STEPS) {
    float most = -INFINITY;
    uint highest = 0;
    for (uint k = 0; k < EXTREME_STEPS; ++k) {
      const uint bits = as_type<uint>(float(x[at + 32 * k + team.lane])) ^ flip;
      const float value = as_type<float>(bits);
      most = value > most ? value : most;
      highest = max(highest, bits & 0x7FFFFFFF);
    }
    block = most > found.value ? at + team.lane : block;
    found.value = most > found.value ? most : found.value;
    nan_block = highest > NAN_ABOVE ? min(nan_block, at + team.lane) : nan_block;
  }
  for (uint k = EXTREME_STEPS; k-- > 0;) {
    const uint i = block + 32 * k, j = nan_block + 32 * k;
    const float value = as_type<float>(as_type<uint>(float(x[min(i, n - 1)])) ^ flip);
    if (i < at && (value == found.value || (found.value == -INFINITY && is_nan(as_type<uint>(value))))) {
      found.index = i;
    }
    if (nan_block < at && is_nan(as_type<uint>(float(x[j])))) {
      found.first_nan = j;
    }
  }
  for (uint i = at + team.lane; i < end; i += 32) {
    const uint bits = as_type<uint>(float(x[i])) ^ flip;
    const float value = as_type<float>(bits);
    found.index = value > found.value ? i : found.index;
    found.value = value > found.value ? value : found.value;
    found.first_nan = is_nan(bits) ? min(found.first_nan, i) : found.first_nan;
  }
  return found;
}
