// GGML's blocks of weights: one struct for each format.
//
// VALUES lie in BYTES. A block is read in spans of SPAN values: `unpack` calls put(i, q) for each four values of a
// span, and `factors` has its (scale, bias): a value is scale * q + bias, a bias only where BIASED. Blocks lie at even
// addresses.
#pragma once
#include <metal_stdlib>
using namespace metal;

typedef device const uchar *Bytes;

METAL_FUNC float half_at(Bytes at) { return float(*(device const half *)at); }
METAL_FUNC uint word_at(Bytes at) {
  device const ushort *halves = (device const ushort *)at;
  return halves[0] | uint(halves[1]) << 16;
}
// Byte i of an array, read as the four around it, so that neighbours are read once.
METAL_FUNC uint byte_of(Bytes bytes, uint i) {
  const packed_uchar4 four = *(device const packed_uchar4 *)(bytes + i / 4 * 4);
  return as_type<uint>(uchar4(four)) >> i % 4 * 8 & 255;
}
METAL_FUNC int4 four_at(Bytes at) { return int4(uchar4(*(device const packed_uchar4 *)at)); }

struct Q4_0 {
  enum { VALUES = 32, BYTES = 18, SPAN = 32, BIASED = 0 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint, thread Put &put) {
    for (uint i = 0; i < 4; ++i) {
      const int4 pairs = four_at(block + 2 + 4 * i);
      put(i, float4((pairs & 15) - 8));
      put(i + 4, float4((pairs >> 4) - 8));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint) { return float2(half_at(block), 0.0f); }
};

struct Q4_1 {
  enum { VALUES = 32, BYTES = 20, SPAN = 32, BIASED = 1 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint, thread Put &put) {
    for (uint i = 0; i < 4; ++i) {
      const int4 pairs = four_at(block + 4 + 4 * i);
      put(i, float4(pairs & 15));
      put(i + 4, float4(pairs >> 4));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint) { return float2(half_at(block), half_at(block + 2)); }
};

// The fifth bits of four values, from bit `at` on.
METAL_FUNC int4 fifth_bits(uint bits, uint at) { return int4(uint4(bits) >> (uint4(0, 1, 2, 3) + at) << 4 & 16); }

struct Q5_0 {
  enum { VALUES = 32, BYTES = 22, SPAN = 32, BIASED = 0 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint, thread Put &put) {
    const uint high = word_at(block + 2);
    for (uint i = 0; i < 4; ++i) {
      const int4 pairs = four_at(block + 6 + 4 * i);
      put(i, float4((pairs & 15 | fifth_bits(high, 4 * i)) - 16));
      put(i + 4, float4((pairs >> 4 | fifth_bits(high, 4 * i + 16)) - 16));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint) { return float2(half_at(block), 0.0f); }
};

struct Q5_1 {
  enum { VALUES = 32, BYTES = 24, SPAN = 32, BIASED = 1 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint, thread Put &put) {
    const uint high = word_at(block + 4);
    for (uint i = 0; i < 4; ++i) {
      const int4 pairs = four_at(block + 8 + 4 * i);
      put(i, float4(pairs & 15 | fifth_bits(high, 4 * i)));
      put(i + 4, float4(pairs >> 4 | fifth_bits(high, 4 * i + 16)));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint) { return float2(half_at(block), half_at(block + 2)); }
};

struct Q8_0 {
  enum { VALUES = 32, BYTES = 34, SPAN = 32, BIASED = 0 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint, thread Put &put) {
    device const packed_char4 *values = (device const packed_char4 *)(block + 2);
    for (uint i = 0; i < 8; ++i) put(i, float4(char4(values[i])));
  }
  static METAL_FUNC float2 factors(Bytes block, uint) { return float2(half_at(block), 0.0f); }
};

// 16 scales and minima of 4 bits, 64 bytes of 2-bit values: four planes for each half of the block.
struct Q2_K {
  enum { VALUES = 256, BYTES = 84, SPAN = 16, BIASED = 1 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint span, thread Put &put) {
    Bytes values = block + 16 + span / 8 * 32 + span % 2 * 16;
    const uint shift = span % 8 / 2 * 2;
    for (uint i = 0; i < 4; ++i) put(i, float4(four_at(values + 4 * i) >> shift & 3));
  }
  static METAL_FUNC float2 factors(Bytes block, uint span) {
    const uint scale = byte_of(block, span);
    return float2(half_at(block + 80) * float(scale & 15), -half_at(block + 82) * float(scale >> 4));
  }
};

// 32 bytes of third bits, 64 of 2-bit values, 16 scales of 6 bits; where the third bit is 0, 4 is taken off.
struct Q3_K {
  enum { VALUES = 256, BYTES = 110, SPAN = 16, BIASED = 0 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint span, thread Put &put) {
    Bytes third = block + span % 2 * 16, low = block + 32 + span / 8 * 32 + span % 2 * 16;
    const uint shift = span % 8 / 2 * 2, plane = span / 2;
    for (uint i = 0; i < 4; ++i) {
      const int4 high = four_at(third + 4 * i) >> plane & 1;
      put(i, float4((four_at(low + 4 * i) >> shift & 3 | high << 2) - 4));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint span) {
    Bytes scales = block + 96;
    const uint low = byte_of(scales, span % 8) >> span / 8 * 4 & 15, high = byte_of(scales, 8 + span % 4) >> span / 4 * 2;
    const uint bits = low | (high & 3) << 4;
    return float2(half_at(block + 108) * float(int(bits) - 32), 0.0f);
  }
};

// The scale and the minimum of 32 values of Q4_K and Q5_K: 6 bits each, eight of both in 12 bytes.
METAL_FUNC float2 k_factors(Bytes block, uint span) {
  Bytes s = block + 4;
  const uint at = span % 4;
  const uint a = byte_of(s, at), b = byte_of(s, at + 4), c = byte_of(s, at + 8);
  const uint scale = span < 4 ? a & 63 : (c & 15) | a >> 6 << 4;
  const uint least = span < 4 ? b & 63 : c >> 4 | b >> 6 << 4;
  return float2(half_at(block) * float(scale), -half_at(block + 2) * float(least));
}

struct Q4_K {
  enum { VALUES = 256, BYTES = 144, SPAN = 32, BIASED = 1 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint span, thread Put &put) {
    Bytes values = block + 16 + span / 2 * 32;
    const uint shift = span % 2 * 4;
    for (uint i = 0; i < 8; ++i) put(i, float4(four_at(values + 4 * i) >> shift & 15));
  }
  static METAL_FUNC float2 factors(Bytes block, uint span) { return k_factors(block, span); }
};

struct Q5_K {
  enum { VALUES = 256, BYTES = 176, SPAN = 32, BIASED = 1 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint span, thread Put &put) {
    Bytes fifth = block + 16, values = block + 48 + span / 2 * 32;
    const uint shift = span % 2 * 4;
    for (uint i = 0; i < 8; ++i) {
      const int4 high = four_at(fifth + 4 * i) >> span & 1;
      put(i, float4(four_at(values + 4 * i) >> shift & 15 | high << 4));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint span) { return k_factors(block, span); }
};

// 128 bytes of low nibbles, 64 of upper bit pairs, 16 scales; four planes of 32 values for each half of the block.
struct Q6_K {
  enum { VALUES = 256, BYTES = 210, SPAN = 16, BIASED = 0 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint span, thread Put &put) {
    const uint plane = span % 8 / 2, shift = plane / 2 * 4;
    Bytes low = block + span / 8 * 64 + plane % 2 * 32 + span % 2 * 16;
    Bytes upper = block + 128 + span / 8 * 32 + span % 2 * 16;
    for (uint i = 0; i < 4; ++i) {
      const int4 high = four_at(upper + 4 * i) >> plane * 2 & 3;
      put(i, float4((four_at(low + 4 * i) >> shift & 15 | high << 4) - 32));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint span) {
    const int scale = int(byte_of(block + 192, span) << 24) >> 24;
    return float2(half_at(block + 208) * float(scale), 0.0f);
  }
};

constant constexpr float IQ4_NL_VALUES[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The entries for the lower nibbles of four bytes.
METAL_FUNC float4 iq4_nl_values(uint bytes) {
  return float4(IQ4_NL_VALUES[bytes & 15], IQ4_NL_VALUES[bytes >> 8 & 15], IQ4_NL_VALUES[bytes >> 16 & 15],
                IQ4_NL_VALUES[bytes >> 24 & 15]);
}

struct IQ4_NL {
  enum { VALUES = 32, BYTES = 18, SPAN = 32, BIASED = 0 };
  template <typename Put>
  static METAL_FUNC void unpack(Bytes block, uint, thread Put &put) {
    for (uint i = 0; i < 4; ++i) {
      const uint pairs = word_at(block + 2 + 4 * i);
      put(i, iq4_nl_values(pairs));
      put(i + 4, iq4_nl_values(pairs >> 4));
    }
  }
  static METAL_FUNC float2 factors(Bytes block, uint) { return float2(half_at(block), 0.0f); }
};
