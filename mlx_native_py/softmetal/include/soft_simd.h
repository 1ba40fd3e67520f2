// Simdgroup and quadgroup functions of Metal, and barriers.
#pragma once
#include "soft_fold.h"

namespace metal {
// What simdgroup and quadgroup functions take: no bool, no 64 bits, no bfloat.
template <class T>
struct __is_valid_simdgroup_type
    : bool_constant<is_arithmetic<T>::value && (sizeof(T) < 8) && !is_same<T, bool>::value && !is_same<T, bfloat>::value> {};
template <class T, int N> struct __is_valid_simdgroup_type<vec<T, N>> : __is_valid_simdgroup_type<T> {};
}  // namespace metal

namespace soft {
template <class T> using if_simd = metal::enable_if_t<metal::__is_valid_simdgroup_type<T>::value, int>;
template <class T>
using if_simd_bits = metal::enable_if_t<metal::__is_valid_simdgroup_type<T>::value && metal::is_integral<T>::value, int>;
}  // namespace soft

namespace metal {

enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
  mem_object_data = 16
};
SOFT_FN mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
SOFT_FN mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(int(a) & int(b)); }

enum memory_order { memory_order_relaxed = 0, memory_order_seq_cst = 5 };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

#if SOFT_ENGINE == 1
// Says which barrier it is above the flags: all threads must be at the same one.
SOFT_LANE_FN void threadgroup_barrier(mem_flags flags, soft::mark at = soft::mark()) {
  soft_barrier(soft::self(), uint(flags) | at.position << SOFT_BARRIER_MARK);
}
#else
SOFT_LANE_FN void threadgroup_barrier(mem_flags flags) { soft_barrier(soft::self(), uint(flags)); }
#endif
// Without memory to order it is a hint to schedulers, and costs nothing.
SOFT_LANE_FN void simdgroup_barrier(mem_flags flags, soft::mark at = soft::mark()) {
  if (flags != mem_flags::mem_none) soft::meet(soft::self(), nullptr, at, uint(flags));
}
SOFT_LANE_FN void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define SOFT_LANE_FUNCTION(name, taken, ...)                                                               \
  template <class T, soft::taken<T> = 0> SOFT_LANE_FN T name(T data, soft::mark at = soft::mark()) {       \
    return soft::__VA_ARGS__(data, at);                                                                    \
  }
#define SOFT_REDUCTION(name, taken)                                                                        \
  SOFT_LANE_FUNCTION(simd_##name, taken, reduce<soft::fold_##name, SOFT_WIDTH>)                            \
  SOFT_LANE_FUNCTION(quad_##name, taken, reduce<soft::fold_##name, 4>)
#define SOFT_SCAN(name, start)                                                                                  \
  SOFT_LANE_FUNCTION(simd_prefix_inclusive_##name, if_simd, prefix<soft::fold_##name, SOFT_WIDTH, true, start>)  \
  SOFT_LANE_FUNCTION(simd_prefix_exclusive_##name, if_simd, prefix<soft::fold_##name, SOFT_WIDTH, false, start>) \
  SOFT_LANE_FUNCTION(quad_prefix_inclusive_##name, if_simd, prefix<soft::fold_##name, 4, true, start>)           \
  SOFT_LANE_FUNCTION(quad_prefix_exclusive_##name, if_simd, prefix<soft::fold_##name, 4, false, start>)
SOFT_REDUCTION(sum, if_simd)
SOFT_REDUCTION(product, if_simd)
SOFT_REDUCTION(min, if_simd)
SOFT_REDUCTION(max, if_simd)
SOFT_REDUCTION(and, if_simd_bits)
SOFT_REDUCTION(or, if_simd_bits)
SOFT_REDUCTION(xor, if_simd_bits)
SOFT_SCAN(sum, 0)
SOFT_SCAN(product, 1)
#undef SOFT_LANE_FUNCTION
#undef SOFT_REDUCTION
#undef SOFT_SCAN

}  // namespace metal

namespace soft {
// The lane that a shuffle within groups of Width reads from; beyond the end a thread keeps its own value.
template <uint Width> struct within {
  static uint base(uint lane) { return lane / Width * Width; }
  static uint at(uint lane, uint index) { return base(lane) + index % Width; }
  static uint up(uint lane, uint delta) { return lane % Width >= delta ? lane - delta : lane; }
  static uint down(uint lane, uint delta) { return lane % Width + delta < Width ? lane + delta : lane; }
  static uint rotate_up(uint lane, uint delta) { return at(lane, lane - delta); }
  static uint rotate_down(uint lane, uint delta) { return at(lane, lane + delta); }
};
SOFT_LANE_FN source fill_up(uint lane, uint delta, uint modulo) {
  uint base = lane / modulo * modulo, place = lane % modulo;
  return {base + (place + modulo - delta % modulo) % modulo, place < delta};
}
SOFT_LANE_FN source fill_down(uint lane, uint delta, uint modulo) {
  uint base = lane / modulo * modulo, place = lane % modulo;
  return {base + (place + delta) % modulo, place + delta >= modulo};
}
}  // namespace soft

namespace metal {
#define SOFT_SHUFFLE(prefix, width)                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_broadcast(T data, ushort lane, soft::mark at = soft::mark()) {            \
    return soft::from_lane(data, soft::within<width>::at(soft::own_lane(), lane), at);                                 \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_shuffle(T data, ushort lane, soft::mark at = soft::mark()) {              \
    return prefix##_broadcast(data, lane, at);                                                                         \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_shuffle_xor(T data, ushort mask, soft::mark at = soft::mark()) {          \
    return prefix##_broadcast(data, ushort(soft::own_lane() ^ mask), at);                                              \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_shuffle_up(T data, ushort delta, soft::mark at = soft::mark()) {          \
    return soft::from_lane(data, soft::within<width>::up(soft::own_lane(), delta), at);                                \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_shuffle_down(T data, ushort delta, soft::mark at = soft::mark()) {        \
    return soft::from_lane(data, soft::within<width>::down(soft::own_lane(), delta), at);                              \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_shuffle_rotate_up(T data, ushort delta, soft::mark at = soft::mark()) {   \
    return soft::from_lane(data, soft::within<width>::rotate_up(soft::own_lane(), delta), at);                         \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T prefix##_shuffle_rotate_down(T data, ushort delta, soft::mark at = soft::mark()) { \
    return soft::from_lane(data, soft::within<width>::rotate_down(soft::own_lane(), delta), at);                       \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0>                                                                                                   \
  SOFT_LANE_FN T prefix##_shuffle_and_fill_up(T data, T filling, ushort delta, ushort modulo = width,                  \
                                             soft::mark at = soft::mark()) {                                           \
    return soft::from_lane_filled(data, filling, soft::fill_up(soft::own_lane(), delta, modulo), at);                  \
  }                                                                                                                    \
  template <class T, soft::if_simd<T> = 0>                                                                                                   \
  SOFT_LANE_FN T prefix##_shuffle_and_fill_down(T data, T filling, ushort delta, ushort modulo = width,                \
                                             soft::mark at = soft::mark()) {                                           \
    return soft::from_lane_filled(data, filling, soft::fill_down(soft::own_lane(), delta, modulo), at);                \
  }
SOFT_SHUFFLE(simd, SOFT_WIDTH)
SOFT_SHUFFLE(quad, 4)
#undef SOFT_SHUFFLE

// One bit for each thread of a simdgroup or quadgroup.
template <uint Width, class Bits> struct soft_vote {
  typedef Bits vote_t;
  SOFT_MEMBER soft_vote() : bits(0) {}
  explicit SOFT_MEMBER soft_vote(vote_t v) : bits(v) {}
  explicit SOFT_MEMBER operator vote_t() const { return bits; }
  SOFT_MEMBER bool all() const { return (bits & everyone) == everyone; }
  SOFT_MEMBER bool any() const { return (bits & everyone) != 0; }

 private:
  static constexpr vote_t everyone = vote_t((1ul << Width) - 1);
  vote_t bits;
};
typedef soft_vote<SOFT_WIDTH, ulong> simd_vote;
typedef soft_vote<4, uint> quad_vote;

SOFT_LANE_FN simd_vote simd_ballot(bool expression, soft::mark at = soft::mark()) {
  return simd_vote(soft::vote(expression, at).said);
}
SOFT_LANE_FN simd_vote simd_active_threads_mask(soft::mark at = soft::mark()) {
  return simd_vote(soft::meet(soft::self(), nullptr, at));
}
SOFT_LANE_FN bool simd_all(bool expression, soft::mark at = soft::mark()) {
  soft::votes votes = soft::vote(expression, at);
  return votes.said == votes.active;
}
SOFT_LANE_FN bool simd_any(bool expression, soft::mark at = soft::mark()) {
  return soft::vote(expression, at).said != 0;
}
SOFT_LANE_FN bool simd_is_first(soft::mark at = soft::mark()) {
  soft::lane_t lane = soft::self();
  return uint(__builtin_ctz(soft::meet(lane, nullptr, at))) == soft::lane_number(lane);
}
SOFT_LANE_FN bool simd_is_helper_thread() { return false; }
template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T simd_broadcast_first(T data, soft::mark at = soft::mark()) {
  uint active = soft::meet(soft::self(), nullptr, at);
  return soft::from_lane(data, __builtin_ctz(active), at);
}

SOFT_LANE_FN uint soft_own_quad(uint mask) { return mask >> (soft::own_lane() & ~3u) & 15u; }
SOFT_LANE_FN quad_vote quad_ballot(bool expression, soft::mark at = soft::mark()) {
  return quad_vote(soft_own_quad(soft::vote(expression, at).said));
}
SOFT_LANE_FN quad_vote quad_active_threads_mask(soft::mark at = soft::mark()) {
  return quad_vote(soft_own_quad(soft::meet(soft::self(), nullptr, at)));
}
SOFT_LANE_FN bool quad_all(bool expression, soft::mark at = soft::mark()) {
  soft::votes votes = soft::vote(expression, at);
  return soft_own_quad(votes.said) == soft_own_quad(votes.active);
}
SOFT_LANE_FN bool quad_any(bool expression, soft::mark at = soft::mark()) {
  return soft_own_quad(soft::vote(expression, at).said) != 0;
}
SOFT_LANE_FN bool quad_is_first(soft::mark at = soft::mark()) {
  soft::lane_t lane = soft::self();
  return uint(__builtin_ctz(soft_own_quad(soft::meet(lane, nullptr, at)))) == lane->index % 4;
}
SOFT_LANE_FN bool quad_is_helper_thread() { return false; }
template <class T, soft::if_simd<T> = 0> SOFT_LANE_FN T quad_broadcast_first(T data, soft::mark at = soft::mark()) {
  uint active = soft_own_quad(soft::meet(soft::self(), nullptr, at));
  return quad_broadcast(data, ushort(__builtin_ctz(active)), at);
}
}  // namespace metal
