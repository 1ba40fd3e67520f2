// Reductions and scans over the inbox, run once for a whole simdgroup. Groups of Width lanes are folded separately.
#pragma once
#include "soft_meet.h"
#include "soft_vector.h"

namespace soft {

// The form in which a scalar is summed, and the compiler's vectors of it. Small floats are rounded once, at the end.
template <class T> struct folded {
  typedef T type;
};
template <> struct folded<half> {
  typedef float type;
};
template <> struct folded<metal::bfloat> {
  typedef float type;
};
template <> struct folded<bool> {
  typedef uchar type;
};
template <class T> using folded_t = typename folded<T>::type;
template <class T> using sixteen = T __attribute__((ext_vector_type(16)));
// Sixteen wherever they lie.
template <class T> struct __attribute__((packed)) unaligned {
  sixteen<T> values;
};

// A vector as scalars in a row; vec3 has room for four.
template <class T> struct row {
  typedef T scalar;
  static constexpr uint size = 1;
};
template <class T, int N> struct row<metal::vec<T, N>> {
  typedef T scalar;
  static constexpr uint size = N == 3 ? 4 : N;
};

#define SOFT_FOLD(name, expression)                                                       \
  struct name {                                                                           \
    template <class V> static __attribute__((always_inline)) V of(V a, V b) { return expression; } \
  };
SOFT_FOLD(fold_sum, a + b)
SOFT_FOLD(fold_product, a *b)
SOFT_FOLD(fold_min, __builtin_elementwise_min(a, b))
SOFT_FOLD(fold_max, __builtin_elementwise_max(a, b))
SOFT_FOLD(fold_and, a &b)
SOFT_FOLD(fold_or, a | b)
SOFT_FOLD(fold_xor, a ^ b)
#undef SOFT_FOLD

template <class T> SOFT_LANE_FN sixteen<folded_t<T>> load_sixteen(const T *p) {
  if constexpr (__is_same(T, half)) {
    return __builtin_convertvector(((const unaligned<half> *)p)->values, sixteen<float>);
  } else if constexpr (__is_same(T, metal::bfloat)) {
    sixteen<uint> bits = __builtin_convertvector(((const unaligned<ushort> *)p)->values, sixteen<uint>);
    return __builtin_bit_cast(sixteen<float>, bits << 16u);
  } else {
    return ((const unaligned<folded_t<T>> *)p)->values;
  }
}

// All lanes, one scalar each: halves against halves.
template <class Op, class T> SOFT_LANE_FN T fold_whole(const T *values) {
  auto sixteen = Op::of(load_sixteen<T>(values), load_sixteen<T>(values + 16));
  auto eight = Op::of(sixteen.lo, sixteen.hi);
  auto four = Op::of(eight.lo, eight.hi);
  auto pair = Op::of(four.lo, four.hi);
  return T(Op::of(pair.x, pair.y));
}

// The lanes from `first` that take part, in order.
template <class Op, class T, uint Width>
SOFT_LANE_FN void fold_some(const T *values, T *result, uint first, uint active) {
  constexpr uint N = row<T>::size;
  typedef typename row<T>::scalar scalar;
  const scalar *in = (const scalar *)values;
  folded_t<scalar> sum[N];
  bool begun = false;
  for (uint lane = first; lane < first + Width; lane++) {
    if (!(active >> lane & 1)) continue;
    for (uint i = 0; i < N; i++) {
      folded_t<scalar> next = in[lane * N + i];
      sum[i] = begun ? (folded_t<scalar>)Op::of(sum[i], next) : next;
    }
    begun = true;
  }
  for (uint i = 0; begun && i < N; i++) ((scalar *)result)[i] = scalar(sum[i]);
}

template <class Op, class T, uint Width> void fold(const char *inbox, char *outbox, uint active) {
  const T *values = (const T *)(inbox + inbox_of<T>);
  T *results = (T *)outbox;
  if constexpr (Width == SOFT_WIDTH && row<T>::size == 1) {
    if (active == ~0u) {
      results[0] = fold_whole<Op, T>(values);
      return;
    }
  }
  for (uint first = 0; first < SOFT_WIDTH; first += Width)
    fold_some<Op, T, Width>(values, results + first / Width, first, active);
}

#if SOFT_ENGINE == 2
// The reductions that the engine makes itself, of floats and of integers up to 32 bits.
template <class Op> struct lanes_fold_real {
  static constexpr bool known = false;
};
template <class Op> struct lanes_fold_whole {
  static constexpr bool known = false;
};
#define SOFT_REAL(name)                                                                                      \
  template <> struct lanes_fold_real<fold_##name> {                                                          \
    static constexpr bool known = true;                                                                      \
    static __attribute__((always_inline)) float of(float value) { return __lane_##name##_f32(value); }       \
  };
#define SOFT_WHOLE(name, signed_name, unsigned_name)                                                         \
  template <> struct lanes_fold_whole<fold_##name> {                                                         \
    static constexpr bool known = true;                                                                      \
    static __attribute__((always_inline)) int of(int value) { return __lane_##signed_name##_i32(value); }    \
    static __attribute__((always_inline)) uint of(uint value) { return __lane_##unsigned_name##_i32(value); } \
  };
SOFT_REAL(sum)
SOFT_REAL(min)
SOFT_REAL(max)
SOFT_WHOLE(sum, sum, sum)
SOFT_WHOLE(min, min, umin)
SOFT_WHOLE(max, max, umax)
SOFT_WHOLE(and, and, and)
SOFT_WHOLE(or, or, or)
SOFT_WHOLE(xor, xor, xor)
#undef SOFT_REAL
#undef SOFT_WHOLE
template <class T> constexpr bool is_short_integer = soft::whole_number<T> && sizeof(T) <= 4;
#endif

template <class Op, uint Width, class T> SOFT_LANE_FN T reduce(T value, mark at) {
#if SOFT_ENGINE == 2
  if constexpr (Width == SOFT_WIDTH && __is_same(folded_t<T>, float) && lanes_fold_real<Op>::known) {
    return T(lanes_fold_real<Op>::of(float(value)));
  } else if constexpr (Width == SOFT_WIDTH && is_short_integer<T> && lanes_fold_whole<Op>::known) {
    typedef metal::conditional_t<metal::is_signed<T>::value, int, uint> word;
    return T(lanes_fold_whole<Op>::of(word(value)));
  }
#endif
  lane_t lane = self();
  const char *outbox = exchange(lane, value, fold<Op, T, Width>, at);
  return take<T>((const T *)outbox + lane_number(lane) / Width);
}

// Running totals over the lanes that take part; exclusive ones begin with `Start`.
template <class Op, class T, uint Width, bool Inclusive, int Start>
void scan(const char *inbox, char *outbox, uint active) {
  constexpr uint N = row<T>::size;
  typedef typename row<T>::scalar scalar;
  const scalar *in = (const scalar *)(inbox + inbox_of<T>);
  scalar *out = (scalar *)outbox;
  folded_t<scalar> sum[N];
  for (uint lane = 0; lane < SOFT_WIDTH; lane++) {
    for (uint i = 0; lane % Width == 0 && i < N; i++) sum[i] = folded_t<scalar>(Start);
    if (!(active >> lane & 1)) continue;
    for (uint i = 0; i < N; i++) {
      folded_t<scalar> before = sum[i];
      sum[i] = Op::of(before, (folded_t<scalar>)in[lane * N + i]);
      out[lane * N + i] = scalar(Inclusive ? sum[i] : before);
    }
  }
}

template <class Op, uint Width, bool Inclusive, int Start, class T> SOFT_LANE_FN T prefix(T value, mark at) {
  lane_t lane = self();
  const char *outbox = exchange(lane, value, scan<Op, T, Width, Inclusive, Start>, at);
  return take<T>((const T *)outbox + lane_number(lane));
}

// One bit for each lane that takes part and says true.
SOFT_LANE_FN void gather_bits(const char *inbox, char *outbox, uint active) {
  const char *said = inbox + inbox_of<bool>;
  uint bits = 0;
  for (uint lane = 0; lane < SOFT_WIDTH; lane++) bits |= uint(said[lane] & 1) << lane;
  ((uint *)outbox)[0] = bits & active;
  ((uint *)outbox)[1] = active;
}

struct votes {
  uint said, active;
};
#if SOFT_ENGINE == 2
SOFT_LANE_FN votes vote(bool value, mark) {
  return {__lane_ballot(value), __lane_active()};
}
#else
SOFT_LANE_FN votes vote(bool value, mark at) {
  return take<votes>((const votes *)exchange(self(), value, gather_bits, at));
}
#endif

}  // namespace soft
