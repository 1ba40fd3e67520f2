// Names with two underscores that programs take from Apple's own headers.
#pragma once
#include "soft_fast_precise.h"
#include "soft_relational.h"
#include "soft_simd.h"

// The last argument chooses between fast and precise mathematics, which are one here.
#define SOFT_INTERNAL1(name)                                                                                  \
  template <class T> SOFT_INLINE T __metal_##name(T x, int = 0) { return metal::name(x); }
#define SOFT_INTERNAL2(name)                                                                                  \
  template <class T> SOFT_INLINE T __metal_##name(T x, T y, int = 0) { return metal::name(x, y); }
#define SOFT_INTERNAL3(name)                                                                                  \
  template <class T> SOFT_INLINE T __metal_##name(T x, T y, T z, int = 0) { return metal::name(x, y, z); }
SOFT_INTERNAL1(acos)
SOFT_INTERNAL1(acosh)
SOFT_INTERNAL1(asin)
SOFT_INTERNAL1(asinh)
SOFT_INTERNAL1(atan)
SOFT_INTERNAL1(atanh)
SOFT_INTERNAL1(ceil)
SOFT_INTERNAL1(cos)
SOFT_INTERNAL1(cosh)
SOFT_INTERNAL1(cospi)
SOFT_INTERNAL1(exp)
SOFT_INTERNAL1(exp10)
SOFT_INTERNAL1(exp2)
SOFT_INTERNAL1(fabs)
SOFT_INTERNAL1(floor)
SOFT_INTERNAL1(fract)
SOFT_INTERNAL1(log)
SOFT_INTERNAL1(log10)
SOFT_INTERNAL1(log2)
SOFT_INTERNAL1(rint)
SOFT_INTERNAL1(round)
SOFT_INTERNAL1(rsqrt)
SOFT_INTERNAL1(sin)
SOFT_INTERNAL1(sinh)
SOFT_INTERNAL1(sinpi)
SOFT_INTERNAL1(sqrt)
SOFT_INTERNAL1(tan)
SOFT_INTERNAL1(tanh)
SOFT_INTERNAL1(tanpi)
SOFT_INTERNAL1(trunc)
SOFT_INTERNAL2(atan2)
SOFT_INTERNAL2(copysign)
SOFT_INTERNAL2(divide)
SOFT_INTERNAL2(fmax)
SOFT_INTERNAL2(fmin)
SOFT_INTERNAL2(fmod)
SOFT_INTERNAL2(nextafter)
SOFT_INTERNAL2(pow)
SOFT_INTERNAL2(powr)
SOFT_INTERNAL3(fma)
SOFT_INTERNAL3(fmax3)
SOFT_INTERNAL3(fmedian3)
SOFT_INTERNAL3(fmin3)
#undef SOFT_INTERNAL1
#undef SOFT_INTERNAL2
#undef SOFT_INTERNAL3
template <class T, class E> SOFT_INLINE T __metal_frexp(T x, SOFT_THREAD E *exponent) {
  return metal::frexp(x, *exponent);
}
template <class T, class E> SOFT_INLINE T __metal_ldexp(T x, E k, int = 0) { return metal::ldexp(x, k); }

SOFT_FN ushort __metal_get_simdgroup_size(ushort) { return SOFT_WIDTH; }
SOFT_INLINE ushort __metal_get_thread_index_in_simdgroup(ushort) { return ushort(soft::own_lane()); }
#define SOFT_INTERNAL_SIMD(name)                                                                              \
  template <class... A> SOFT_INLINE auto __metal_##name(A... a) { return metal::name(a...); }
SOFT_INTERNAL_SIMD(simd_broadcast)
SOFT_INTERNAL_SIMD(simd_max)
SOFT_INTERNAL_SIMD(simd_min)
SOFT_INTERNAL_SIMD(simd_prefix_exclusive_product)
SOFT_INTERNAL_SIMD(simd_prefix_exclusive_sum)
SOFT_INTERNAL_SIMD(simd_prefix_inclusive_product)
SOFT_INTERNAL_SIMD(simd_prefix_inclusive_sum)
SOFT_INTERNAL_SIMD(simd_product)
SOFT_INTERNAL_SIMD(simd_shuffle)
SOFT_INTERNAL_SIMD(simd_shuffle_and_fill_down)
SOFT_INTERNAL_SIMD(simd_shuffle_and_fill_up)
SOFT_INTERNAL_SIMD(simd_shuffle_down)
SOFT_INTERNAL_SIMD(simd_shuffle_rotate_down)
SOFT_INTERNAL_SIMD(simd_shuffle_rotate_up)
SOFT_INTERNAL_SIMD(simd_shuffle_up)
SOFT_INTERNAL_SIMD(simd_shuffle_xor)
SOFT_INTERNAL_SIMD(simd_sum)
#undef SOFT_INTERNAL_SIMD
// Bitwise reductions take floating-point values by their bits.
#define SOFT_INTERNAL_BITS(name)                                                                              \
  template <class T> SOFT_INLINE T __metal_##name(T x) {                                                      \
    if constexpr (metal::is_floating_point<T>::value)                                                         \
      return as_type<T>(metal::name(as_type<typename soft::mask_of<sizeof(T)>::type>(x)));                    \
    else                                                                                                      \
      return metal::name(x);                                                                                  \
  }
SOFT_INTERNAL_BITS(simd_and)
SOFT_INTERNAL_BITS(simd_or)
SOFT_INTERNAL_BITS(simd_xor)
#undef SOFT_INTERNAL_BITS
