// Weights in groups as the four lanes of a quad read them together.
#pragma once
#include "shared/affine.h"
#include "shared/quad_matvec.h"
#include "shared/quads.h"
#include "shared/weights.h"

constant uint GROUP_SHIFT [[function_constant(3)]];
constant uint SCALE_TYPE [[function_constant(4)]];

struct QuadAffine {
  // A lane's codes of a group.
  struct Codes {
    device const uint *words;
    uint part;
    uint held[2][3];  // of codes that lie across words: the words of one or two spans at a time, four to a quad

    // Whether four codes never lie in two words.
    static METAL_FUNC bool is_whole() { return 32 % (4 * BITS) == 0; }
    static METAL_FUNC uint spans_held() { return GROUP_SHIFT == 0 ? 1 : 2; }
    static METAL_FUNC uint words_held() { return spans_held() * BITS; }
    static METAL_FUNC uint start(uint four) { return min(4 * four, max(words_held(), 4u) - 4); }

    Codes(device const uint *at, uint lane_part) : words(at), part(lane_part) {
      if (!is_whole()) {
#pragma unroll
        for (uint s = 0; s < (1u << GROUP_SHIFT) / spans_held(); ++s)
#pragma unroll
          for (uint j = 0; 4 * j < words_held(); ++j)
            held[s][j] = words[s * words_held() + min(start(j) + part, words_held() - 1)];
      }
    }
    METAL_FUNC float4 quad(uint run) const thread {
      const uint span = run / 2, i = run % 2, bit = 8 * part * BITS, next = 4 * i * BITS;
      device const uint *from = words + span * BITS;
      if (MXFP4) {
        return e2m1(from[part] >> next);
      }
      if (BITS == 8) {
        return ByteUnits::values(from[4 * i + part]);
      }
      const uint codes = is_whole() ? from[(bit + next) / 32] >> (bit + next) % 32
                         : BITS == 3 ? window(span, bit) >> next
                                     : window(span, bit + next);
      const uint4 mask = uint4((1u << BITS) - 1) << uint4(0, 1, 2, 3) * BITS;
      return float4(int4(uint4(codes) & mask));
    }
    // The bits of a span from `bit` on; what follows those of the lane's codes may be anything.
    METAL_FUNC uint window(uint span, uint bit) const thread {
      const uint at = span % spans_held() * 32 * BITS + bit, shift = at % 32;
      const uint here = word(span / spans_held(), at / 32), next = word(span / spans_held(), at / 32 + 1);
      return shift == 0 ? here : here >> shift | next << (32 - shift);
    }
    METAL_FUNC uint word(uint set, uint index) const thread {
      uint word = quad_shuffle(held[set][0], ushort(index % 4));
#pragma unroll
      for (uint j = 1; 4 * j < words_held(); ++j) {
        const uint other = quad_shuffle(held[set][j], ushort((index - start(j)) % 4));
        word = index < start(j) ? word : other;
      }
      return word;
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
    const uint run = BITS == 8 ? i / 16 : i % 8 / 4;
    return 16 * run + 4 * (i % 4) + part;
  }
  static METAL_FUNC float unit(uint i) {
    return MXFP4 ? 1.0f : BITS == 8 ? ByteUnits::input(i % 4) : 1.0f / (1u << i % 4 * BITS);
  }
  METAL_FUNC float factor(device const uchar *of, uint index) const thread {
    return SCALE_TYPE == SCALES_F32   ? ((device const float *)of)[index]
           : SCALE_TYPE == SCALES_F16 ? float(((device const half *)of)[index])
                                      : float(((device const bfloat *)of)[index]);
  }
  METAL_FUNC float2 factors(uint row, uint span, uint) const thread {
    const uint at = row * groups_per_row + (span >> GROUP_SHIFT);
    if (MXFP4) {
      return float2(e8m0(scales[at]), 0.0f);
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
