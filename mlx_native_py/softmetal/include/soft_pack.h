// metal_pack: normalised integers in one word; the first component lies in the lowest bits.
#pragma once
#include "soft_math.h"

namespace soft {
// Ties go to even and a NaN becomes zero.
SOFT_INLINE uint to_unorm(float x, uint bits) {
  return uint(math::rint(math::saturate(x) * float((1u << bits) - 1u)));
}
SOFT_INLINE uint to_snorm(float x, uint bits) {
  float limited = x == x ? math::clamp(x, -1.0f, 1.0f) : 0.0f;
  return uint(int(math::rint(limited * float((1u << (bits - 1u)) - 1u)))) & ((1u << bits) - 1u);
}
SOFT_INLINE float from_unorm(uint field, uint bits) {
  uint most = (1u << bits) - 1u;
  return float(field & most) / float(most);
}
SOFT_INLINE float from_snorm(uint field, uint bits) {
  int value = int(field << (32u - bits)) >> (32u - bits);
  return math::fmax(float(value) / float((1u << (bits - 1u)) - 1u), -1.0f);
}
SOFT_INLINE float to_srgb(float x) {
  float linear = math::saturate(x);
  return linear <= 0.0031308f ? linear * 12.92f : 1.055f * math::pow(linear, 1.0f / 2.4f) - 0.055f;
}
SOFT_INLINE float from_srgb(float x) {
  return x <= 0.04045f ? x / 12.92f : math::pow((x + 0.055f) / 1.055f, 2.4f);
}

template <int N> SOFT_INLINE uint pack_unorm(metal::vec<float, N> v, uint bits) {
  uint word = 0;
  for (int i = 0; i < N; i++) word |= to_unorm(v.at(i), bits) << (uint(i) * bits);
  return word;
}
template <int N> SOFT_INLINE uint pack_snorm(metal::vec<float, N> v, uint bits) {
  uint word = 0;
  for (int i = 0; i < N; i++) word |= to_snorm(v.at(i), bits) << (uint(i) * bits);
  return word;
}
template <int N> SOFT_INLINE metal::vec<float, N> unpack_unorm(uint word, uint bits) {
  metal::vec<float, N> v;
  for (int i = 0; i < N; i++) v.put(i, from_unorm(word >> (uint(i) * bits), bits));
  return v;
}
template <int N> SOFT_INLINE metal::vec<float, N> unpack_snorm(uint word, uint bits) {
  metal::vec<float, N> v;
  for (int i = 0; i < N; i++) v.put(i, from_snorm(word >> (uint(i) * bits), bits));
  return v;
}
}  // namespace soft

namespace metal {
SOFT_INLINE uint pack_float_to_unorm4x8(float4 x) { return soft::pack_unorm(x, 8); }
SOFT_INLINE uint pack_float_to_snorm4x8(float4 x) { return soft::pack_snorm(x, 8); }
SOFT_INLINE uint pack_float_to_srgb_unorm4x8(float4 x) {
  return soft::pack_unorm(float4(soft::to_srgb(x.x), soft::to_srgb(x.y), soft::to_srgb(x.z), x.w), 8);
}
SOFT_INLINE uint pack_float_to_unorm2x16(float2 x) { return soft::pack_unorm(x, 16); }
SOFT_INLINE uint pack_float_to_snorm2x16(float2 x) { return soft::pack_snorm(x, 16); }
SOFT_INLINE uint pack_float_to_unorm10a2(float4 x) {
  return soft::pack_unorm(x.xyz, 10) | soft::to_unorm(x.w, 2) << 30u;
}
SOFT_INLINE ushort pack_float_to_unorm565(float3 x) {
  return ushort(soft::to_unorm(x.x, 5) | soft::to_unorm(x.y, 6) << 5u | soft::to_unorm(x.z, 5) << 11u);
}

SOFT_INLINE uint pack_half_to_unorm4x8(half4 x) { return pack_float_to_unorm4x8(float4(x)); }
SOFT_INLINE uint pack_half_to_snorm4x8(half4 x) { return pack_float_to_snorm4x8(float4(x)); }
SOFT_INLINE uint pack_half_to_srgb_unorm4x8(half4 x) { return pack_float_to_srgb_unorm4x8(float4(x)); }
SOFT_INLINE uint pack_half_to_unorm2x16(half2 x) { return pack_float_to_unorm2x16(float2(x)); }
SOFT_INLINE uint pack_half_to_snorm2x16(half2 x) { return pack_float_to_snorm2x16(float2(x)); }
SOFT_INLINE uint pack_half_to_unorm10a2(half4 x) { return pack_float_to_unorm10a2(float4(x)); }
SOFT_INLINE ushort pack_half_to_unorm565(half3 x) { return pack_float_to_unorm565(float3(x)); }

SOFT_INLINE float4 unpack_unorm4x8_to_float(uint x) { return soft::unpack_unorm<4>(x, 8); }
SOFT_INLINE float4 unpack_snorm4x8_to_float(uint x) { return soft::unpack_snorm<4>(x, 8); }
SOFT_INLINE float4 unpack_unorm4x8_srgb_to_float(uint x) {
  float4 v = soft::unpack_unorm<4>(x, 8);
  return float4(soft::from_srgb(v.x), soft::from_srgb(v.y), soft::from_srgb(v.z), v.w);
}
SOFT_INLINE float2 unpack_unorm2x16_to_float(uint x) { return soft::unpack_unorm<2>(x, 16); }
SOFT_INLINE float2 unpack_snorm2x16_to_float(uint x) { return soft::unpack_snorm<2>(x, 16); }
SOFT_INLINE float4 unpack_unorm10a2_to_float(uint x) {
  return float4(soft::unpack_unorm<3>(x, 10), soft::from_unorm(x >> 30u, 2));
}
SOFT_INLINE float3 unpack_unorm565_to_float(ushort x) {
  return float3(soft::from_unorm(x, 5), soft::from_unorm(uint(x) >> 5u, 6), soft::from_unorm(uint(x) >> 11u, 5));
}

SOFT_INLINE half4 unpack_unorm4x8_to_half(uint x) { return half4(unpack_unorm4x8_to_float(x)); }
SOFT_INLINE half4 unpack_snorm4x8_to_half(uint x) { return half4(unpack_snorm4x8_to_float(x)); }
SOFT_INLINE half4 unpack_unorm4x8_srgb_to_half(uint x) { return half4(unpack_unorm4x8_srgb_to_float(x)); }
SOFT_INLINE half2 unpack_unorm2x16_to_half(uint x) { return half2(unpack_unorm2x16_to_float(x)); }
SOFT_INLINE half2 unpack_snorm2x16_to_half(uint x) { return half2(unpack_snorm2x16_to_float(x)); }
SOFT_INLINE half4 unpack_unorm10a2_to_half(uint x) { return half4(unpack_unorm10a2_to_float(x)); }
SOFT_INLINE half3 unpack_unorm565_to_half(ushort x) { return half3(unpack_unorm565_to_float(x)); }
}  // namespace metal
