// GGML's blocks as the four lanes of a quad read them together: one struct for each format.
//
// A block has QUADS runs of 16 values; lane `part` of a quad takes four values of each run. `quad(i)` is those of run
// i, as floats without their offset, in the units of UNITS. PER runs share a scale: `fine(f)` has the scale and the
// minimum of the f-th such group in units of `whole()`, (scale, minimum) of the block, where FINE. A value is
// whole.x * fine.x * (q + OFFSET) + whole.y * fine.y, the last term only where BIASED.
#pragma once
#include "shared/ggml_blocks.h"
#include "shared/quads.h"
#include "shared/weights.h"

constant constexpr uint NIBBLES = 0x0f0f0f0f, PAIRS = 0x03030303, ONES = 0x01010101;

// The lowest four bits, one to a byte.
METAL_FUNC uint bit_to_byte(uint bits) { return (bits & 15) * 0x00204081u & ONES; }

template <typename Block>
struct QuadBlock;

template <>
struct QuadBlock<Q4_0> {
  enum { QUADS = 2, PER = 2, OFFSET = -8, BIASED = 0, FINE = 0 };
  typedef ByteUnits UNITS;
  float scale;
  uint codes;
  QuadBlock(Bytes block, uint part) : scale(half_at(block)), codes(four_bytes(block + 2 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes >> 4 * i & NIBBLES); }
  METAL_FUNC float2 whole() const thread { return float2(scale, 0.0f); }
  METAL_FUNC float2 fine(uint) const thread { return 1.0f; }
};

template <>
struct QuadBlock<Q4_1> {
  enum { QUADS = 2, PER = 2, OFFSET = 0, BIASED = 1, FINE = 0 };
  typedef ByteUnits UNITS;
  float2 factors;
  uint codes;
  QuadBlock(Bytes block, uint part)
      : factors(half_at(block), half_at(block + 2)), codes(four_bytes(block + 4 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes >> 4 * i & NIBBLES); }
  METAL_FUNC float2 whole() const thread { return factors; }
  METAL_FUNC float2 fine(uint) const thread { return 1.0f; }
};

template <>
struct QuadBlock<Q5_0> {
  enum { QUADS = 2, PER = 2, OFFSET = -16, BIASED = 0, FINE = 0 };
  typedef ByteUnits UNITS;
  float scale;
  uint fifth, codes;
  QuadBlock(Bytes block, uint part)
      : scale(half_at(block)), fifth(four_bytes(block + 2) >> 4 * part), codes(four_bytes(block + 6 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes >> 4 * i & NIBBLES | bit_to_byte(fifth >> 16 * i) << 4);
  }
  METAL_FUNC float2 whole() const thread { return float2(scale, 0.0f); }
  METAL_FUNC float2 fine(uint) const thread { return 1.0f; }
};

template <>
struct QuadBlock<Q5_1> {
  enum { QUADS = 2, PER = 2, OFFSET = 0, BIASED = 1, FINE = 0 };
  typedef ByteUnits UNITS;
  float2 factors;
  uint fifth, codes;
  QuadBlock(Bytes block, uint part)
      : factors(half_at(block), half_at(block + 2)),
        fifth(four_bytes(block + 4) >> 4 * part),
        codes(four_bytes(block + 8 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes >> 4 * i & NIBBLES | bit_to_byte(fifth >> 16 * i) << 4);
  }
  METAL_FUNC float2 whole() const thread { return factors; }
  METAL_FUNC float2 fine(uint) const thread { return 1.0f; }
};

template <>
struct QuadBlock<Q8_0> {
  enum { QUADS = 2, PER = 2, OFFSET = -128, BIASED = 0, FINE = 0 };
  typedef ByteUnits UNITS;
  float scale;
  uint codes[2];
  QuadBlock(Bytes block, uint part) : scale(half_at(block)) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) codes[i] = four_bytes(block + 2 + 16 * i + 4 * part) ^ 0x80808080;
  }
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes[i]); }
  METAL_FUNC float2 whole() const thread { return float2(scale, 0.0f); }
  METAL_FUNC float2 fine(uint) const thread { return 1.0f; }
};

template <>
struct QuadBlock<IQ4_NL> {
  enum { QUADS = 2, PER = 2, OFFSET = 0, BIASED = 0, FINE = 0 };
  typedef PlainUnits UNITS;
  float scale;
  uint codes;
  QuadBlock(Bytes block, uint part) : scale(half_at(block)), codes(four_bytes(block + 2 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread {
    return float4(iq4_nl_value(int4(uint4(codes) >> (uint4(0, 8, 16, 24) + 4 * i) & 15)));
  }
  METAL_FUNC float2 whole() const thread { return float2(scale, 0.0f); }
  METAL_FUNC float2 fine(uint) const thread { return 1.0f; }
};

// Byte i of four words that the lanes of a quad hold.
METAL_FUNC float held_byte(uint words, uint i) {
  return float(int(quad_broadcast(words, ushort(i / 4)) >> (i % 4 * 8) & 255));
}

template <>
struct QuadBlock<Q2_K> {
  enum { QUADS = 16, PER = 1, OFFSET = 0, BIASED = 1, FINE = 1 };
  typedef ByteUnits UNITS;
  float2 factors;
  uint scales, least, codes[4];
  QuadBlock(Bytes block, uint part) : factors(half_at(block + 80), -half_at(block + 82)) {
    const uint both = four_bytes(block + 4 * part);
    scales = both & NIBBLES;
    least = both >> 4 & NIBBLES;
#pragma unroll
    for (uint i = 0; i < 4; ++i) codes[i] = four_bytes(block + 16 + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes[i / 8 * 2 + i % 2] >> i % 8 / 2 * 2 & PAIRS);
  }
  METAL_FUNC float2 whole() const thread { return factors; }
  METAL_FUNC float2 fine(uint f) const thread { return float2(held_byte(scales, f), held_byte(least, f)); }
};

template <>
struct QuadBlock<Q3_K> {
  enum { QUADS = 16, PER = 1, OFFSET = -4, BIASED = 0, FINE = 1 };
  typedef ByteUnits UNITS;
  float scale;
  uint scales, third[2], codes[4];
  QuadBlock(Bytes block, uint part) : scale(half_at(block + 108)) {
    // Four scales to a lane: their lower halves in the nibbles of eight bytes, the upper ones in pairs of four bytes.
    const uint low = four_bytes(block + 96 + part % 2 * 4) >> part / 2 * 4 & NIBBLES;
    scales = low | (four_bytes(block + 104) >> part * 2 & PAIRS) << 4;
#pragma unroll
    for (uint i = 0; i < 2; ++i) third[i] = four_bytes(block + 16 * i + 4 * part);
#pragma unroll
    for (uint i = 0; i < 4; ++i) codes[i] = four_bytes(block + 32 + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes[i / 8 * 2 + i % 2] >> i % 8 / 2 * 2 & PAIRS | (third[i % 2] >> i / 2 & ONES) << 2);
  }
  METAL_FUNC float2 whole() const thread { return float2(scale, 0.0f); }
  METAL_FUNC float2 fine(uint f) const thread { return held_byte(scales, f) - 32.0f; }
};

// The scales and minima of Q4_K and Q5_K.
struct QuadScales {
  float2 factors;
  uint scales[2], least[2];
  QuadScales(Bytes block, uint part) : factors(half_at(block), -half_at(block + 2)) {
    const uint words = four_bytes(block + 4 * part);
    const uint a = quad_broadcast(words, ushort(1)), b = quad_broadcast(words, ushort(2));
    const uint c = quad_broadcast(words, ushort(3));
    scales[0] = a & 0x3f3f3f3f;
    scales[1] = c & NIBBLES | a >> 2 & 0x30303030;
    least[0] = b & 0x3f3f3f3f;
    least[1] = c >> 4 & NIBBLES | b >> 2 & 0x30303030;
  }
  METAL_FUNC float2 fine(uint f) const thread {
    return float2(int2(int(scales[f / 4] >> (f % 4 * 8) & 255), int(least[f / 4] >> (f % 4 * 8) & 255)));
  }
};

template <>
struct QuadBlock<Q4_K> {
  enum { QUADS = 16, PER = 2, OFFSET = 0, BIASED = 1, FINE = 1 };
  typedef ByteUnits UNITS;
  QuadScales scales;
  uint codes[8];
  QuadBlock(Bytes block, uint part) : scales(block, part) {
#pragma unroll
    for (uint i = 0; i < 8; ++i) codes[i] = four_bytes(block + 16 + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes[i / 4 * 2 + i % 2] >> i % 4 / 2 * 4 & NIBBLES);
  }
  METAL_FUNC float2 whole() const thread { return scales.factors; }
  METAL_FUNC float2 fine(uint f) const thread { return scales.fine(f); }
};

template <>
struct QuadBlock<Q5_K> {
  enum { QUADS = 16, PER = 2, OFFSET = 0, BIASED = 1, FINE = 1 };
  typedef ByteUnits UNITS;
  QuadScales scales;
  uint fifth[2], codes[8];
  QuadBlock(Bytes block, uint part) : scales(block, part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) fifth[i] = four_bytes(block + 16 + 16 * i + 4 * part);
#pragma unroll
    for (uint i = 0; i < 8; ++i) codes[i] = four_bytes(block + 48 + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread {
    const uint low = codes[i / 4 * 2 + i % 2] >> i % 4 / 2 * 4 & NIBBLES;
    return UNITS::values(low | (fifth[i % 2] >> i / 2 & ONES) << 4);
  }
  METAL_FUNC float2 whole() const thread { return scales.factors; }
  METAL_FUNC float2 fine(uint f) const thread { return scales.fine(f); }
};

template <>
struct QuadBlock<Q6_K> {
  enum { QUADS = 16, PER = 1, OFFSET = -32, BIASED = 0, FINE = 1 };
  typedef ByteUnits UNITS;
  float scale;
  uint scales, upper[4], codes[8];
  QuadBlock(Bytes block, uint part) : scale(half_at(block + 208)) {
    scales = four_bytes(block + 192 + 4 * part) ^ 0x80808080;
#pragma unroll
    for (uint i = 0; i < 4; ++i) upper[i] = four_bytes(block + 128 + 16 * i + 4 * part);
#pragma unroll
    for (uint i = 0; i < 8; ++i) codes[i] = four_bytes(block + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread {
    const uint plane = i % 8 / 2;
    const uint low = codes[i / 8 * 4 + i % 4] >> plane / 2 * 4 & NIBBLES;
    return UNITS::values(low | (upper[i / 8 * 2 + i % 2] >> plane * 2 & PAIRS) << 4);
  }
  METAL_FUNC float2 whole() const thread { return float2(scale, 0.0f); }
  METAL_FUNC float2 fine(uint f) const thread { return held_byte(scales, f) - 128.0f; }
};

// A matrix of blocks as quads read it.
template <typename Block>
struct QuadBlocks {
  typedef QuadBlock<Block> Quad;
  enum { GROUPS = Quad::QUADS / Quad::PER };

  // A lane's values of x for a block, and their sums for each scale.
  struct Inputs {
    float4 x[Quad::QUADS];
    float totals[GROUPS];
    template <typename T>
    Inputs(device const T *from, uint part) {
#pragma unroll
      for (uint i = 0; i < Quad::QUADS; ++i) {
        const float4 four = four_of(from + 16 * i + 4 * part);
        const float total = add_four(four);
        totals[i / Quad::PER] = i % Quad::PER == 0 ? total : totals[i / Quad::PER] + total;
        x[i] = Quad::UNITS::inputs(four);
      }
    }
  };

  Bytes bytes;
  uint row_bytes;
  ulong matrix_bytes;
  QuadBlocks(Bytes w, uint length, uint rows)
      : bytes(w), row_bytes(length / Block::VALUES * Block::BYTES), matrix_bytes(ulong(row_bytes) * rows) {}
  static METAL_FUNC uint step() { return Block::VALUES; }
  METAL_FUNC void move(ulong matrix) thread { bytes += matrix * matrix_bytes; }
  METAL_FUNC void go(ulong row) thread { bytes += row * row_bytes; }
  METAL_FUNC float product(uint row, uint step, uint part, thread const Inputs &inputs) const thread {
    const Quad block(bytes + row * row_bytes + step * Block::BYTES, part);
    float scaled = 0.0f, biased = 0.0f;
#pragma unroll
    for (uint f = 0; f < GROUPS; ++f) {
      float4 dot = 0.0f;
#pragma unroll
      for (uint i = f * Quad::PER; i < (f + 1) * Quad::PER; ++i) dot += block.quad(i) * inputs.x[i];
      const float sum = Quad::OFFSET * inputs.totals[f] + add_four(dot);
      scaled = Quad::FINE ? scaled + block.fine(f).x * sum : sum;
      biased = Quad::FINE ? biased + block.fine(f).y * inputs.totals[f] : inputs.totals[f];
    }
    return Quad::BIASED ? block.whole().x * scaled + block.whole().y * biased : block.whole().x * scaled;
  }
};
