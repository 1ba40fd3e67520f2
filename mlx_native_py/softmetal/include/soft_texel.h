// A texture as memory: where a texel lies, and how its components are stored and converted.
#pragma once
#include "soft_math.h"
#include "soft_pack.h"

// Conversions and weights are the same bits in every math mode and engine.
#define SOFT_EXACT _Pragma("clang fp contract(off)")

// Long code that calls share, but for lanes, which take a kernel as one function, and for checks, which ask for the line.
#if SOFT_ENGINE == 2 || __has_feature(thread_sanitizer)
#define SOFT_SHARED SOFT_INLINE
#else
#define SOFT_SHARED static __attribute__((noinline))
#endif

// Checked mode does not mind what a texel is that has no share in a mean.
#if __has_feature(thread_sanitizer)
extern "C" void soft_texel_counts(bool);
#else
SOFT_INLINE void soft_texel_counts(bool) {}
#endif

namespace soft::tex {

enum { MOST_LEVELS = 15 };

// How a component is stored. textures/formats.py has the same numbers.
enum {
  UNORM8, SNORM8, UINT8, SINT8, UNORM16, SNORM16, UINT16, SINT16, HALF16, UINT32, SINT32, FLOAT32,
  SRGB8, UNORM10_2, UINT10_2, FLOAT11_10, SHARED_EXPONENT, UNORM565, UNORM4, UNORM5_1
};
enum { BLUE_FIRST = 1 << 12, ALPHA_ONLY = 1 << 13 };

// What a texture's handle points to; textures/state.py fills it.
struct texture_state {
  ulong address;
  uint width, height, depth, slices, levels;
  uint layout;  // how a component is stored, components << 8, and flags
  uint bytes;   // of a texel
  uint samples;  // of a texel, each a plane of its own
  ulong offset[MOST_LEVELS];       // of a level
  ulong image_bytes[MOST_LEVELS];  // of a slice, or of a plane of a 3D texture
  ulong row_bytes[MOST_LEVELS];
};
typedef const __global texture_state *texture_t;

template <class W> using texel = ext_t<W, 4>;
template <class T> struct working { typedef float type; };
template <> struct working<int> { typedef int type; };
template <> struct working<short> { typedef int type; };
template <> struct working<uint> { typedef uint type; };
template <> struct working<ushort> { typedef uint type; };

SOFT_INLINE uint extent_at(uint size, uint level) { return (size >> level) ? size >> level : 1; }
SOFT_INLINE uint planes_at(texture_t t, uint level) { return t->slices * extent_at(t->depth, level); }

SOFT_INLINE __global uchar *texel_at(texture_t t, uint x, uint y, uint plane, uint level) {
  ulong at = t->address + t->offset[level] + plane * t->image_bytes[level] + y * t->row_bytes[level] + ulong(x) * t->bytes;
  return (__global uchar *)at;
}

SOFT_INLINE float within(float v, float low, float high) { return v >= low ? (v <= high ? v : high) : low; }
// NaN becomes 0; halves go to the even neighbour.
SOFT_INLINE int normal(float v, float low, float scale) {
  SOFT_EXACT
  return v == v ? (int)__builtin_rintf(within(v, low, 1.0f) * scale) : 0;
}
SOFT_INLINE float bits_float(uint bits) { return __builtin_bit_cast(float, bits); }

// Floating-point numbers without a sign: 5 bits of exponent and `mantissa` bits.
SOFT_INLINE float small_float(uint bits, uint mantissa) {
  uint raised = (bits << (10 - mantissa)) & 0x7fff;
  return (float)__builtin_bit_cast(half, (ushort)raised);
}
SOFT_INLINE uint to_small_float(float v, uint mantissa) {
  if (v != v) return (31u << mantissa) | 1;
  if (!(v > 0.0f)) return 0;
  uint bits = __builtin_bit_cast(uint, v), drop = 23 - mantissa;
  float least = bits_float((127u - 14u) << 23);
  if (v < least) return (uint)__builtin_rintf(v * bits_float((127u + 14u + mantissa) << 23));
  bits += ((1u << (drop - 1)) - 1) + ((bits >> drop) & 1);
  int exponent = (int)(bits >> 23) - 112;
  if (exponent >= 31) return v == __builtin_inff() ? 31u << mantissa : (30u << mantissa) | ((1u << mantissa) - 1);
  return ((uint)exponent << mantissa) | ((bits >> drop) & ((1u << mantissa) - 1));
}
SOFT_INLINE uint to_shared_exponent(texel<float> v) {
  SOFT_EXACT
  float most = 0.0f, c[3];
  for (int i = 0; i < 3; i++) {
    c[i] = v[i] == v[i] ? within(v[i], 0.0f, 65408.0f) : 0.0f;
    most = c[i] > most ? c[i] : most;
  }
  int exponent = (int)(__builtin_bit_cast(uint, most) >> 23) - 127;
  exponent = (exponent < -16 ? -16 : exponent) + 16;
  if ((uint)__builtin_rintf(most * bits_float((uint)(127 + 24 - exponent) << 23)) == 512) exponent++;
  float scale = bits_float((uint)(127 + 24 - exponent) << 23);
  uint result = (uint)exponent << 27;
  for (int i = 0; i < 3; i++) result |= (uint)__builtin_rintf(c[i] * scale) << (9 * i);
  return result;
}

template <class S> SOFT_INLINE S stored(const __global uchar *at, uint i) { return ((const __global S *)at)[i]; }

SOFT_INLINE texel<float> packed_texel(uint kind, const __global uchar *at) {
  SOFT_EXACT
  if (kind == UNORM565 || kind == UNORM4 || kind == UNORM5_1) {
    uint w = stored<ushort>(at, 0);
    if (kind == UNORM565) return texel<float>{(w >> 11) / 31.0f, (w >> 5 & 63) / 63.0f, (w & 31) / 31.0f, 1.0f};
    if (kind == UNORM4)
      return texel<float>{(w >> 12) / 15.0f, (w >> 8 & 15) / 15.0f, (w >> 4 & 15) / 15.0f, (w & 15) / 15.0f};
    return texel<float>{(w >> 10 & 31) / 31.0f, (w >> 5 & 31) / 31.0f, (w & 31) / 31.0f, (float)(w >> 15)};
  }
  uint w = stored<uint>(at, 0);
  if (kind == UNORM10_2)
    return texel<float>{(w & 1023) / 1023.0f, (w >> 10 & 1023) / 1023.0f, (w >> 20 & 1023) / 1023.0f, (w >> 30) / 3.0f};
  if (kind == FLOAT11_10)
    return texel<float>{small_float(w & 2047, 6), small_float(w >> 11 & 2047, 6), small_float(w >> 22, 5), 1.0f};
  float scale = bits_float((127u + (w >> 27) - 24u) << 23);
  return texel<float>{(w & 511) * scale, (w >> 9 & 511) * scale, (w >> 18 & 511) * scale, 1.0f};
}

SOFT_INLINE float component(uint kind, const __global uchar *at, uint i) {
  SOFT_EXACT
  switch (kind) {
    case UNORM8: return stored<uchar>(at, i) / 255.0f;
    case SRGB8: return i < 3 ? from_srgb(stored<uchar>(at, i) / 255.0f) : stored<uchar>(at, i) / 255.0f;
    case SNORM8: return within(stored<char>(at, i) / 127.0f, -1.0f, 1.0f);
    case UNORM16: return stored<ushort>(at, i) / 65535.0f;
    case SNORM16: return within(stored<short>(at, i) / 32767.0f, -1.0f, 1.0f);
    case HALF16: return (float)stored<half>(at, i);
    default: return stored<float>(at, i);
  }
}

SOFT_SHARED texel<float> load_texel(uint layout, const __global uchar *at, float) {
  uint kind = layout & 255, count = layout >> 8 & 7;
  texel<float> v = texel<float>{0.0f, 0.0f, 0.0f, 1.0f};
  if (kind >= UNORM10_2)
    v = packed_texel(kind, at);
  else
    for (uint i = 0; i < count; i++) v[i] = component(kind, at, i);
  if (layout & BLUE_FIRST) v = v.zyxw;
  if (layout & ALPHA_ONLY) v = texel<float>{0.0f, 0.0f, 0.0f, v.x};
  return v;
}
SOFT_INLINE uint whole(uint kind, const __global uchar *at, uint i) {
  switch (kind) {
    case UINT8: return stored<uchar>(at, i);
    case SINT8: return (int)stored<signed char>(at, i);
    case UINT16: return stored<ushort>(at, i);
    case SINT16: return (int)stored<short>(at, i);
    case UINT10_2: return i < 3 ? stored<uint>(at, 0) >> (10 * i) & 1023 : stored<uint>(at, 0) >> 30;
    default: return stored<uint>(at, i);
  }
}
SOFT_SHARED texel<uint> load_texel(uint layout, const __global uchar *at, uint) {
  texel<uint> v = texel<uint>{0, 0, 0, 1};
  for (uint i = 0; i < (layout >> 8 & 7); i++) v[i] = whole(layout & 255, at, i);
  return v;
}
SOFT_INLINE texel<int> load_texel(uint layout, const __global uchar *at, int) {
  return __builtin_convertvector(load_texel(layout, at, 0u), texel<int>);
}

template <class S> SOFT_INLINE void put(__global uchar *at, uint i, S v) { ((__global S *)at)[i] = v; }

SOFT_INLINE void pack_texel(uint kind, __global uchar *at, texel<float> v) {
  uint w = 0;
  switch (kind) {
    case UNORM565:
      put<ushort>(at, 0, normal(v.x, 0, 31) << 11 | normal(v.y, 0, 63) << 5 | normal(v.z, 0, 31));
      return;
    case UNORM4:
      put<ushort>(at, 0, normal(v.x, 0, 15) << 12 | normal(v.y, 0, 15) << 8 | normal(v.z, 0, 15) << 4 | normal(v.w, 0, 15));
      return;
    case UNORM5_1:
      put<ushort>(at, 0, normal(v.w, 0, 1) << 15 | normal(v.x, 0, 31) << 10 | normal(v.y, 0, 31) << 5 | normal(v.z, 0, 31));
      return;
    case UNORM10_2:
      w = normal(v.x, 0, 1023) | normal(v.y, 0, 1023) << 10 | normal(v.z, 0, 1023) << 20 | (uint)normal(v.w, 0, 3) << 30;
      break;
    case FLOAT11_10: w = to_small_float(v.x, 6) | to_small_float(v.y, 6) << 11 | to_small_float(v.z, 5) << 22; break;
    default: w = to_shared_exponent(v);
  }
  put<uint>(at, 0, w);
}

SOFT_SHARED void store_texel(uint layout, __global uchar *at, texel<float> v) {
  uint kind = layout & 255, count = layout >> 8 & 7;
  if (layout & ALPHA_ONLY) v = v.wwww;
  if (layout & BLUE_FIRST) v = v.zyxw;
  if (kind >= UNORM10_2) return pack_texel(kind, at, v);
  for (uint i = 0; i < count; i++) switch (kind) {
      case UNORM8: put<uchar>(at, i, normal(v[i], 0, 255)); break;
      case SRGB8: put<uchar>(at, i, normal(i < 3 ? to_srgb(v[i]) : v[i], 0, 255)); break;
      case SNORM8: put<char>(at, i, normal(v[i], -1, 127)); break;
      case UNORM16: put<ushort>(at, i, normal(v[i], 0, 65535)); break;
      case SNORM16: put<short>(at, i, normal(v[i], -1, 32767)); break;
      case HALF16: put<half>(at, i, (half)v[i]); break;
      default: put<float>(at, i, v[i]);
    }
}
// Integers that do not fit become the nearest that does.
template <class W> SOFT_INLINE W most(W v, W low, W high) { return v < low ? low : v > high ? high : v; }
SOFT_SHARED void store_texel(uint layout, __global uchar *at, texel<uint> v) {
  uint kind = layout & 255;
  if (kind == UINT10_2) {
    put<uint>(at, 0, most(v.x, 0u, 1023u) | most(v.y, 0u, 1023u) << 10 | most(v.z, 0u, 1023u) << 20 | most(v.w, 0u, 3u) << 30);
    return;
  }
  for (uint i = 0; i < (layout >> 8 & 7); i++) switch (kind) {
      case UINT8: put<uchar>(at, i, most(v[i], 0u, 255u)); break;
      case UINT16: put<ushort>(at, i, most(v[i], 0u, 65535u)); break;
      default: put<uint>(at, i, v[i]);
    }
}
SOFT_SHARED void store_texel(uint layout, __global uchar *at, texel<int> v) {
  for (uint i = 0; i < (layout >> 8 & 7); i++) switch (layout & 255) {
      case SINT8: put<char>(at, i, most(v[i], -128, 127)); break;
      case SINT16: put<short>(at, i, most(v[i], -32768, 32767)); break;
      default: put<int>(at, i, v[i]);
    }
}

}  // namespace soft::tex
