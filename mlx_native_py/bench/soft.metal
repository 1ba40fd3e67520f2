// Kernels that show what the software device costs: memory, rendezvous, barriers, matrices, quantised weights.
#include <metal_stdlib>
using namespace metal;

// out = a + b
kernel void add(device const float *a, device const float *b, device float *out,
                uint i [[thread_position_in_grid]]) {
  out[i] = a[i] + b[i];
}

// out = x run `rounds` times through a polynomial: arithmetic only.
kernel void polynomial(device const float *x, device float *out, constant uint &rounds,
                       uint i [[thread_position_in_grid]]) {
  float v = x[i];
  for (uint r = 0; r < rounds; ++r) v = fma(v, fma(v, -0.25f, 0.5f), 0.125f);
  out[i] = v;
}

// One simd_sum a round: the price of a rendezvous.
kernel void rendezvous(device float *out, constant uint &rounds, uint i [[thread_position_in_grid]]) {
  float v = float(i & 31);
  for (uint r = 0; r < rounds; ++r) v = simd_sum(v) * (1.0f / 32.0f);
  out[i] = v;
}

// One threadgroup barrier a round.
kernel void barrier(device uint *out, constant uint &rounds, uint i [[thread_position_in_grid]]) {
  for (uint r = 0; r < rounds; ++r) threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = i;
}

// out = x * rsqrt(mean(x^2) + eps) * w, a row per threadgroup
kernel void rms_norm(device const float *x, device const float *w, device float *out, constant uint &width,
                     uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                     uint n [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                     uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  device const float *in = x + ulong(row) * width;
  float sum = 0.0f;
  for (uint i = t; i < width; i += n) sum += in[i] * in[i];
  sum = simd_sum(sum);
  if (lane == 0) partial[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  sum = simd_sum(lane < simds ? partial[lane] : 0.0f);
  const float scale = rsqrt(sum / float(width) + 1e-5f);
  for (uint i = t; i < width; i += n) out[ulong(row) * width + i] = in[i] * scale * w[i];
}

// out = exp(x - max(x)) / sum(exp(x - max(x))), a row per threadgroup
kernel void softmax(device const float *x, device float *out, constant uint &width,
                    uint row [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                    uint n [[threads_per_threadgroup]], uint lane [[thread_index_in_simdgroup]],
                    uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  device const float *in = x + ulong(row) * width;
  device float *to = out + ulong(row) * width;
  float top = -INFINITY;
  for (uint i = t; i < width; i += n) top = max(top, in[i]);
  top = simd_max(top);
  if (lane == 0) partial[simd] = top;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  top = simd_max(lane < simds ? partial[lane] : -INFINITY);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float sum = 0.0f;
  for (uint i = t; i < width; i += n) {
    const float e = exp(in[i] - top);
    to[i] = e;
    sum += e;
  }
  sum = simd_sum(sum);
  if (lane == 0) partial[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float scale = 1.0f / simd_sum(lane < simds ? partial[lane] : 0.0f);
  for (uint i = t; i < width; i += n) to[i] *= scale;
}

// C = A B for square matrices, by 32x32 tiles in threadgroup memory; a thread per element.
kernel void tiled_matmul(device const float *A, device const float *B, device float *C, constant uint &n,
                         uint2 at [[thread_position_in_grid]], uint2 t [[thread_position_in_threadgroup]]) {
  threadgroup float a[32][32], b[32][32];
  float sum = 0.0f;
  for (uint k = 0; k < n; k += 32) {
    a[t.y][t.x] = A[at.y * n + k + t.x];
    b[t.y][t.x] = B[(k + t.y) * n + at.x];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < 32; ++i) sum = fma(a[t.y][i], b[i][t.x], sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  C[at.y * n + at.x] = sum;
}

// C = A B for square matrices; a simdgroup owns a 32x32 tile, kept as 4x4 simdgroup matrices.
kernel void matmul(device const float *A, device const float *B, device float *C, constant uint &n,
                   uint2 tile [[threadgroup_position_in_grid]], uint simd [[simdgroup_index_in_threadgroup]]) {
  const uint row = tile.y * 64 + (simd / 2) * 32;
  const uint column = tile.x * 64 + (simd % 2) * 32;
  simdgroup_float8x8 acc[4][4], a[4], b[4];
  for (uint i = 0; i < 4; ++i)
    for (uint j = 0; j < 4; ++j) acc[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint k = 0; k < n; k += 8) {
    for (uint i = 0; i < 4; ++i) {
      simdgroup_load(a[i], A + (row + 8 * i) * n + k, n);
      simdgroup_load(b[i], B + k * n + column + 8 * i, n);
    }
    for (uint i = 0; i < 4; ++i)
      for (uint j = 0; j < 4; ++j) simdgroup_multiply_accumulate(acc[i][j], a[i], b[j], acc[i][j]);
  }
  for (uint i = 0; i < 4; ++i)
    for (uint j = 0; j < 4; ++j) simdgroup_store(acc[i][j], C + (row + 8 * i) * n + column + 8 * j, n);
}

// y = W x, W in 4-bit groups of 64: w = scale * q + bias; a row per simdgroup, 8 weights per word.
kernel void q4_matvec(device const uint *W, device const float *scales, device const float *biases,
                      device const float *x, device float *y, constant uint &width,
                      uint row [[threadgroup_position_in_grid]], uint lane [[thread_index_in_simdgroup]],
                      uint simd [[simdgroup_index_in_threadgroup]], uint simds [[simdgroups_per_threadgroup]]) {
  const uint r = row * simds + simd;
  device const uint *words = W + ulong(r) * (width / 8);
  device const float *scale = scales + ulong(r) * (width / 64);
  device const float *bias = biases + ulong(r) * (width / 64);
  device const float4 *v = (device const float4 *)x;
  float4 acc = 0.0f;
  for (uint i = lane; i < width / 8; i += 32) {
    const uint4 word = words[i];
    const float4 low = float4(word >> uint4(0, 4, 8, 12) & 15);
    const float4 high = float4(word >> uint4(16, 20, 24, 28) & 15);
    const float4 first = v[2 * i], second = v[2 * i + 1];
    acc += scale[i / 8] * (low * first + high * second) + bias[i / 8] * (first + second);
  }
  const float sum = simd_sum(acc.x + acc.y + acc.z + acc.w);
  if (lane == 0) y[r] = sum;
}
