// Sorting of rows: each value becomes an item, its order above its index in 64 bits, so that no two items are equal and
// any sort of items is a stable sort of values. Blocks are sorted in threadgroup memory, then merged two by two.
#include <metal_stdlib>
using namespace metal;
#include "shared/order.h"
#include "shared/reduce.h"

constant constexpr uint LARGEST_BLOCK = 1024;
constant constexpr uint MERGED_EACH = 8;
constant constexpr ulong AFTER_ALL = ~0ul;

template <typename T>
ulong item_of(T value, uint i, bool descending) {
  uint key = descending ? reverse_order_key(float(value)) : order_key(float(value));
  return ulong(key) << 32 | i;
}
template <>
ulong item_of(ulong item, uint, bool) {
  return item;
}

// Sorts blocks of two items per thread, and writes the first `keep` items of each; `n` and `made` are what a row has.
template <typename T>
kernel void sort_blocks(device const T *x [[buffer(0)]],
                        device ulong *items [[buffer(1)]],
                        constant uint &n [[buffer(2)]],
                        constant uint &made [[buffer(3)]],
                        constant uint &keep [[buffer(4)]],
                        constant bool &descending [[buffer(5)]],
                        uint2 place [[threadgroup_position_in_grid]],
                        uint thread_number [[thread_index_in_threadgroup]],
                        uint2 threads [[threads_per_threadgroup]]) {
  threadgroup ulong block[LARGEST_BLOCK];
  uint count = 2 * threads.x;
  x += ulong(place.y) * n;
  items += ulong(place.y) * made;
  for (uint i = thread_number; i < count; i += threads.x) {
    uint from = place.x * count + i;
    block[i] = from < n ? item_of(x[from], from, descending) : AFTER_ALL;
  }
  // Strides up to 32 stay within the 64 items of a simdgroup.
  uint last = count;
  for (uint size = 2; size <= count; size *= 2) {
    for (uint stride = size / 2; stride > 0; stride /= 2) {
      if (max(stride, last) > 32) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
      } else {
        simdgroup_barrier(mem_flags::mem_threadgroup);
      }
      last = stride;
      uint i = 2 * thread_number - (thread_number & (stride - 1));
      ulong a = block[i], b = block[i + stride];
      if ((a > b) == ((i & size) == 0)) {
        block[i] = b;
        block[i + stride] = a;
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_number; i < keep; i += threads.x) {
    uint to = place.x * keep + i;
    if (to < made) {
      items[to] = block[i];
    }
  }
}

// Merges sorted runs of `width` items two by two; a thread finds where its share begins in both, and writes it.
kernel void sort_merge(device const ulong *items [[buffer(0)]],
                       device ulong *merged [[buffer(1)]],
                       constant uint &n [[buffer(2)]],
                       constant uint &width [[buffer(3)]],
                       uint2 place [[thread_position_in_grid]]) {
  ulong row = ulong(place.y) * n;
  uint first = place.x * MERGED_EACH;
  uint begin = first / (2 * width) * (2 * width);
  device const ulong *a = items + row + begin;
  uint a_count = min(width, n - begin);
  device const ulong *b = a + a_count;
  uint b_count = min(width, n - begin - a_count);
  uint before = first - begin;
  uint low = before > b_count ? before - b_count : 0, high = min(before, a_count);
  while (low < high) {
    uint middle = (low + high) / 2;
    if (a[middle] < b[before - 1 - middle]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  uint i = low, j = before - low;
  for (uint to = first; to < min(first + MERGED_EACH, n); ++to) {
    bool takes_a = j == b_count || (i < a_count && a[i] < b[j]);
    merged[row + to] = takes_a ? a[i++] : b[j++];
  }
}

// The larger, the earlier in descending order.
template <typename T>
uint rank_of(T value) {
  return ~reverse_order_key(float(value));
}

// How many of a lane's values in [begin, end) reach a rank.
template <typename T>
uint count_from(device const T *x, uint begin, uint end, uint rank, uint lane) {
  const uint whole = begin + (end - begin) / 32 * 32;
  uint count = 0;
  for (uint i = begin; i < whole; i += 32) count += uint(rank_of(x[i + lane]) >= rank);
  if (whole + lane < end) {
    count += uint(rank_of(x[whole + lane]) >= rank);
  }
  return count;
}

// The first `k` items of each row in descending order, but not sorted themselves: the rank that k values reach is found
// bit by bit, then those above it are taken, and of those at it the first ones. Each simdgroup has a stretch of the row.
template <typename T>
kernel void top_items(device const T *x [[buffer(0)]],
                      device ulong *items [[buffer(1)]],
                      constant uint &n [[buffer(2)]],
                      constant uint &k [[buffer(3)]],
                      uint row [[threadgroup_position_in_grid]],
                      TEAM_ARGUMENTS) {
  threadgroup uint scratch[4][32];
  const Team team = {lane, simdgroup, simdgroups};
  x += ulong(row) * n;
  items += ulong(row) * k;
  const uint share = (n + team.threads() - 1) / team.threads() * 32;
  const uint begin = min(simdgroup * share, n), end = min(begin + share, n);
  uint least = 0;
  for (uint bit = 32; bit > 0; --bit) {
    const uint trial = least | 1u << (bit - 1);
    const uint count = team_sum(count_from(x, begin, end, trial, lane), team, scratch[bit % 2]);
    least = count >= k ? trial : least;
  }
  const uint above = least == ~0u ? 0 : simd_sum(count_from(x, begin, end, least + 1, lane));
  const uint reached = simd_sum(count_from(x, begin, end, least, lane));
  if (lane == 0) {
    scratch[2][simdgroup] = above;
    scratch[3][simdgroup] = reached - above;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const uint above_of = lane < simdgroups ? scratch[2][lane] : 0, equal_of = lane < simdgroups ? scratch[3][lane] : 0;
  uint next_above = simd_sum(lane < simdgroup ? above_of : 0);
  uint next_equal = simd_sum(above_of) + simd_sum(lane < simdgroup ? equal_of : 0);
  for (uint i = begin; i < end; i += 32) {
    const uint at = min(i + lane, end - 1), rank = i + lane < end ? rank_of(x[at]) : 0;
    const bool valid = i + lane < end;
    const uint is_above = uint(valid && rank > least), is_equal = uint(valid && rank == least);
    if (simd_any(is_above + is_equal != 0)) {
      const uint to_above = next_above + simd_prefix_exclusive_sum(is_above);
      const uint to_equal = next_equal + simd_prefix_exclusive_sum(is_equal);
      const uint to = is_above != 0 ? to_above : to_equal;
      if (is_above + is_equal != 0 && to < k) {
        items[to] = item_of(x[at], at, true);
      }
      next_above += simd_sum(is_above);
      next_equal += simd_sum(is_equal);
    }
  }
}

// The first `k` items of each row: their indices, and the values there.
kernel void sorted_indices(device const ulong *items [[buffer(0)]],
                           device uint *out [[buffer(1)]],
                           constant uint &made [[buffer(2)]],
                           constant uint &k [[buffer(3)]],
                           uint2 place [[thread_position_in_grid]]) {
  out[ulong(place.y) * k + place.x] = uint(items[ulong(place.y) * made + place.x]);
}

template <typename T>
kernel void sorted_values(device const ulong *items [[buffer(0)]],
                          device const T *x [[buffer(1)]],
                          device T *out [[buffer(2)]],
                          constant uint &n [[buffer(3)]],
                          constant uint &made [[buffer(4)]],
                          constant uint &k [[buffer(5)]],
                          uint2 place [[thread_position_in_grid]]) {
  uint from = uint(items[ulong(place.y) * made + place.x]);
  out[ulong(place.y) * k + place.x] = x[ulong(place.y) * n + from];
}

template [[host_name("sort_blocks_items")]] kernel decltype(sort_blocks<ulong>) sort_blocks<ulong>;
#define FOR_TYPE(name, T) \
  template [[host_name("sort_blocks_" #name)]] kernel decltype(sort_blocks<T>) sort_blocks<T>; \
  template [[host_name("top_items_" #name)]] kernel decltype(top_items<T>) top_items<T>; \
  template [[host_name("sorted_values_" #name)]] kernel decltype(sorted_values<T>) sorted_values<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
