// Weights in groups as the four lanes of a quad read them together: lane `part` takes eight values of each 32.
#pragma once
#include "shared/affine.h"
#include "shared/quad_matvec.h"
#include "shared/quads.h"
#include "shared/weights.h"

constant uint GROUP_SHIFT [[function_constant(3)]];
constant uint SCALE_TYPE [[function_constant(4)]];

constant constexpr uint MOST_SPANS = 4;  // of 32 values, in a group
constant constexpr int E2M1_OFFSET = -31;

// Four codes of e2m1 in bytes: twice their values, and 31 more.
METAL_FUNC uint e2m1_bytes(uint codes) {
  constexpr uint ones = 0x01010101;
  const uint upper = codes >> 2 & ones, odd = codes & upper, second = codes >> 1 & upper, sign = codes >> 3 & ones;
  const uint sizes = (codes & 7 * ones) + odd + 2 * second + 2 * (odd & second);
  return (sizes ^ sign * 31) + (ones - sign) * 31;
}

struct QuadAffine {
  // A lane's values of x for a group, and their sum.
  struct Inputs {
    float4 x[2 * MOST_SPANS];
    float total;
    template <typename T>
    Inputs(device const T *from, uint part) : total(0.0f) {
#pragma unroll
      for (uint s = 0; s < 1u << GROUP_SHIFT; ++s) {
        const float4 a = four_of(from + 32 * s + place(part, 0)), b = four_of(from + 32 * s + place(part, 1));
        total += add_four(a + b);
        x[2 * s] = units(MXFP4 ? float4(a.xz, b.xz) : a);
        x[2 * s + 1] = units(MXFP4 ? float4(a.yw, b.yw) : b);
      }
    }
    // Where four values of the lane lie: bytes are words of their own.
    static METAL_FUNC uint place(uint part, uint i) { return BITS == 8 ? 16 * i + 4 * part : 8 * part + 4 * i; }
    static METAL_FUNC float4 units(float4 x) {
      return MXFP4 || BITS == 8
                 ? ByteUnits::inputs(x)
                 : x / float4(1.0f, float(1u << BITS), float(1u << 2 * BITS % 24), float(1u << 3 * BITS % 24));
    }
  };

  device const uint *words;
  device const uchar *scales, *biases;
  uint words_per_row, groups_per_row;
  ulong rows;

  static METAL_FUNC uint step() { return 32 << GROUP_SHIFT; }
  static METAL_FUNC uint scale_bytes() { return SCALE_TYPE == SCALES_F32 ? 4 : SCALE_TYPE == SCALES_E8M0 ? 1 : 2; }
  METAL_FUNC void move(ulong matrix) thread { go(matrix * rows); }
  METAL_FUNC void go(ulong row) thread {
    words += row * words_per_row;
    scales += row * groups_per_row * scale_bytes();
    biases += row * groups_per_row * scale_bytes();
  }
  METAL_FUNC float factor(device const uchar *of, uint index) const thread {
    return SCALE_TYPE == SCALES_F32   ? ((device const float *)of)[index]
           : SCALE_TYPE == SCALES_F16 ? float(((device const half *)of)[index])
                                      : float(((device const bfloat *)of)[index]);
  }
  // Four codes of a lane's eight.
  static METAL_FUNC float4 quad(device const uint *span, uint part, uint i) {
    if (MXFP4) {
      return ByteUnits::values(e2m1_bytes(span[part] >> 4 * i));
    }
    if (BITS == 8) {
      return ByteUnits::values(span[4 * i + part]);
    }
    const uint bit = (8 * part + 4 * i) * BITS;
    const uint codes = 32 % (4 * BITS) == 0 ? span[bit / 32] >> bit % 32 : window(span, part, bit);
    const uint4 mask = uint4((1u << BITS) - 1) << uint4(0, 1, 2, 3) * BITS;
    return float4(int4(uint4(codes) & mask));
  }
  // The bits from `bit` on, where they may lie in two words; what follows those of four codes may be anything.
  static METAL_FUNC uint window(device const uint *span, uint part, uint bit) {
    const uint low = bit / 32, shift = bit % 32, held = BITS == 3 ? 2 : 4;
    // The quad reads each word once: the first two or four, and the one or two after them.
    const uint2 both = uint2(span[part % held], span[held + part % (BITS - held)]);
    const uint2 here = quad_shuffle(both, ushort(low % held)), next = quad_shuffle(both, ushort((low + 1) % held));
    return (low < held ? here.x : here.y) >> shift | (low + 1 < held ? next.x : next.y) << 1 << (31 - shift);
  }
  METAL_FUNC float product(uint row, uint group, uint part, thread const Inputs &inputs) const thread {
    device const uint *from = words + row * words_per_row + (group << GROUP_SHIFT) * BITS;
    float4 dot = 0.0f;
#pragma unroll
    for (uint s = 0; s < 1u << GROUP_SHIFT; ++s)
#pragma unroll
      for (uint i = 0; i < 2; ++i) dot += quad(from + s * BITS, part, i) * inputs.x[2 * s + i];
    const uint at = row * groups_per_row + group;
    if (MXFP4) {
      return 0.5f * e8m0(scales[at]) * (add_four(dot) + E2M1_OFFSET * inputs.total);
    }
    return factor(scales, at) * add_four(dot) + factor(biases, at) * inputs.total;
  }
};

METAL_FUNC QuadAffine quad_affine(device const uint *words, device const uchar *scales, device const uchar *biases,
                                  uint length, uint rows) {
  return {words, scales, biases, length / 32 * BITS, length / (32 << GROUP_SHIFT), rows};
}
