// exp, log, pow, tanh, sin and cos as plain arithmetic. Every engine compiles these same formulas, to scalars or to
// vectors, so that all of them give the same bits. Errors stay below 2 units in the last place.
#pragma once
#include "soft_arguments.h"

namespace soft {
namespace elementary {
#define SOFT_FORMULA SOFT_INLINE float
#define SOFT_FUSED _Pragma("clang fp contract(on) reassociate(off)")

SOFT_INLINE float from_bits(uint bits) { return __builtin_bit_cast(float, bits); }
SOFT_INLINE uint to_bits(float x) { return __builtin_bit_cast(uint, x); }
SOFT_INLINE float power_of_two(int n) { return from_bits(uint(n + 127) << 23); }
// p * 2^n for n down to -252 and up to 254; in two steps, because the result may be subnormal.
SOFT_INLINE float scaled(float p, int n) {
  int first = n >> 1;
  return p * power_of_two(first) * power_of_two(n - first);
}
// Keeps NaN.
SOFT_INLINE float limited(float x, float low, float high) { return x < low ? low : (x > high ? high : x); }

// e^r for |r| <= log(2) / 2.
SOFT_FORMULA exp_near_zero(float r) {
  SOFT_FUSED
  float q = 0x1.6dbc4cp-10f;
  q = q * r + 0x1.124146p-7f;
  q = q * r + 0x1.555454p-5f;
  q = q * r + 0x1.555486p-3f;
  q = q * r + 0.5f;
  return (q * (r * r) + r) + 1.0f;
}
SOFT_FORMULA exp(float x) {
  SOFT_FUSED
  x = limited(x, -104.0f, 89.0f);
  float n = __builtin_rintf(x * 0x1.715476p+0f);
  float r = x - n * 0x1.62e4p-1f;  // exact: the factor has 15 bits
  r = r - n * 0x1.7f7d1cp-20f;
  return scaled(exp_near_zero(r), int(n));
}
SOFT_FORMULA exp2(float x) {
  SOFT_FUSED
  x = limited(x, -151.0f, 129.0f);
  float n = __builtin_rintf(x), r = x - n;
  float q = 0x1.449762p-13f;
  q = q * r + 0x1.5f5076p-10f;
  q = q * r + 0x1.3b29a0p-7f;
  q = q * r + 0x1.c6aebep-5f;
  q = q * r + 0x1.ebfbe0p-3f;
  q = q * r + 0x1.62e430p-1f;
  return scaled(q * r + 1.0f, int(n));
}
SOFT_FORMULA exp10(float x) {
  SOFT_FUSED
  x = limited(x, -46.0f, 39.0f);
  float n = __builtin_rintf(x * 0x1.a934f0p+1f);
  float r = x - n * 0x1.344p-2f;
  r = r - n * 0x1.3509f8p-18f;
  return scaled(exp_near_zero(r * 0x1.26bb1cp+1f), int(n));
}

// A positive float as (1 + f) * 2^e with f between sqrt(1/2) - 1 and sqrt(2) - 1, and log(1 + f) as f + rest.
struct logarithm {
  float f, rest, e;
};
SOFT_INLINE logarithm take_logarithm(float x) {
  SOFT_FUSED
  bool tiny = x < 0x1p-126f;
  uint bits = to_bits(tiny ? x * 0x1p23f : x);
  uint above = bits - 0x3f3504f3u;  // sqrt(1/2)
  int exponent = int(above) >> 23;
  float f = from_bits(bits - (uint(exponent) << 23)) - 1.0f;
  float p = 0x1.1457e4p-4f;
  p = p * f + -0x1.de3bf6p-4f;
  p = p * f + 0x1.e6f03cp-4f;
  p = p * f + -0x1.fc2208p-4f;
  p = p * f + 0x1.23376cp-3f;
  p = p * f + -0x1.555c4ep-3f;
  p = p * f + 0x1.99a4b6p-3f;
  p = p * f + -0x1.000006p-2f;
  p = p * f + 0x1.555548p-2f;
  float square = f * f;
  return {f, p * f * square - 0.5f * square, float(exponent - (tiny ? 23 : 0))};
}
SOFT_INLINE float with_special_logarithms(float x, float result) {
  result = x == __builtin_inff() || x != x ? x : result;
  result = x == 0.0f ? -__builtin_inff() : result;
  return x < 0.0f ? __builtin_nanf("") : result;
}
SOFT_FORMULA log(float x) {
  SOFT_FUSED
  logarithm l = take_logarithm(x);
  float low = l.e * 0x1.7f7d1cp-20f + l.rest;
  return with_special_logarithms(x, l.e * 0x1.62e4p-1f + (l.f + low));
}
SOFT_FORMULA log2(float x) {
  SOFT_FUSED
  logarithm l = take_logarithm(x);
  const float more = 0x1.c551d9p-2f;  // log2(e) - 1
  float low = l.rest * more;
  low = l.f * more + low;
  low = low + l.rest;
  return with_special_logarithms(x, l.e + (l.f + low));
}
SOFT_FORMULA log10(float x) {
  SOFT_FUSED
  logarithm l = take_logarithm(x);
  float low = l.rest * 0x1.bcb7b2p-2f;
  low = l.f * 0x1.6f62a4p-11f + low;  // log10(e) is 0x1.bcp-2 and this
  low = l.e * 0x1.3509f8p-18f + low;
  low = l.f * 0x1.bcp-2f + low;
  return with_special_logarithms(x, l.e * 0x1.344p-2f + low);
}

SOFT_FORMULA tanh(float x) {
  SOFT_FUSED
  float size = limited(__builtin_fabsf(x), 0.0f, 10.0f), z = size * size;
  float p = -0x1.7303c2p-8f;
  p = p * z + 0x1.518d04p-6f;
  p = p * z + -0x1.b826b6p-5f;
  p = p * z + 0x1.110692p-3f;
  p = p * z + -0x1.555530p-2f;
  float small = p * (z * size) + size;
  float large = 1.0f - 2.0f / (exp(2.0f * size) + 1.0f);
  return __builtin_copysignf(size < 0.625f ? small : large, x);
}

// sin and cos: the angle less the nearest n quarter turns, in double precision.
struct quarter_turns {
  float r;
  int n;
};
SOFT_INLINE quarter_turns take_quarter_turns(float x) {
  SOFT_FUSED
  double wide = x, n = __builtin_rint(wide * 0x1.45f306dc9c883p-1);
  double r = wide - n * 0x1.921fb544p+0;  // exact: the factor has 33 bits
  return {float(r - n * 0x1.0b4611a626331p-34), int(n)};
}
SOFT_INLINE float sine_near_zero(float r) {
  SOFT_FUSED
  float z = r * r, p = 0x1.6cd60ep-19f;
  p = p * z + -0x1.a00f94p-13f;
  p = p * z + 0x1.111108p-7f;
  p = p * z + -0x1.555556p-3f;
  return p * (z * r) + r;
}
SOFT_INLINE float cosine_near_zero(float r) {
  SOFT_FUSED
  float z = r * r, p = 0x1.99ffb0p-16f;
  p = p * z + -0x1.6c0c84p-10f;
  p = p * z + 0x1.55554ap-5f;
  return (p * z + -0.5f) * z + 1.0f;
}
SOFT_INLINE float turned(float r, int n) {
  float size = n & 1 ? cosine_near_zero(r) : sine_near_zero(r);
  return n & 2 ? -size : size;
}
// Beyond this the quarter turns do not fit; larger angles, infinities and NaN are left to the C library.
constexpr float LARGEST_ANGLE = 0x1p20f;
SOFT_FORMULA sin(float x) {
  if (!(__builtin_fabsf(x) < LARGEST_ANGLE)) return __builtin_sinf(x);
  quarter_turns t = take_quarter_turns(x);
  return x == 0.0f ? x : turned(t.r, t.n);
}
SOFT_FORMULA cos(float x) {
  if (!(__builtin_fabsf(x) < LARGEST_ANGLE)) return __builtin_cosf(x);
  quarter_turns t = take_quarter_turns(x);
  return turned(t.r, t.n + 1);
}

// pow in double precision, where every float is a normal number.
SOFT_INLINE double log2_wide(double x) {
  SOFT_FUSED
  ulong bits = __builtin_bit_cast(ulong, x);
  ulong above = bits - 0x3fe6a09e667f3bcdul + (1024ul << 52);  // sqrt(1/2)
  int exponent = int(above >> 52) - 1024;
  double m = __builtin_bit_cast(double, bits - (ulong(long(exponent)) << 52));
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 0x1.21b2b1349f3c6p-2;
  p = p * z + 0x1.479533ae34ccap-2;
  p = p * z + 0x1.a61a2fb474bfbp-2;
  p = p * z + 0x1.2776c291f95f7p-1;
  p = p * z + 0x1.ec709dc53da1ep-1;
  p = p * z + 0x1.71547652b8250p+1;
  return p * s + double(exponent);
}
SOFT_INLINE double exp2_wide(double x) {
  SOFT_FUSED
  double n = __builtin_rint(x), r = x - n;
  double q = 0x1.b695688d9a397p-24;
  q = q * r + 0x1.63edd927ca76dp-20;
  q = q * r + 0x1.ffcb31fb1e8aep-17;
  q = q * r + 0x1.430891a8f83aap-13;
  q = q * r + 0x1.5d87fea9568abp-10;
  q = q * r + 0x1.3b2ab7274ea8ap-7;
  q = q * r + 0x1.c6b08d70372dcp-5;
  q = q * r + 0x1.ebfbdff81a06cp-3;
  q = q * r + 0x1.62e42fefa3a2bp-1;
  return (q * r + 1.0) * __builtin_bit_cast(double, ulong(long(int(n)) + 1023l) << 52);
}
SOFT_FORMULA pow(float x, float y) {
  float size = __builtin_fabsf(x);
  double wide = log2_wide(size);
  wide = size == 0.0f ? -1e30 : (size == __builtin_inff() ? 1e30 : wide);
  double exponent = size == 1.0f ? 0.0 : double(y) * wide;
  exponent = exponent < -1000.0 ? -1000.0 : (exponent > 1000.0 ? 1000.0 : exponent);
  float result = float(exp2_wide(exponent == exponent ? exponent : 0.0));
  bool whole = __builtin_truncf(y) == y;
  bool odd = whole && __builtin_fabsf(y) < 0x1p24f && (int(y) & 1);
  result = odd ? __builtin_copysignf(result, x) : result;
  result = x < 0.0f && size != __builtin_inff() && !whole ? __builtin_nanf("") : result;
  result = x != x || y != y ? x + y : result;
  return x == 1.0f || y == 0.0f ? 1.0f : result;
}
#undef SOFT_FORMULA
#undef SOFT_FUSED
}  // namespace elementary
}  // namespace soft
