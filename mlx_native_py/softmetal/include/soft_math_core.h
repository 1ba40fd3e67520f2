// The formulas behind metal_math, written once for float and for the compiler's float vectors.
#pragma once
#include "soft_elementary.h"

namespace soft {
namespace math {
#define SOFT_CORE1(name, builtin)                                                                             \
  template <class V> SOFT_FN V name(V x) { return builtin(x); }
#define SOFT_CORE2(name, builtin)                                                                             \
  template <class V> SOFT_FN V name(V x, V y) { return builtin(x, y); }
#define SOFT_LANE1(name, builtin)                                                                             \
  template <class V> SOFT_INLINE V name(V x) {                                                                \
    return each([](float a) { return builtin(a); }, x);                                                       \
  }
SOFT_CORE1(abs, __builtin_elementwise_abs)
SOFT_CORE1(acos, __builtin_elementwise_acos)
SOFT_CORE1(asin, __builtin_elementwise_asin)
SOFT_CORE1(atan, __builtin_elementwise_atan)
SOFT_CORE1(ceil, __builtin_elementwise_ceil)
SOFT_CORE1(cosh, __builtin_elementwise_cosh)
SOFT_CORE1(fabs, __builtin_elementwise_abs)
SOFT_CORE1(floor, __builtin_elementwise_floor)
SOFT_CORE1(rint, __builtin_elementwise_roundeven)
SOFT_CORE1(round, __builtin_elementwise_round)
SOFT_CORE1(sinh, __builtin_elementwise_sinh)
SOFT_CORE1(sqrt, __builtin_elementwise_sqrt)
SOFT_CORE1(tan, __builtin_elementwise_tan)
SOFT_CORE1(trunc, __builtin_elementwise_trunc)
SOFT_CORE2(atan2, __builtin_elementwise_atan2)
SOFT_CORE2(copysign, __builtin_elementwise_copysign)
SOFT_CORE2(fmax, __builtin_elementwise_maxnum)
SOFT_CORE2(fmin, __builtin_elementwise_minnum)
SOFT_CORE2(fmod, __builtin_elementwise_fmod)
SOFT_LANE1(acosh, __builtin_acoshf)
SOFT_LANE1(asinh, __builtin_asinhf)
SOFT_LANE1(atanh, __builtin_atanhf)
SOFT_LANE1(cos, elementary::cos)
SOFT_LANE1(exp, elementary::exp)
SOFT_LANE1(exp2, elementary::exp2)
SOFT_LANE1(exp10, elementary::exp10)
SOFT_LANE1(log, elementary::log)
SOFT_LANE1(log2, elementary::log2)
SOFT_LANE1(log10, elementary::log10)
SOFT_LANE1(sin, elementary::sin)
SOFT_LANE1(tanh, elementary::tanh)
template <class V> SOFT_INLINE V pow(V x, V y) {
  return each([](float a, float b) { return elementary::pow(a, b); }, x, y);
}
#undef SOFT_CORE1
#undef SOFT_CORE2
#undef SOFT_LANE1

template <class V> SOFT_FN V divide(V x, V y) { return x / y; }
template <class V> SOFT_FN V rsqrt(V x) { return 1.0f / sqrt(x); }
template <class V> SOFT_FN V fma(V x, V y, V z) { return __builtin_elementwise_fma(x, y, z); }
template <class V> SOFT_FN V fdim(V x, V y) { return x != x || y != y ? x + y : (x > y ? x - y : (V)0.0f); }
template <class V> SOFT_FN V fmax3(V x, V y, V z) { return fmax(x, fmax(y, z)); }
template <class V> SOFT_FN V fmin3(V x, V y, V z) { return fmin(x, fmin(y, z)); }
template <class V> SOFT_FN V fmedian3(V x, V y, V z) { return fmax(fmin(x, y), fmin(fmax(x, y), z)); }
template <class V> SOFT_FN V clamp(V x, V low, V high) { return fmin(fmax(x, low), high); }
template <class V> SOFT_FN V saturate(V x) { return clamp(x, (V)0.0f, (V)1.0f); }
template <class V> SOFT_FN V mix(V x, V y, V a) { return x + (y - x) * a; }
template <class V> SOFT_FN V step(V edge, V x) { return x < edge ? (V)0.0f : (V)1.0f; }
template <class V> SOFT_FN V sign(V x) { return x > 0.0f ? (V)1.0f : (x < 0.0f ? (V)-1.0f : (x != x ? (V)0.0f : x)); }
template <class V> SOFT_FN V smoothstep(V low, V high, V x) {
  V t = saturate((x - low) / (high - low));
  return t * t * (3.0f - 2.0f * t);
}
// The limit is the greatest value below one: the difference of a tiny negative x to its floor rounds up to one.
SOFT_FN float fract(float x, float limit) {
  float part = fmin(x - floor(x), limit);
  return fabs(x) == __builtin_inff() ? 0.0f : (x != x ? x : part);
}
template <class V> SOFT_INLINE V powr(V x, V y) { return x < 0.0f ? (V)__builtin_nanf("") : pow(x, y); }
// Quarter turns are taken off exactly, so that only |r| <= 1/4 is multiplied by pi.
template <class V> struct half_turns {
  V sine, cosine;
};
template <class V> SOFT_FN half_turns<V> turn(V x) {
#pragma clang fp reassociate(off) contract(off)
  V r = x - 2.0f * rint(x * 0.5f);
  V n = rint(2.0f * r);
  V angle = (r - 0.5f * n) * 3.14159265358979323846f;
  V s = sin(angle), c = cos(angle);
  auto odd = fabs(n) == 1.0f;
  V sine = odd ? c : s, cosine = odd ? s : c;
  // Adding zero turns a negative zero into the positive one.
  return {n == 2.0f || n < 0.0f ? -sine : sine, (n >= 1.0f || n == -2.0f ? -cosine : cosine) + 0.0f};
}
template <class V> SOFT_FN V cospi(V x) { return turn(x).cosine; }
template <class V> SOFT_FN V sinpi(V x) { return x - trunc(x) == 0.0f ? copysign((V)0.0f, x) : turn(x).sine; }
template <class V> SOFT_FN V tanpi(V x) {
  half_turns<V> t = turn(x);
  return t.sine / t.cosine;
}
}  // namespace math
}  // namespace soft
