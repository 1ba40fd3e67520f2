// Rows of new keys and values into caches [batch, heads, capacity, dim], at a position of each sequence: as they are,
// in another type, or as scale * q + bias with q of 8 or 4 bits.
#include <metal_stdlib>
using namespace metal;

#include "shared/cache_rows.h"
#include "shared/parts.h"

// A thread for PARTS columns, each head and token, and each batch and whether it is a key or a value.
template <typename S, typename T>
kernel void kv_cache_copy(device const S *keys [[buffer(0)]],
                          device const S *values [[buffer(1)]],
                          device T *key_cache [[buffer(2)]],
                          device T *value_cache [[buffer(3)]],
                          constant uint *positions [[buffer(4)]],
                          constant Copy &c [[buffer(5)]],
                          uint3 at [[thread_position_in_grid]]) {
  const uint head = at.y % c.heads, token = at.y / c.heads, batch = at.z / 2, which = at.z % 2, dim = c.dim[which];
  const long row = cache_row(c, positions, batch, head, token);
  if (row < 0 || at.x >= dim / PARTS) return;
  device const S *from = (which ? values : keys) + source_row(c, batch, head, token) * dim;
  device T *to = (which ? value_cache : key_cache) + ulong(row) * dim;
  EACH_COLUMN(at.x, to[column] = T(from[column]))
}

// One group of columns by a simdgroup; the end of its range that is farther from zero, and zero, are met exactly.
template <typename T, uint bits>
METAL_FUNC void quantize_group(device const T *from, uint size, device uchar *codes, device T *scales, device T *biases,
                               uint lane) {
  constexpr float most_code = (1 << bits) - 1;
  float high = -INFINITY, low = INFINITY;
  for (uint i = lane; i < size; i += 32) {
    high = max(high, float(from[i]));
    low = min(low, float(from[i]));
  }
  high = simd_max(high);
  low = simd_min(low);
  const bool below = abs(low) > abs(high);
  const float edge = below ? low : high, step = max((high - low) / most_code, 1e-7f) * (below ? 1.0f : -1.0f);
  const float edge_code = rint(edge / step);
  const float scale = edge_code == 0.0f ? step : edge / edge_code, bias = edge_code == 0.0f ? 0.0f : edge;
  for (uint i = lane; i < size; i += 32) {
    const uint code = uint(clamp(rint((float(from[i]) - bias) / scale), 0.0f, most_code));
    if (bits == 8) {
      codes[i] = uchar(code);
    } else {
      const uint next = simd_shuffle_xor(code, 1);
      if (lane % 2 == 0) codes[i / 2] = uchar(code | next << 4);
    }
  }
  if (lane == 0) {
    *scales = T(scale);
    *biases = T(bias);
  }
}

template <typename T, uint bits>
kernel void kv_cache_quantize(device const T *keys [[buffer(0)]],
                              device const T *values [[buffer(1)]],
                              device uint *key_words [[buffer(2)]],
                              device T *key_scales [[buffer(3)]],
                              device T *key_biases [[buffer(4)]],
                              device uint *value_words [[buffer(5)]],
                              device T *value_scales [[buffer(6)]],
                              device T *value_biases [[buffer(7)]],
                              constant uint *positions [[buffer(8)]],
                              constant Copy &c [[buffer(9)]],
                              constant uint &size [[buffer(10)]],
                              uint3 at [[threadgroup_position_in_grid]],
                              uint lane [[thread_index_in_simdgroup]]) {
  const uint head = at.y % c.heads, token = at.y / c.heads, batch = at.z / 2, which = at.z % 2, dim = c.dim[which];
  const long row = cache_row(c, positions, batch, head, token);
  if (row < 0 || at.x * size >= dim) return;
  device const T *from = (which ? values : keys) + source_row(c, batch, head, token) * dim + at.x * size;
  const ulong group = ulong(row) * (dim / size) + at.x;
  quantize_group<T, bits>(from, size, (device uchar *)(which ? value_words : key_words) + group * size * bits / 8,
                             (which ? value_scales : key_scales) + group, (which ? value_biases : key_biases) + group,
                             lane);
}

#define FOR_TYPES(from, S, to, T) \
  template [[host_name("kv_cache_copy_" #from "_" #to)]] kernel decltype(kv_cache_copy<S, T>) kv_cache_copy<S, T>;
FOR_TYPES(f32, float, f32, float)
FOR_TYPES(f32, float, f16, half)
FOR_TYPES(f32, float, bf16, bfloat)
FOR_TYPES(f16, half, f16, half)
FOR_TYPES(f16, half, f32, float)
FOR_TYPES(bf16, bfloat, bf16, bfloat)
FOR_TYPES(bf16, bfloat, f32, float)

#define FOR_BITS(name, T, bits) \
  template [[host_name("kv_cache_quantize_" #name "_q" #bits)]] kernel decltype(kv_cache_quantize<T, bits>) \
      kv_cache_quantize<T, bits>;
FOR_BITS(f32, float, 8)
FOR_BITS(f32, float, 4)
FOR_BITS(f16, half, 8)
FOR_BITS(f16, half, 4)
FOR_BITS(bf16, bfloat, 8)
FOR_BITS(bf16, bfloat, 4)
