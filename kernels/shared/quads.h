// Four codes of a word as floats. Codes stay where they lie in the word: what they are multiplied by is divided instead,
// by powers of two, so that nothing is rounded.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Four bytes wherever they lie, the first one lowest.
METAL_FUNC uint four_bytes(device const uchar *at) { return as_type<uint>(uchar4(*(device const packed_uchar4 *)at)); }

METAL_FUNC float add_four(float4 v) { return (v.x + v.y) + (v.z + v.w); }

// Numbers as they are.
struct PlainUnits {
  static METAL_FUNC float input(uint) { return 1.0f; }
};

// Four bytes; the highest one is moved, because floats are made of signed numbers.
struct ByteUnits {
  static METAL_FUNC float input(uint i) { return i % 3 == 0 ? 1.0f : i == 1 ? 1.0f / 256.0f : 1.0f / 65536.0f; }
  static METAL_FUNC float4 values(uint bytes) {
    return float4(int4(int(bytes & 0xff), int(bytes & 0xff00), int(bytes & 0xff0000), int(bytes >> 24)));
  }
};
