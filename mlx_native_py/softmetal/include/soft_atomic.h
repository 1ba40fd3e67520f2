// Atomic types and functions. The threads of a threadgroup share a core: threadgroup memory needs no locked access.
#pragma once
#include "soft_simd.h"

namespace metal {

template <class T> struct atomic {
  T soft_value;
};
template <class T> using _atomic = atomic<T>;
typedef atomic<int> soft_atomic_int;
typedef atomic<uint> soft_atomic_uint;
typedef atomic<bool> soft_atomic_bool;
typedef atomic<float> soft_atomic_float;
typedef atomic<ulong> soft_atomic_ulong;

}  // namespace metal

// The compiler has types of its own by these names.
#define atomic_int soft_atomic_int
#define atomic_uint soft_atomic_uint
#define atomic_bool soft_atomic_bool
#define atomic_float soft_atomic_float
#define atomic_ulong soft_atomic_ulong
#define atomic_long soft_name_atomic_long  // which Metal has not

namespace soft {

template <uint Bytes> struct raw_bits;
template <> struct raw_bits<1> {
  typedef uchar type;
};
template <> struct raw_bits<2> {
  typedef ushort type;
};
template <> struct raw_bits<4> {
  typedef uint type;
};
template <> struct raw_bits<8> {
  typedef ulong type;
};
template <class T> using bits_of = typename raw_bits<sizeof(T)>::type;

// Device memory: other cores take part. P is a pointer to the value.
struct shared_access {
  template <class P> static auto load(P p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
  template <class P, class B> static void store(P p, B v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
  template <class P, class B> static B exchange(P p, B v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
  template <class P, class B> static bool replace(P p, __private B &expected, B desired) {
    B seen = expected;
    bool done = __atomic_compare_exchange_n(p, &seen, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    expected = seen;
    return done;
  }
};

#if SOFT_ENGINE == 2 || __has_feature(thread_sanitizer)
// All lanes come here at once; and where checked mode is told of loads, none is replaced by what was stored before.
typedef shared_access private_access;
#else
// Threadgroup memory: no other thread runs before this one waits.
struct private_access {
  template <class P> static auto load(P p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
  template <class P, class B> static void store(P p, B v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
  template <class P, class B> static B exchange(P p, B v) {
    B old = load(p);
    store(p, v);
    return old;
  }
  template <class P, class B> static bool replace(P p, __private B &expected, B desired) {
    B seen = load(p);
    bool same = seen == expected;
    if (same) store(p, desired);
    expected = seen;
    return same;
  }
};
#endif

struct atomic_add {
  template <class T> static T of(T a, T b) { return a + b; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_add(p, b, __ATOMIC_RELAXED); }
};
struct atomic_sub {
  template <class T> static T of(T a, T b) { return a - b; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_sub(p, b, __ATOMIC_RELAXED); }
};
struct atomic_and {
  template <class T> static T of(T a, T b) { return a & b; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_and(p, b, __ATOMIC_RELAXED); }
};
struct atomic_or {
  template <class T> static T of(T a, T b) { return a | b; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_or(p, b, __ATOMIC_RELAXED); }
};
struct atomic_xor {
  template <class T> static T of(T a, T b) { return a ^ b; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_xor(p, b, __ATOMIC_RELAXED); }
};
struct atomic_min {
  template <class T> static T of(T a, T b) { return b < a ? b : a; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_min(p, b, __ATOMIC_RELAXED); }
};
struct atomic_max {
  template <class T> static T of(T a, T b) { return a < b ? b : a; }
  template <class P, class T> static T at(P p, T b) { return __atomic_fetch_max(p, b, __ATOMIC_RELAXED); }
};

template <class Access, class Op, class T, class P> SOFT_LANE_FN T update(P place, T operand) {
  typedef bits_of<T> bits;
#if SOFT_ENGINE == 2
  // One instruction for each lane, where a loop would go round until the last of them had its turn.
  if constexpr (!__is_same(T, float) || __is_same(Op, atomic_add) || __is_same(Op, atomic_sub))
    return Op::at((volatile T *)place, operand);
#endif
  if constexpr (__is_same(Access, shared_access) && __is_same(Op, atomic_add) && !__is_same(T, float))
    return __builtin_bit_cast(T, __atomic_fetch_add(place, __builtin_bit_cast(bits, operand), __ATOMIC_RELAXED));
  bits seen = Access::load(place);
  for (;;) {
    T old = __builtin_bit_cast(T, seen);
    T changed = Op::of(old, operand);
    if (Access::replace(place, seen, __builtin_bit_cast(bits, changed))) return old;
  }
}

}  // namespace soft

namespace soft {
// Arithmetic is for integers of 32 bits, and sums of floating-point numbers for device memory.
template <class T, class Op, bool Device> struct fetches
    : metal::bool_constant<(sizeof(T) == 4 && metal::is_integral<T>::value) ||
                           (Device && metal::is_same<T, float>::value &&
                            (__is_same(Op, atomic_add) || __is_same(Op, atomic_sub)))> {};
template <class T, class Op, bool Device> using if_fetches = metal::enable_if_t<fetches<T, Op, Device>::value, int>;
// A number of 64 bits has its smaller or larger value stored, and nothing else; atomic_float is for device memory.
template <class T, bool Device>
using if_plain_atomic = metal::enable_if_t<sizeof(T) <= 4 && (Device || !metal::is_same<T, float>::value), int>;
}  // namespace soft

namespace metal {

#define SOFT_RELAXED(order)                                                                                           \
  __attribute__((diagnose_if(order != memory_order_relaxed,                                                           \
                             "atomic operations take memory_order_relaxed only", "error")))
#define SOFT_ATOMICS(space, access, device)                                                                                   \
  template <class T, soft::if_plain_atomic<T, device> = 0>                                                            \
  SOFT_LANE_FN T atomic_load_explicit(const volatile space atomic<T> *object, memory_order order) SOFT_RELAXED(order) {\
    return __builtin_bit_cast(T, soft::access::load((volatile space soft::bits_of<T> *)object));                      \
  }                                                                                                                   \
  template <class T, soft::if_plain_atomic<T, device> = 0>                                                            \
  SOFT_LANE_FN void atomic_store_explicit(volatile space atomic<T> *object, type_identity_t<T> desired,               \
                                          memory_order order) SOFT_RELAXED(order) {                                   \
    soft::access::store((volatile space soft::bits_of<T> *)object, __builtin_bit_cast(soft::bits_of<T>, desired));    \
  }                                                                                                                   \
  template <class T, soft::if_plain_atomic<T, device> = 0>                                                            \
  SOFT_LANE_FN T atomic_exchange_explicit(volatile space atomic<T> *object, type_identity_t<T> desired,               \
                                          memory_order order) SOFT_RELAXED(order) {                                   \
    typedef soft::bits_of<T> bits;                                                                                    \
    bits old = soft::access::exchange((volatile space bits *)object, __builtin_bit_cast(bits, desired));              \
    return __builtin_bit_cast(T, old); \
  }                                                                                                                   \
  template <class T, soft::if_plain_atomic<T, device> = 0>                                                            \
  SOFT_LANE_FN bool atomic_compare_exchange_weak_explicit(volatile space atomic<T> *object, __private T *expected,    \
                                                          type_identity_t<T> desired, memory_order success,           \
                                                          memory_order failure)                                       \
      SOFT_RELAXED(success) SOFT_RELAXED(failure) {                                                                   \
    typedef soft::bits_of<T> bits;                                                                                    \
    bits seen = __builtin_bit_cast(bits, *expected);                                                                  \
    bool done = soft::access::replace((volatile space bits *)object, seen, __builtin_bit_cast(bits, desired));        \
    *expected = __builtin_bit_cast(T, seen);                                                                          \
    return done;                                                                                                      \
  }                                                                                                                   \
  SOFT_ATOMIC_FETCH(add, space, access, device)                                                                               \
  SOFT_ATOMIC_FETCH(sub, space, access, device)                                                                               \
  SOFT_ATOMIC_FETCH(and, space, access, device)                                                                               \
  SOFT_ATOMIC_FETCH(or, space, access, device)                                                                                \
  SOFT_ATOMIC_FETCH(xor, space, access, device)                                                                               \
  SOFT_ATOMIC_FETCH(min, space, access, device)                                                                               \
  SOFT_ATOMIC_FETCH(max, space, access, device)
#define SOFT_ATOMIC_FETCH(name, space, access, device)                                                                        \
  template <class T, soft::if_fetches<T, soft::atomic_##name, device> = 0>                                                    \
  SOFT_LANE_FN T atomic_fetch_##name##_explicit(volatile space atomic<T> *object, type_identity_t<T> operand,         \
                                                memory_order order) SOFT_RELAXED(order) {                             \
    return soft::update<soft::access, soft::atomic_##name, T>((volatile space soft::bits_of<T> *)object, operand);    \
  }
SOFT_ATOMICS(__attribute__((opencl_global_device)), shared_access, true)
SOFT_ATOMICS(__local, private_access, false)
#undef SOFT_ATOMICS
#undef SOFT_ATOMIC_FETCH

#define SOFT_ATOMIC_ULONG(name)                                                                                       \
  SOFT_LANE_FN void atomic_##name##_explicit(volatile __attribute__((opencl_global_device)) atomic_ulong *object,     \
                                             ulong operand, memory_order order) SOFT_RELAXED(order) {                 \
    typedef volatile __attribute__((opencl_global_device)) ulong *place;                                              \
    soft::update<soft::shared_access, soft::atomic_##name, ulong>((place)object, operand);                            \
  }
SOFT_ATOMIC_ULONG(min)
SOFT_ATOMIC_ULONG(max)
#undef SOFT_ATOMIC_ULONG
#undef SOFT_RELAXED

}  // namespace metal
