// GGML's blocks as the four lanes of a quad read them together: one struct for each format.
//
// Of UNIT spans of 32 values, lane `part` of a quad takes four values of each 16: `quad(i)` is those of run i, as
// floats in the units of UNITS. A value is scale * (q + OFFSET) + bias, with the block's own factors.
#pragma once
#include "shared/ggml_blocks.h"
#include "shared/quad_matvec.h"
#include "shared/quads.h"

constant constexpr uint NIBBLES = 0x0f0f0f0f, PAIRS = 0x03030303, ONES = 0x01010101;

// The lowest four bits, one to a byte.
METAL_FUNC uint bit_to_byte(uint bits) { return (bits & 15) * 0x00204081u & ONES; }

// A lane's codes of unit `u` of a block.
template <typename Block>
struct QuadBlock;

template <>
struct QuadBlock<Q4_0> {
  enum { UNIT = 1, OFFSET = -8 };
  typedef ByteUnits UNITS;
  uint codes;
  QuadBlock(Bytes block, uint, uint part) : codes(four_bytes(block + 2 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes >> 4 * i & NIBBLES); }
};

template <>
struct QuadBlock<Q4_1> {
  enum { UNIT = 1, OFFSET = 0 };
  typedef ByteUnits UNITS;
  uint codes;
  QuadBlock(Bytes block, uint, uint part) : codes(four_bytes(block + 4 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes >> 4 * i & NIBBLES); }
};

template <>
struct QuadBlock<Q5_0> {
  enum { UNIT = 1, OFFSET = -16 };
  typedef ByteUnits UNITS;
  uint fifth, codes;
  QuadBlock(Bytes block, uint, uint part)
      : fifth(four_bytes(block + 2) >> 4 * part), codes(four_bytes(block + 6 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes >> 4 * i & NIBBLES | bit_to_byte(fifth >> 16 * i) << 4);
  }
};

template <>
struct QuadBlock<Q5_1> {
  enum { UNIT = 1, OFFSET = 0 };
  typedef ByteUnits UNITS;
  uint fifth, codes;
  QuadBlock(Bytes block, uint, uint part)
      : fifth(four_bytes(block + 4) >> 4 * part), codes(four_bytes(block + 8 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes >> 4 * i & NIBBLES | bit_to_byte(fifth >> 16 * i) << 4);
  }
};

template <>
struct QuadBlock<Q8_0> {
  enum { UNIT = 1, OFFSET = -128 };
  typedef ByteUnits UNITS;
  uint codes[2];
  QuadBlock(Bytes block, uint, uint part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) codes[i] = four_bytes(block + 2 + 16 * i + 4 * part) ^ 0x80808080;
  }
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes[i]); }
};

template <>
struct QuadBlock<IQ4_NL> {
  enum { UNIT = 1, OFFSET = 0 };
  typedef PlainUnits UNITS;
  uint codes;
  QuadBlock(Bytes block, uint, uint part) : codes(four_bytes(block + 2 + 4 * part)) {}
  METAL_FUNC float4 quad(uint i) const thread {
    return iq4_nl_values(codes >> 4 * i);
  }
};

template <>
struct QuadBlock<Q2_K> {
  enum { UNIT = 4, OFFSET = 0 };
  typedef ByteUnits UNITS;
  uint codes[2];
  QuadBlock(Bytes block, uint u, uint part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) codes[i] = four_bytes(block + 16 + 32 * u + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes[i % 2] >> i / 2 * 2 & PAIRS); }
};

template <>
struct QuadBlock<Q3_K> {
  enum { UNIT = 4, OFFSET = -4 };
  typedef ByteUnits UNITS;
  uint third[2], codes[2];
  QuadBlock(Bytes block, uint u, uint part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) {
      third[i] = four_bytes(block + 16 * i + 4 * part) >> 4 * u;
      codes[i] = four_bytes(block + 32 + 32 * u + 16 * i + 4 * part);
    }
  }
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes[i % 2] >> i / 2 * 2 & PAIRS | (third[i % 2] >> i / 2 & ONES) << 2);
  }
};

template <>
struct QuadBlock<Q4_K> {
  enum { UNIT = 2, OFFSET = 0 };
  typedef ByteUnits UNITS;
  uint codes[2];
  QuadBlock(Bytes block, uint u, uint part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) codes[i] = four_bytes(block + 16 + 32 * u + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread { return UNITS::values(codes[i % 2] >> i / 2 * 4 & NIBBLES); }
};

template <>
struct QuadBlock<Q5_K> {
  enum { UNIT = 2, OFFSET = 0 };
  typedef ByteUnits UNITS;
  uint fifth[2], codes[2];
  QuadBlock(Bytes block, uint u, uint part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) {
      fifth[i] = four_bytes(block + 16 + 16 * i + 4 * part) >> 2 * u;
      codes[i] = four_bytes(block + 48 + 32 * u + 16 * i + 4 * part);
    }
  }
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes[i % 2] >> i / 2 * 4 & NIBBLES | (fifth[i % 2] >> i / 2 & ONES) << 4);
  }
};

template <>
struct QuadBlock<Q6_K> {
  enum { UNIT = 4, OFFSET = -32 };
  typedef ByteUnits UNITS;
  uint upper[2], codes[4];
  QuadBlock(Bytes block, uint u, uint part) {
#pragma unroll
    for (uint i = 0; i < 2; ++i) upper[i] = four_bytes(block + 128 + 32 * u + 16 * i + 4 * part);
#pragma unroll
    for (uint i = 0; i < 4; ++i) codes[i] = four_bytes(block + 64 * u + 16 * i + 4 * part);
  }
  METAL_FUNC float4 quad(uint i) const thread {
    return UNITS::values(codes[i % 4] >> i / 4 * 4 & NIBBLES | (upper[i % 2] >> i / 2 * 2 & PAIRS) << 4);
  }
};

// A matrix of blocks as quads read it.
template <typename Block>
struct QuadBlocks {
  typedef QuadBlock<Block> Codes;
  enum { SPANS = Block::VALUES / 32, GROUPS = 32 / Block::SPAN };
  static METAL_FUNC uint spans() { return Codes::UNIT; }
  static METAL_FUNC uint groups() { return Codes::UNIT * GROUPS; }

  Bytes bytes;
  uint row_bytes;
  ulong matrix_bytes;
  QuadBlocks(Bytes w, uint length, uint rows)
      : bytes(w), row_bytes(length / Block::VALUES * Block::BYTES), matrix_bytes(ulong(row_bytes) * rows) {}
  METAL_FUNC void move(ulong matrix) thread { bytes += matrix * matrix_bytes; }
  METAL_FUNC void go(ulong row) thread { bytes += row * row_bytes; }
  METAL_FUNC Bytes block(uint row, uint span) const thread {
    return bytes + row * row_bytes + span / SPANS * Block::BYTES;
  }

  static METAL_FUNC uint slot(uint i) { return i / 16 * 16 + i % 4 * 4 + i % 16 / 4; }
  static METAL_FUNC float unit(uint i) { return Codes::UNITS::input(i % 4); }
  METAL_FUNC float2 factors(uint row, uint span, uint group) const thread {
    const float2 both = Block::factors(block(row, span), span % SPANS / Codes::UNIT * groups() + group);
    return float2(both.x, Block::BIASED ? both.y : Codes::OFFSET * both.x);
  }
  METAL_FUNC Codes codes(uint row, uint span, uint part) const thread {
    return Codes(block(row, span), span % SPANS / Codes::UNIT, part);
  }
};
