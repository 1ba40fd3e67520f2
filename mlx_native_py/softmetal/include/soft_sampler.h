// metal::sampler: how a texture is sampled, packed into the eight bytes that also stand in argument buffers.
#pragma once
#include "soft_traits.h"

namespace metal {

// Numbers of MTLSamplerAddressMode, MTLSamplerMinMagFilter, MTLSamplerMipFilter, MTLCompareFunction, ...
enum class coord { normalized = 0, pixel = 1 };
enum class address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class s_address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class t_address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class r_address { clamp_to_edge = 0, repeat = 2, mirrored_repeat = 3, clamp_to_zero = 4, clamp_to_border = 5 };
enum class filter { nearest = 0, linear = 1 };
enum class mag_filter { nearest = 0, linear = 1 };
enum class min_filter { nearest = 0, linear = 1 };
enum class mip_filter { none = 0, nearest = 1, linear = 2 };
enum class compare_func {
  never = 0, none = 0, less = 1, equal = 2, less_equal = 3, greater = 4, not_equal = 5, greater_equal = 6, always = 7
};
enum class border_color { transparent_black = 0, opaque_black = 1, opaque_white = 2 };

struct max_anisotropy {
  SOFT_MEMBER explicit max_anisotropy(int) {}
};
struct lod_clamp {
  half least, most;
  SOFT_MEMBER lod_clamp(float least, float most) : least((half)least), most((half)most) {}
};

struct sampler {
  ulong soft_bits;

  SOFT_MEMBER sampler() : soft_bits(0x7c00ul << 48 | 1 << 23) {}
  template <class First, class... Rest, enable_if_t<!is_same<First, sampler>::value, int> = 0>
  SOFT_MEMBER sampler(First first, Rest... rest) : sampler() {
    soft_set(first);
    (soft_set(rest), ...);
  }

 private:
  SOFT_MEMBER void put(uint at, ulong mask, ulong value) { soft_bits = (soft_bits & ~(mask << at)) | value << at; }
  SOFT_MEMBER void soft_set(coord v) { put(0, 1, (ulong)v); }
  SOFT_MEMBER void soft_set(s_address v) { put(1, 7, (ulong)v); }
  SOFT_MEMBER void soft_set(t_address v) { put(4, 7, (ulong)v); }
  SOFT_MEMBER void soft_set(r_address v) { put(7, 7, (ulong)v); }
  SOFT_MEMBER void soft_set(address v) {
    for (int at = 1; at < 10; at += 3) put(at, 7, (ulong)v);
  }
  SOFT_MEMBER void soft_set(mag_filter v) { put(10, 1, (ulong)v); }
  SOFT_MEMBER void soft_set(min_filter v) { put(11, 1, (ulong)v); }
  SOFT_MEMBER void soft_set(filter v) { put(10, 3, (ulong)v * 3); }
  SOFT_MEMBER void soft_set(mip_filter v) { put(12, 3, (ulong)v); }
  SOFT_MEMBER void soft_set(compare_func v) { put(14, 15, (ulong)v); }
  SOFT_MEMBER void soft_set(border_color v) { put(18, 3, (ulong)v); }
  SOFT_MEMBER void soft_set(max_anisotropy) {}
  SOFT_MEMBER void soft_set(lod_clamp v) {
    put(32, 0xffff, __builtin_bit_cast(ushort, v.least));
    put(48, 0xffff, __builtin_bit_cast(ushort, v.most));
  }
};

}  // namespace metal

namespace soft::tex {

enum { CLAMP_TO_EDGE, MIRROR_CLAMP, REPEAT, MIRRORED_REPEAT, CLAMP_TO_ZERO, CLAMP_TO_BORDER };

SOFT_INLINE bool in_pixels(ulong s) { return s & 1; }
SOFT_INLINE uint address_mode(ulong s, uint axis) { return s >> (1 + 3 * axis) & 7; }
SOFT_INLINE bool is_linear(ulong s, bool smaller) { return s >> (smaller ? 11 : 10) & 1; }
SOFT_INLINE uint mip_mode(ulong s) { return s >> 12 & 3; }
SOFT_INLINE uint border(ulong s) { return s >> 18 & 3; }
SOFT_INLINE float least_lod(ulong s) { return (float)__builtin_bit_cast(half, (ushort)(s >> 32)); }
SOFT_INLINE float most_lod(ulong s) { return (float)__builtin_bit_cast(half, (ushort)(s >> 48)); }
SOFT_INLINE float compared(ulong s, float reference, float texel) {
  uint wanted = s >> 14 & 15;  // bits: less, equal, greater
  bool less = reference < texel, equal = reference == texel, greater = reference > texel;
  return (wanted & 1 && less) || (wanted & 2 && equal) || (wanted & 4 && greater) ? 1.0f : 0.0f;
}

}  // namespace soft::tex
