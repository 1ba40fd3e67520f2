// out[i, :] = x[ids[i], :], as bits, times a number, or from packed weights; zeros where x has no such row.
#include <metal_stdlib>
using namespace metal;
#include "shared/parts.h"

constant long NO_ROW = -1;

// Signed ids below zero count from the last row.
inline long row_of(uint id, uint rows, bool is_signed) {
  const long row = is_signed ? long(int(id)) + (int(id) < 0 ? rows : 0) : long(id);
  return row >= 0 && row < rows ? row : NO_ROW;
}

// A thread for PARTS columns of each id.
template <typename T>
kernel void gather(device const T *x [[buffer(0)]],
                   device const uint *ids [[buffer(1)]],
                   device T *out [[buffer(2)]],
                   constant uint &rows [[buffer(3)]],
                   constant uint &width [[buffer(4)]],
                   constant bool &is_signed [[buffer(5)]],
                   uint2 at [[thread_position_in_grid]]) {
  const long row = row_of(ids[at.y], rows, is_signed);
  x += row * width;
  out += ulong(at.y) * width;
  EACH_COLUMN(at.x, out[column] = row == NO_ROW ? T(0) : x[column])
}

template <typename T>
kernel void embedding(device const T *table [[buffer(0)]],
                      device const uint *ids [[buffer(1)]],
                      device T *out [[buffer(2)]],
                      constant uint &rows [[buffer(3)]],
                      constant uint &width [[buffer(4)]],
                      constant bool &is_signed [[buffer(5)]],
                      constant float &scale [[buffer(6)]],
                      uint2 at [[thread_position_in_grid]]) {
  const long row = row_of(ids[at.y], rows, is_signed);
  table += row * width;
  out += ulong(at.y) * width;
  EACH_COLUMN(at.x, out[column] = row == NO_ROW ? T(0) : T(float(table[column]) * scale))
}

constant uint BITS [[function_constant(0)]];
constant uint GROUP_SIZE [[function_constant(1)]];

struct Packed {
  uint rows, width;
  uint is_signed;
  float scale;
};

// Rows of values of BITS bits each, packed from the lowest bit up, and a scale and a bias for each group of them:
// T(T(scale * q) + bias), a rounding after each step as MLX has it, times `p.scale`.
template <typename S, typename T>
kernel void quantized_embedding(device const uint *w [[buffer(0)]],
                                device const S *scales [[buffer(1)]],
                                device const S *biases [[buffer(2)]],
                                device const uint *ids [[buffer(3)]],
                                device T *out [[buffer(4)]],
                                constant Packed &p [[buffer(5)]],
                                uint2 at [[thread_position_in_grid]]) {
  const long row = row_of(ids[at.y], p.rows, p.is_signed);
  T value = T(0.0f);
  if (row != NO_ROW) {
#pragma METAL fp contract(off)
    device const uint *words = w + row * (p.width / 32 * BITS);
    const uint bit = at.x * BITS, shift = bit % 32;
    uint q = words[bit / 32] >> shift;
    if (32 % BITS != 0 && shift + BITS > 32) {
      q |= words[bit / 32 + 1] << (32 - shift);
    }
    q &= (1u << BITS) - 1;
    const long group = row * (p.width / GROUP_SIZE) + at.x / GROUP_SIZE;
    float product = float(T(float(scales[group]) * float(q)));
    value = T(product + float(biases[group]));
  }
  out[ulong(at.y) * p.width + at.x] = T(float(value) * p.scale);
}

#define KERNEL(name, ...) template [[host_name(name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;
KERNEL("gather_8", gather<uchar>)
KERNEL("gather_16", gather<ushort>)
KERNEL("gather_32", gather<uint>)
KERNEL("gather_64", gather<ulong>)

#define FOR_TYPE(name, T) \
  KERNEL("embedding_" #name, embedding<T>) \
  KERNEL("quantized_embedding_" #name "_" #name, quantized_embedding<T, T>)
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
KERNEL("quantized_embedding_f16_f32", quantized_embedding<half, float>)
KERNEL("quantized_embedding_bf16_f32", quantized_embedding<bfloat, float>)
