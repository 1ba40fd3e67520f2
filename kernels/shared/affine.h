// Weights in groups that share a scale and a bias (2, 3, 4, 5, 6 or 8 bits, packed from the lowest bit up), or mxfp4.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant uint BITS [[function_constant(0)]];
constant bool MXFP4 [[function_constant(1)]];
constant bool AFFINE = !MXFP4;

enum ScaleType { SCALES_F32, SCALES_F16, SCALES_BF16, SCALES_E8M0 };

// Sign, two bits of exponent, one of mantissa.
constant constexpr float E2M1_VALUES[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                            -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// The values of the four lowest codes.
METAL_FUNC float4 e2m1(uint codes) {
  return float4(E2M1_VALUES[codes & 15], E2M1_VALUES[codes >> 4 & 15], E2M1_VALUES[codes >> 8 & 15],
                E2M1_VALUES[codes >> 12 & 15]);
}

// 2^(exponent - 127)
METAL_FUNC float e8m0(uchar exponent) { return as_type<float>(exponent == 0 ? 0x00400000u : uint(exponent) << 23); }

// How a quantised matrix lies in memory.
struct AffineLayout {
  uint length;       // values of a row
  uint group_shift;  // a group has 32 << group_shift values
  uint scale_type;   // a ScaleType
  uint rows;         // of a matrix
};

struct Affine {
  enum { SPAN = 32, BIASED = 1, WHOLE = 1 };
  device const uint *words;
  device const uchar *scales, *biases;
  uint words_per_row, groups_per_row, group_shift, scale_type;
  ulong rows;

  METAL_FUNC void move(ulong matrix) thread {
    words += matrix * rows * words_per_row;
    const uint bytes = scale_type == SCALES_F32 ? 4 : scale_type == SCALES_E8M0 ? 1 : 2;
    scales += matrix * rows * groups_per_row * bytes;
    biases += matrix * rows * groups_per_row * bytes;
  }
  METAL_FUNC float factor(device const uchar *of, ulong index) const thread {
    return scale_type == SCALES_F32   ? ((device const float *)of)[index]
           : scale_type == SCALES_F16 ? float(((device const half *)of)[index])
                                      : float(((device const bfloat *)of)[index]);
  }
  METAL_FUNC float2 factors(uint row, uint span) const thread {
    const ulong group = ulong(row) * groups_per_row + (span >> group_shift);
    return MXFP4 ? float2(e8m0(scales[group]), 0.0f) : float2(factor(scales, group), factor(biases, group));
  }
  template <typename Put>
  METAL_FUNC void unpack(uint row, uint span, thread Put &put) const thread {
    device const uint *from = words + ulong(row) * words_per_row + span * BITS;
    for (uint i = 0; i < SPAN / 4; ++i) {
      const uint bit = 4 * i * BITS, shift = bit % 32;
      uint window = from[bit / 32] >> shift;
      if (shift + 4 * BITS > 32) {
        window |= from[bit / 32 + 1] << (32 - shift);
      }
      const uint4 codes = uint4(window) >> (uint4(0, 1, 2, 3) * BITS) & ((1u << BITS) - 1);
      put(i, MXFP4 ? e2m1(window) : float4(int4(codes)));
    }
  }
};

METAL_FUNC Affine affine(device const uint *words, device const uchar *scales, device const uchar *biases,
                         constant AffineLayout &layout) {
  return {words, scales, biases, layout.length / 32 * BITS, layout.length >> (5 + layout.group_shift),
          layout.group_shift, layout.scale_type, layout.rows};
}
