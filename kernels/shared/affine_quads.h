// Weights in groups as the four lanes of a quad read them together.
#pragma once
#include "shared/affine.h"
#include "shared/quad_matvec.h"
#include "shared/quads.h"
#include "shared/weights.h"

constant uint GROUP_SHIFT [[function_constant(3)]];
constant uint SCALE_TYPE [[function_constant(4)]];

constant constexpr int E2M1_OFFSET = -31;

// Four codes of e2m1 in bytes: twice their values, and 31 more.
METAL_FUNC uint e2m1_bytes(uint codes) {
  constexpr uint ones = 0x01010101;
  const uint upper = codes >> 2 & ones, odd = codes & upper, second = codes >> 1 & upper, sign = codes >> 3 & ones;
  const uint sizes = (codes & 7 * ones) + odd + 2 * second + 2 * (odd & second);
  return (sizes ^ sign * 31) + (ones - sign) * 31;
}

struct QuadAffine {
  // A lane's codes of a group.
  struct Codes {
    device const uint *words;
    uint part;
    uint eights[4];  // of 3 bits: the lane's eight codes of each span

    Codes(device const uint *at, uint lane_part) : words(at), part(lane_part) {
      if (BITS == 3 && GROUP_SHIFT == 0) {
        const uint one = words[part % 2], third = words[2];
        const uint here = quad_shuffle(one, ushort(part / 2)), next = quad_shuffle(one, ushort(1));
        eights[0] = eight_of_three(part == 3 ? third : here, part < 2 ? next : third);
      }
      if (BITS == 3 && GROUP_SHIFT != 0) {
        // Two spans are six words: the first four and the last four, of which each span has three.
#pragma unroll
        for (uint s = 0; s < 1u << GROUP_SHIFT; s += 2) {
          const uint first = words[3 * s + part], last = words[3 * s + 2 + part];
          const ushort here = part - min(part, 1u), next = min(part, 2u);
          eights[s] = eight_of_three(quad_shuffle(first, here), quad_shuffle(first, next));
          eights[s + 1] = eight_of_three(quad_shuffle(last, ushort(here + 1)), quad_shuffle(last, ushort(next + 1)));
        }
      }
    }
    METAL_FUNC float4 quad(uint run) const thread {
      device const uint *span = words + run / 2 * BITS;
      const uint i = run % 2;
      if (MXFP4) {
        return ByteUnits::values(e2m1_bytes(span[part] >> 4 * i));
      }
      if (BITS == 8) {
        return ByteUnits::values(span[4 * i + part]);
      }
      const uint bit = (8 * part + 4 * i) * BITS;
      const uint codes = BITS == 3                ? eights[run / 2] >> 12 * i
                         : 32 % (4 * BITS) == 0 ? span[bit / 32] >> bit % 32
                                                : window(span, bit);
      const uint4 mask = uint4((1u << BITS) - 1) << uint4(0, 1, 2, 3) * BITS;
      return float4(int4(uint4(codes) & mask));
    }
    // 24 bits from bit 24 * part of three words on, out of the word that this bit is in and the next one.
    METAL_FUNC uint eight_of_three(uint here, uint next) const thread {
      const uint shift = 24 * part % 32;
      return here >> shift | next << 1 << (31 - shift);
    }
    // The bits from `bit` on, where they may lie in two words; what follows those of four codes may be anything.
    METAL_FUNC uint window(device const uint *span, uint bit) const thread {
      const uint low = bit / 32, shift = bit % 32, held = 4;
      // The quad reads each word once: the first four, and the one or two after them.
      const uint2 both = uint2(span[part % held], span[held + part % (BITS - held)]);
      const uint2 here = quad_shuffle(both, ushort(low % held)), next = quad_shuffle(both, ushort((low + 1) % held));
      return (low < held ? here.x : here.y) >> shift | (low + 1 < held ? next.x : next.y) << 1 << (31 - shift);
    }
  };

  device const uint *words;
  device const uchar *scales, *biases;
  uint words_per_row, groups_per_row;
  ulong rows;

  static METAL_FUNC uint spans() { return 1u << GROUP_SHIFT; }
  static METAL_FUNC uint groups() { return 1; }
  static METAL_FUNC uint scale_bytes() { return SCALE_TYPE == SCALES_F32 ? 4 : SCALE_TYPE == SCALES_E8M0 ? 1 : 2; }
  METAL_FUNC void move(ulong matrix) thread { go(matrix * rows); }
  METAL_FUNC void go(ulong row) thread {
    words += row * words_per_row;
    scales += row * groups_per_row * scale_bytes();
    biases += row * groups_per_row * scale_bytes();
  }

  // Lane `part` has eight values side by side, as two runs of four; bytes are words of their own.
  static METAL_FUNC uint slot(uint i) {
    const uint part = BITS == 8 ? i % 16 / 4 : i / 8;
    const uint run = BITS == 8 ? i / 16 : MXFP4 ? i % 2 : i % 8 / 4, place = MXFP4 ? i % 8 / 2 : i % 4;
    return 16 * run + 4 * place + part;
  }
  static METAL_FUNC float unit(uint i) {
    return MXFP4 ? ByteUnits::input(i % 8 / 2) : BITS == 8 ? ByteUnits::input(i % 4) : 1.0f / (1u << i % 4 * BITS);
  }
  METAL_FUNC float factor(device const uchar *of, uint index) const thread {
    return SCALE_TYPE == SCALES_F32   ? ((device const float *)of)[index]
           : SCALE_TYPE == SCALES_F16 ? float(((device const half *)of)[index])
                                      : float(((device const bfloat *)of)[index]);
  }
  METAL_FUNC float2 factors(uint row, uint span, uint) const thread {
    const uint at = row * groups_per_row + (span >> GROUP_SHIFT);
    if (MXFP4) {
      const float scale = 0.5f * e8m0(scales[at]);
      return float2(scale, E2M1_OFFSET * scale);
    }
    return float2(factor(scales, at), factor(biases, at));
  }
  METAL_FUNC Codes codes(uint row, uint span, uint part) const thread {
    return Codes(words + row * words_per_row + span * BITS, part);
  }
};

METAL_FUNC QuadAffine quad_affine(device const uint *words, device const uchar *scales, device const uchar *biases,
                                  uint length, uint rows) {
  return {words, scales, biases, length / 32 * BITS, length / (32 << GROUP_SHIFT), rows};
}
