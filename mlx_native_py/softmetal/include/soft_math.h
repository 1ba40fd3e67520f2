// metal_math and metal_common: float, half and vector overloads in metal, metal::fast and metal::precise.
#pragma once
#include "soft_math_core.h"

namespace soft {
template <class T> using if_bfloat = metal::enable_if_t<metal::is_same<T, metal::bfloat>::value, int>;
}  // namespace soft

namespace metal {
#define SOFT_MATH1(name)                                                                                      \
  SOFT_INLINE float name(float x) { return soft::math::name(x); }                                             \
  SOFT_INLINE half name(half x) { return half(soft::math::name(float(x))); }                                  \
  template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE V name(A x) {                              \
    return soft::narrow<V>(soft::math::name(soft::widen(V(x))));                                              \
  }
#define SOFT_MATH2_AS(name, core)                                                                             \
  SOFT_INLINE float name(float x, float y) { return soft::math::core(x, y); }                                 \
  SOFT_INLINE half name(half x, half y) { return half(soft::math::core(float(x), float(y))); }                \
  template <class A, class B, class V = soft::real_vector_t<A, B>> SOFT_INLINE V name(A x, B y) {             \
    return soft::narrow<V>(soft::math::core(soft::widen(V(x)), soft::widen(V(y))));                           \
  }
#define SOFT_MATH3_AS(name, core)                                                                             \
  SOFT_INLINE float name(float x, float y, float z) { return soft::math::core(x, y, z); }                     \
  SOFT_INLINE half name(half x, half y, half z) {                                                             \
    return half(soft::math::core(float(x), float(y), float(z)));                                              \
  }                                                                                                           \
  template <class A, class B, class C, class V = soft::real_vector_t<A, B, C>>                                \
  SOFT_INLINE V name(A x, B y, C z) {                                                                         \
    return soft::narrow<V>(soft::math::core(soft::widen(V(x)), soft::widen(V(y)), soft::widen(V(z))));        \
  }
#define SOFT_MATH2(name) SOFT_MATH2_AS(name, name)
#define SOFT_MATH3(name) SOFT_MATH3_AS(name, name)

SOFT_MATH1(acos)
SOFT_MATH1(acosh)
SOFT_MATH1(asin)
SOFT_MATH1(asinh)
SOFT_MATH1(atan)
SOFT_MATH1(atanh)
SOFT_MATH1(ceil)
SOFT_MATH1(cos)
SOFT_MATH1(cosh)
SOFT_MATH1(cospi)
SOFT_MATH1(exp)
SOFT_MATH1(exp2)
SOFT_MATH1(exp10)
SOFT_MATH1(fabs)
SOFT_MATH1(floor)
SOFT_MATH1(log)
SOFT_MATH1(log2)
SOFT_MATH1(log10)
SOFT_MATH1(rint)
SOFT_MATH1(round)
SOFT_MATH1(rsqrt)
SOFT_MATH1(saturate)
SOFT_MATH1(sign)
SOFT_MATH1(sin)
SOFT_MATH1(sinh)
SOFT_MATH1(sinpi)
SOFT_MATH1(sqrt)
SOFT_MATH1(tan)
SOFT_MATH1(tanh)
SOFT_MATH1(tanpi)
SOFT_MATH1(trunc)
SOFT_MATH2(atan2)
SOFT_MATH2(copysign)
SOFT_MATH2(divide)
SOFT_MATH2(fdim)
SOFT_MATH2(fmax)
SOFT_MATH2(fmin)
SOFT_MATH2(fmod)
SOFT_MATH2(pow)
SOFT_MATH2(powr)
SOFT_MATH2(step)
SOFT_MATH3(fma)
SOFT_MATH3(fmax3)
SOFT_MATH3(fmedian3)
SOFT_MATH3(fmin3)
SOFT_MATH3(mix)
SOFT_MATH3(smoothstep)
// Integer overloads of these stand in soft_integer.h, so that a bfloat could become either kind of number.
#define SOFT_NO_BFLOAT(name, ...) template <class B, soft::if_bfloat<B> = 0> void name(__VA_ARGS__) = delete;
SOFT_NO_BFLOAT(abs, B)
SOFT_NO_BFLOAT(max, B, B)
SOFT_NO_BFLOAT(min, B, B)
SOFT_NO_BFLOAT(clamp, B, B, B)
SOFT_NO_BFLOAT(max3, B, B, B)
SOFT_NO_BFLOAT(median3, B, B, B)
SOFT_NO_BFLOAT(min3, B, B, B)
#undef SOFT_NO_BFLOAT
SOFT_MATH1(abs)
SOFT_MATH2_AS(max, fmax)
SOFT_MATH2_AS(min, fmin)
SOFT_MATH3_AS(clamp, clamp)
SOFT_MATH3_AS(max3, fmax3)
SOFT_MATH3_AS(median3, fmedian3)
SOFT_MATH3_AS(min3, fmin3)
#undef SOFT_MATH1
#undef SOFT_MATH2
#undef SOFT_MATH3
#undef SOFT_MATH2_AS
#undef SOFT_MATH3_AS

// These look at the bits of the type itself, so half is not computed as float.
SOFT_INLINE float fract(float x) { return soft::math::fract(x, 0x1.fffffep-1f); }
SOFT_INLINE half fract(half x) { return half(soft::math::fract(float(x), 0x1.ffcp-1f)); }
template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE V fract(A x) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([](T a) { return fract(a); }, V(x));
}
SOFT_INLINE float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }
SOFT_INLINE half nextafter(half x, half y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  short bits = as_type<short>(x);
  if (x == 0) return as_type<half>(short(y > x ? 1 : short(0x8001)));
  return as_type<half>(short(bits + ((y > x) == (bits >= 0) ? 1 : -1)));
}
template <class A, class B, class V = soft::real_vector_t<A, B>> SOFT_INLINE V nextafter(A x, B y) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([](T a, T b) { return nextafter(a, b); }, V(x), V(y));
}

SOFT_INLINE int ilogb(float x) { return __builtin_ilogbf(x); }
SOFT_INLINE int ilogb(half x) { return __builtin_ilogbf(float(x)); }
template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE soft::ints_t<V> ilogb(A x) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<soft::ints_t<V>>([](T a) { return ilogb(a); }, V(x));
}
SOFT_INLINE float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
SOFT_INLINE half ldexp(half x, int k) { return half(__builtin_ldexpf(float(x), k)); }
template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE V ldexp(A x, soft::ints_t<V> k) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([](T a, int b) { return ldexp(a, b); }, V(x), k);
}

SOFT_INLINE float frexp(float x, SOFT_THREAD int &exponent) {
  int e = 0;
  float fraction = __builtin_frexpf(x, &e);
  exponent = x - x == 0 ? e : 0;
  return fraction;
}
SOFT_INLINE half frexp(half x, SOFT_THREAD int &exponent) { return half(frexp(float(x), exponent)); }
SOFT_INLINE float modf(float x, SOFT_THREAD float &whole) {
  whole = soft::math::trunc(x);
  return soft::math::copysign(soft::math::fabs(x) == __builtin_inff() ? 0.0f : x - whole, x);
}
SOFT_INLINE half modf(half x, SOFT_THREAD half &whole) {
  float part;
  half fraction = half(modf(float(x), part));
  whole = half(part);
  return fraction;
}
SOFT_INLINE float sincos(float x, SOFT_THREAD float &cosine) {
  cosine = soft::math::cos(x);
  return soft::math::sin(x);
}
SOFT_INLINE half sincos(half x, SOFT_THREAD half &cosine) {
  cosine = half(soft::math::cos(float(x)));
  return half(soft::math::sin(float(x)));
}
#define SOFT_MATH_OUT(name, Out)                                                                              \
  template <class T, int N, class V = soft::real_vector_t<vec<T, N>>>                                         \
  SOFT_INLINE V name(vec<T, N> x, SOFT_THREAD vec<Out, N> &out) {                                             \
    V result;                                                                                                 \
    for (int i = 0; i < N; i++) {                                                                             \
      Out part;                                                                                               \
      result.put(i, name(x.at(i), part));                                                                     \
      out.put(i, part);                                                                                       \
    }                                                                                                         \
    return result;                                                                                            \
  }
SOFT_MATH_OUT(frexp, int)
SOFT_MATH_OUT(modf, T)
SOFT_MATH_OUT(sincos, T)
#undef SOFT_MATH_OUT
}  // namespace metal
