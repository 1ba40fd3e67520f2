// Sampling from softmax(logits / temperature), in whole numbers. A token weighs 2^31 exp((logit - max) / temperature),
// rounded; all sums are exact, so the draw depends on nothing but the weights, the seed and the step.
#include <metal_stdlib>
using namespace metal;
#include "shared/order.h"
#include "shared/random.h"
#include "shared/reduce.h"
#include "shared/extreme.h"

constant constexpr uint BUCKETS = 1024;
constant constexpr float ONE = 2147483648.0f;

struct Sampling {
  ulong seed;
  float temperature;
  uint top_k;       // 0: all
  uint top_p;       // of 2^32; 0: all
  uint min_weight;  // of 2^31
  uint n;
  uint step_stride;
};

template <typename T>
kernel void sample_logits(device const T *logits [[buffer(0)]],
                          device float *out [[buffer(1)]],
                          constant ulong &n [[buffer(2)]],
                          uint i [[thread_position_in_grid]]) {
  if (i < n) {
    out[i] = float(logits[i]);
  }
}

// A logit in the history is divided by the penalty, or multiplied if it is negative: once, however often it is there.
template <typename T>
kernel void sample_penalise(device const T *logits [[buffer(0)]],
                            device const uint *history [[buffer(1)]],
                            device const uint *lengths [[buffer(2)]],
                            device atomic_uint *out [[buffer(3)]],
                            constant float &penalty [[buffer(4)]],
                            constant uint &n [[buffer(5)]],
                            constant uint &length_stride [[buffer(6)]],
                            uint2 place [[thread_position_in_grid]],
                            uint2 grid [[threads_per_grid]]) {
  if (place.x >= lengths[place.y * length_stride]) {
    return;
  }
  uint token = history[ulong(place.y) * grid.x + place.x];
  if (token >= n) {
    return;
  }
  ulong i = ulong(place.y) * n + token;
  float v = float(logits[i]);
  v = v > 0 ? v / penalty : v * penalty;
  atomic_store_explicit(out + i, as_type<uint>(v), memory_order_relaxed);
}

// NaN is like minus infinity.
inline uint logit_key(float logit) { return isnan(logit) ? order_key(-INFINITY) : order_key(logit); }

// A token's rank among all: its logit first, and of equal ones the lower index.
inline ulong rank_of(float logit, uint i) { return ulong(logit_key(logit)) << 32 | (0xFFFFFFFF - i); }

struct Sums {
  atomic_uint low[256], high[256];
};

inline void add(threadgroup Sums &sums, uint i, uint amount) {
  uint old = atomic_fetch_add_explicit(&sums.low[i], amount, memory_order_relaxed);
  if (old + amount < old) {
    atomic_fetch_add_explicit(&sums.high[i], 1u, memory_order_relaxed);
  }
}

inline ulong sum_at(threadgroup Sums &sums, uint i) {
  return ulong(atomic_load_explicit(&sums.high[i], memory_order_relaxed)) << 32 |
         atomic_load_explicit(&sums.low[i], memory_order_relaxed);
}

// One row under way: what its passes read.
struct Tokens {
  device const float *logits;
  device const uint *weights;
  uint n;
};

// The rank at which the ranks from there up reach `goal`: in tokens, or in weight. Digit by digit, from above.
inline ulong rank_reaching(
    Tokens tokens, ulong goal, bool by_weight, Team team, threadgroup Sums &sums, threadgroup ulong *said) {
  ulong rank = 0;
  for (int shift = 56; shift >= 0; shift -= 8) {
    if (shift < 32 && (tokens.n - 1) >> shift == 0) {
      rank |= 0xFFul << shift;  // a digit in which no two indices differ
      continue;
    }
    for (uint i = team.thread_number(); i < 256; i += team.threads()) {
      atomic_store_explicit(&sums.low[i], 0u, memory_order_relaxed);
      atomic_store_explicit(&sums.high[i], 0u, memory_order_relaxed);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = team.thread_number(); i < tokens.n; i += team.threads()) {
      ulong mine = rank_of(tokens.logits[i], i);
      bool inside = shift == 56 || mine >> (shift + 8) == rank >> (shift + 8);
      if (inside && tokens.weights[i] > 0) {
        add(sums, uint(mine >> shift) & 0xFF, by_weight ? tokens.weights[i] : 1u);
      }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (team.thread_number() == 0) {
      uint digit = 255;
      ulong here = sum_at(sums, digit);
      while (here < goal && digit > 0) {
        goal -= here;
        here = sum_at(sums, --digit);
      }
      said[0] = rank | ulong(digit) << shift;
      said[1] = here == goal ? 0 : goal;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    rank = said[0];
    goal = said[1];
    if (goal == 0) {  // all that begins with these digits
      break;
    }
  }
  return rank;
}

// The part of 2^32 of a weight, rounded up.
inline ulong part_of(ulong weight, uint part) {
  ulong low = (weight & 0xFFFFFFFF) * part;
  return (weight >> 32) * part + (low >> 32) + ((low & 0xFFFFFFFF) != 0);
}

// The 64-bit fraction `random` of a weight.
inline ulong drawn_from(ulong weight, uint2 random) {
  ulong high = weight >> 32, low = weight & 0xFFFFFFFF;
  ulong middle = high * random.y + (low * random.y >> 32);
  return high * random.x + (middle >> 32) + ((low * random.x + (middle & 0xFFFFFFFF)) >> 32);
}

// The weight of the tokens from `rank` up that is in each bucket of indices i % BUCKETS, and in each 32 buckets.
inline void weigh(Tokens tokens,
                  ulong rank,
                  uint least,
                  Team team,
                  threadgroup ulong *buckets,
                  threadgroup ulong *blocks) {
  for (uint bucket = team.thread_number(); bucket < BUCKETS; bucket += team.threads()) {
    ulong weight = 0;
    for (uint i = bucket; i < tokens.n; i += BUCKETS) {
      bool in = tokens.weights[i] >= least && rank_of(tokens.logits[i], i) >= rank;
      weight += in ? tokens.weights[i] : 0;
    }
    buckets[bucket] = weight;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (team.thread_number() < 32) {
    ulong weight = 0;
    for (uint i = 0; i < 32; ++i) {
      weight += buckets[team.thread_number() * 32 + i];
    }
    blocks[team.thread_number()] = weight;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

inline ulong sum_of_blocks(threadgroup ulong *blocks) {
  ulong weight = 0;
  for (uint i = 0; i < 32; ++i) {
    weight += blocks[i];
  }
  return weight;
}

// The token at which the weights, bucket after bucket, pass `goal`.
inline uint token_at(
    Tokens tokens, ulong rank, uint least, ulong goal, threadgroup ulong *buckets, threadgroup ulong *blocks) {
  uint block = 0;
  for (; goal >= blocks[block]; ++block) {
    goal -= blocks[block];
  }
  uint bucket = block * 32;
  for (; goal >= buckets[bucket]; ++bucket) {
    goal -= buckets[bucket];
  }
  for (uint i = bucket;; i += BUCKETS) {
    ulong weight = tokens.weights[i];
    if (weight >= least && rank_of(tokens.logits[i], i) >= rank) {
      if (goal < weight) {
        return i;
      }
      goal -= weight;
    }
  }
}

// exp((logit - most) * slope), which is 1 for the largest; infinite numbers have no differences.
inline float weight_of(float logit, float most, float slope, bool finite) {
  if (finite) {
    const float below = (logit - most) * slope;
    return precise::exp(below > -104.0f ? below : -104.0f);  // NaN fails the test
  }
  return (isnan(logit) ? -INFINITY : logit) == most ? 1.0f : 0.0f;
}

// The likeliest token of a row and the logarithm of its probability; where others may be drawn, all weights too.
kernel void sample_weights(device const float *logits [[buffer(0)]],
                           device uint *weights [[buffer(1)]],
                           device uint *out [[buffer(2)]],
                           device float *log_probability [[buffer(3)]],
                           constant Sampling &how [[buffer(4)]],
                           uint row [[threadgroup_position_in_grid]],
                           TEAM_ARGUMENTS) {
  threadgroup float scratch[32];
  threadgroup uint found[2][32];
  Team team = {lane, simdgroup, simdgroups};
  const uint n = how.n;
  const bool draws = how.temperature > 0 && how.top_k != 1;
  logits += ulong(row) * n;
  weights += draws ? ulong(row) * n : 0;

  const Extreme mine = lane_extreme(logits, n, 0, team);
  const uint key = order_key(mine.value), most_key = team_max(key, team, found[0]);
  const uint best = key == most_key ? extreme_index(logits, 0, mine, false) : NOWHERE;
  const uint first = team_min(best, team, found[1]);
  float most = isnan(logits[first]) ? -INFINITY : logits[first];

  float slope = how.temperature > 0 ? 1.0f / how.temperature : 1.0f;
  const bool finite = !isinf(most) && !isinf(slope);
  float sum = 0;
  for (uint i = team.begin(n), end = team.end(n); i < end; i += 32) {
    float e = weight_of(logits[i], most, slope, finite);
    sum += e;
    if (draws) {
      weights[i] = uint(rint(e * ONE));
    }
  }
  float log_sum = precise::log(team_sum(sum, team, scratch));
  if (team.thread_number() == 0) {
    out[row] = first;
    log_probability[row] = -log_sum;
  }
}

// A token drawn by its weight; `out` and `log_probability` have the likeliest one, and get this one.
kernel void sample_draw(device const float *logits [[buffer(0)]],
                        device const uint *weights [[buffer(1)]],
                        device const uint *steps [[buffer(2)]],
                        device uint *out [[buffer(3)]],
                        device float *log_probability [[buffer(4)]],
                        constant Sampling &how [[buffer(5)]],
                        uint row [[threadgroup_position_in_grid]],
                        TEAM_ARGUMENTS) {
  threadgroup Sums sums;
  threadgroup ulong buckets[BUCKETS], blocks[32], said[2];
  Team team = {lane, simdgroup, simdgroups};
  Tokens tokens = {logits + ulong(row) * how.n, weights + ulong(row) * how.n, how.n};
  const uint least = max(how.min_weight, 1u);
  ulong rank = 0;
  // The rank from which on tokens are left: of top_k, then of top_p among those, then the weights of what is left.
#pragma nounroll
  for (uint round = 0; round < 3; ++round) {
    if (round == 0 && (how.top_k == 0 || how.top_k >= how.n) || round == 1 && how.top_p == 0) {
      continue;
    }
    ulong goal = how.top_k;
    if (round > 0) {
      weigh(tokens, rank, round == 1 ? 1 : least, team, buckets, blocks);
      goal = part_of(sum_of_blocks(blocks), how.top_p);
    }
    if (round < 2) {
      rank = rank_reaching(tokens, goal, round == 1, team, sums, said);
    }
  }
  if (team.thread_number() == 0) {
    uint4 random = philox(uint4(steps[row * how.step_stride], row, 0, 0), as_type<uint2>(how.seed));
    ulong goal = drawn_from(sum_of_blocks(blocks), random.xy);
    uint token = token_at(tokens, rank, least, goal, buckets, blocks);
    uint best = out[row];
    float most = isnan(tokens.logits[best]) ? -INFINITY : tokens.logits[best];
    float v = isnan(tokens.logits[token]) ? -INFINITY : tokens.logits[token];
    out[row] = token;
    log_probability[row] += v == most ? 0.0f : (v - most) * (1.0f / how.temperature);
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("sample_logits_" #name)]] kernel decltype(sample_logits<T>) sample_logits<T>; \
  template [[host_name("sample_penalise_" #name)]] kernel decltype(sample_penalise<T>) sample_penalise<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
