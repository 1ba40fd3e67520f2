// y = H x * scale along rows of m * 2^k, m one of 1, 12, 20, 28, with signs flipped before or after.
#include <metal_stdlib>
using namespace metal;
#include "shared/hadamard.h"

// A row of 2^k values.
template <typename T, typename Out>
kernel void hadamard_transform(device const T *x [[buffer(0)]],
                               constant uint *signs [[buffer(1)]],
                               device Out *out [[buffer(2)]],
                               constant uint &n [[buffer(3)]],
                               constant float &scale [[buffer(4)]],
                               constant bool &signs_before [[buffer(5)]],
                               constant bool &signs_after [[buffer(6)]],
                               threadgroup float *row [[threadgroup(0)]],
                               uint number [[threadgroup_position_in_grid]],
                               uint thread_number [[thread_index_in_threadgroup]],
                               uint threads [[threads_per_threadgroup]]) {
  x += ulong(number) * n;
  out += ulong(number) * n;
  for (uint i = thread_number; i < n; i += threads) {
    const float value = float(x[i]);
    row[i] = signs_before ? with_sign(value, signs, i) : value;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  hadamard(row, n, thread_number, threads);
  for (uint i = thread_number; i < n; i += threads) {
    const float value = row[i] * scale;
    out[i] = Out(signs_after ? with_sign(value, signs, i) : value);
  }
}

// Hadamard matrices of 12, 20 and 28 rows: a bit is set where an entry is -1. Williamson's, the first one symmetric.
constant uint ROWS[60] = {
    0x2,       0xaab,     0x3c8,     0x96e,     0xf20,     0x5ba,     0xc8c,     0x6e6,     0x23c,     0xb96,
    0x8f0,     0xe5a,  // 12
    0x933de,   0x2e3bd,   0x5477b,   0xa0ef7,   0x499ef,   0x637c1,   0xc6ba2,   0x8d764,   0x1aee8,   0x359f0,
    0xfa53,    0x174a7,   0x26d4e,   0x45e9c,   0x83d39,   0xf7a6d,   0xef4fa,   0xdedd5,   0xbdf8b,   0x7bf36,  // 20
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43, 0x6acbe87, 0xd593d8e,
    0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0xff66ca,  0x1decd95, 0x39ddb2a, 0x71bf654, 0xe17eca9,
    0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6, 0x7e7a94c,  // 28
};

// Across the m parts of a row of m * n values, in place.
template <typename T>
kernel void hadamard_parts(device T *x [[buffer(0)]],
                           constant uint &n [[buffer(1)]],
                           constant uint &m [[buffer(2)]],
                           uint2 at [[thread_position_in_grid]]) {
  if (at.x >= n) {
    return;
  }
  constant uint *matrix = ROWS + (m == 12 ? 0 : m == 20 ? 12 : 32);
  x += ulong(at.y) * n * m + at.x;
  float values[28];
  for (uint j = 0; j < m; j++) {
    values[j] = float(x[ulong(j) * n]);
  }
  for (uint i = 0; i < m; i++) {
    float sum = 0;
    for (uint j = 0; j < m; j++) {
      sum += ((matrix[i] >> j) & 1) != 0 ? -values[j] : values[j];
    }
    x[ulong(i) * n] = T(sum);
  }
}

#define ROWS_OF(from, to, T, Out) \
  template [[host_name("hadamard_transform_" #from "_" #to)]] kernel decltype(hadamard_transform<T, Out>) \
      hadamard_transform<T, Out>;
ROWS_OF(f32, f32, float, float)
ROWS_OF(f16, f16, half, half)
ROWS_OF(bf16, bf16, bfloat, bfloat)
ROWS_OF(f16, f32, half, float)
ROWS_OF(bf16, f32, bfloat, float)

#define PARTS_OF(name, T) \
  template [[host_name("hadamard_parts_" #name)]] kernel decltype(hadamard_parts<T>) hadamard_parts<T>;
PARTS_OF(f32, float)
PARTS_OF(f16, half)
PARTS_OF(bf16, bfloat)
