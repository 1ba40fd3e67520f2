// metal::fast and metal::precise: for float alone. Both are the ordinary functions, which meet the precise bounds.
#pragma once
#include "soft_geometric.h"

#define SOFT_SINGLE1(name)                                                                                    \
  SOFT_INLINE float name(float x) { return metal::name(x); }                                                  \
  template <class A, class V = soft::float_vector_t<A>> SOFT_INLINE V name(A x) { return metal::name(V(x)); }
#define SOFT_SINGLE2(name)                                                                                    \
  SOFT_INLINE float name(float x, float y) { return metal::name(x, y); }                                      \
  template <class A, class B, class V = soft::float_vector_t<A, B>> SOFT_INLINE V name(A x, B y) {            \
    return metal::name(V(x), V(y));                                                                           \
  }
#define SOFT_SINGLE3(name)                                                                                    \
  SOFT_INLINE float name(float x, float y, float z) { return metal::name(x, y, z); }                          \
  template <class A, class B, class C, class V = soft::float_vector_t<A, B, C>>                               \
  SOFT_INLINE V name(A x, B y, C z) {                                                                         \
    return metal::name(V(x), V(y), V(z));                                                                     \
  }
#define SOFT_SINGLE_OUT(name, Out)                                                                            \
  SOFT_INLINE float name(float x, SOFT_THREAD Out &out) { return metal::name(x, out); }                       \
  template <int N> SOFT_INLINE vec<float, N> name(vec<float, N> x, SOFT_THREAD vec<Out, N> &out) {            \
    return metal::name(x, out);                                                                               \
  }
#define SOFT_SINGLES                                                                                          \
  SOFT_SINGLE1(abs) SOFT_SINGLE1(acos) SOFT_SINGLE1(acosh) SOFT_SINGLE1(asin) SOFT_SINGLE1(asinh)             \
  SOFT_SINGLE1(atan) SOFT_SINGLE1(atanh) SOFT_SINGLE1(ceil) SOFT_SINGLE1(cos) SOFT_SINGLE1(cosh)              \
  SOFT_SINGLE1(cospi) SOFT_SINGLE1(exp) SOFT_SINGLE1(exp10) SOFT_SINGLE1(exp2) SOFT_SINGLE1(fabs)             \
  SOFT_SINGLE1(floor) SOFT_SINGLE1(fract) SOFT_SINGLE1(log) SOFT_SINGLE1(log10) SOFT_SINGLE1(log2)            \
  SOFT_SINGLE1(rint) SOFT_SINGLE1(round) SOFT_SINGLE1(rsqrt) SOFT_SINGLE1(saturate) SOFT_SINGLE1(sign)        \
  SOFT_SINGLE1(sin) SOFT_SINGLE1(sinh) SOFT_SINGLE1(sinpi) SOFT_SINGLE1(sqrt) SOFT_SINGLE1(tan)               \
  SOFT_SINGLE1(tanh) SOFT_SINGLE1(tanpi) SOFT_SINGLE1(trunc)                                                  \
  SOFT_SINGLE2(atan2) SOFT_SINGLE2(copysign) SOFT_SINGLE2(divide) SOFT_SINGLE2(fdim) SOFT_SINGLE2(fmax)       \
  SOFT_SINGLE2(fmin) SOFT_SINGLE2(fmod) SOFT_SINGLE2(max) SOFT_SINGLE2(min) SOFT_SINGLE2(nextafter)           \
  SOFT_SINGLE2(pow) SOFT_SINGLE2(powr) SOFT_SINGLE2(step)                                                     \
  SOFT_SINGLE3(clamp) SOFT_SINGLE3(fma) SOFT_SINGLE3(fmax3) SOFT_SINGLE3(fmedian3) SOFT_SINGLE3(fmin3)        \
  SOFT_SINGLE3(max3) SOFT_SINGLE3(median3) SOFT_SINGLE3(min3) SOFT_SINGLE3(mix) SOFT_SINGLE3(smoothstep)      \
  SOFT_SINGLE_OUT(frexp, int) SOFT_SINGLE_OUT(modf, float) SOFT_SINGLE_OUT(sincos, float)                     \
  SOFT_INLINE int ilogb(float x) { return metal::ilogb(x); }                                                  \
  SOFT_INLINE float ldexp(float x, int k) { return metal::ldexp(x, k); }                                      \
  template <class A, class V = soft::float_vector_t<A>> SOFT_INLINE soft::ints_t<V> ilogb(A x) {              \
    return metal::ilogb(V(x));                                                                                \
  }                                                                                                           \
  template <class A, class V = soft::float_vector_t<A>> SOFT_INLINE V ldexp(A x, soft::ints_t<V> k) {         \
    return metal::ldexp(V(x), k);                                                                             \
  }                                                                                                           \
  template <class A, class V = soft::float_vector_t<A>> SOFT_INLINE float length(A x) {                       \
    return metal::length(V(x));                                                                               \
  }                                                                                                           \
  template <class A, class B, class V = soft::float_vector_t<A, B>> SOFT_INLINE float distance(A x, B y) {    \
    return metal::distance(V(x), V(y));                                                                       \
  }                                                                                                           \
  template <class A, class V = soft::float_vector_t<A>> SOFT_INLINE V normalize(A x) {                        \
    return metal::normalize(V(x));                                                                            \
  }

namespace metal {
namespace fast {
SOFT_SINGLES
}
namespace precise {
SOFT_SINGLES
}
}  // namespace metal
#undef SOFT_SINGLE1
#undef SOFT_SINGLE2
#undef SOFT_SINGLE3
#undef SOFT_SINGLE_OUT
#undef SOFT_SINGLES
