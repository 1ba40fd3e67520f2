// The first of the largest numbers of a row. Blocks of numbers are compared as a whole; where the largest is in its block
// is looked up at the end, by those lanes alone that have it. All loops go round as often as the row is long, whatever its
// numbers.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint EXTREME_STEPS = 8;
constant constexpr uint NAN_ABOVE = 0x7F800000;
constant constexpr uint NOWHERE = 0xFFFFFFFF;

inline bool is_nan(uint bits) { return (bits & 0x7FFFFFFF) > NAN_ABOVE; }

// Of one lane. A place is where a block of EXTREME_STEPS numbers begins, or from `blocks_end` on a number itself.
struct Extreme {
  float value;      // NaN is passed over; -INFINITY where there is nothing else
  uint place;       // NOWHERE for a lane that has no number at all
  uint nan_place;   // of the first NaN; NOWHERE where there is none
  uint blocks_end;
};

// Of a lane's numbers, those from `team.begin` to `team.end`; `flip` is the sign bit where the smallest is wanted.
template <typename T>
inline Extreme lane_extreme(device const T *x, uint n, uint flip, Team team) {
  const uint end = team.end(n);
  uint at = team.simdgroup * team.part(n);
  Extreme found = {-INFINITY, at + team.lane < end ? at + team.lane : NOWHERE, NOWHERE, 0};
  for (; at + 32 * EXTREME_STEPS <= end; at += 32 * EXTREME_STEPS) {
    float most = -INFINITY;
    uint highest = 0;
    for (uint k = 0; k < EXTREME_STEPS; ++k) {
      const uint bits = as_type<uint>(float(x[at + 32 * k + team.lane])) ^ flip;
      const float value = as_type<float>(bits);
      most = value > most ? value : most;
      highest = max(highest, bits & 0x7FFFFFFF);
    }
    found.place = most > found.value ? at + team.lane : found.place;
    found.value = most > found.value ? most : found.value;
    found.nan_place = highest > NAN_ABOVE ? min(found.nan_place, at + team.lane) : found.nan_place;
  }
  found.blocks_end = at;
  for (uint i = at + team.lane; i < end; i += 32) {
    const uint bits = as_type<uint>(float(x[i])) ^ flip;
    const float value = as_type<float>(bits);
    found.place = value > found.value ? i : found.place;
    found.value = value > found.value ? value : found.value;
    found.nan_place = is_nan(bits) ? min(found.nan_place, i) : found.nan_place;
  }
  return found;
}

// The index of a lane's largest number, or of its first NaN.
template <typename T>
inline uint extreme_index(device const T *x, uint flip, Extreme found, bool of_nan) {
  uint index = of_nan ? found.nan_place : found.place;
  if (index >= found.blocks_end) {
    return index;
  }
  const uint block = index;
  for (uint k = EXTREME_STEPS; k-- > 0;) {
    const uint bits = as_type<uint>(float(x[block + 32 * k])) ^ flip;
    const bool here = as_type<float>(bits) == found.value || (found.value == -INFINITY && is_nan(bits));
    index = (of_nan ? is_nan(bits) : here) ? block + 32 * k : index;
  }
  return index;
}
