// out = x w^T (or x w) for weights w = scale * q + bias in groups, and the ways between such weights and plain ones.
#include "shared/affine.h"
#include "shared/affine_quads.h"
#include "shared/lane_matmul.h"
#include "shared/matvec.h"
#include "shared/quad_matvec.h"
#include "shared/quad_rows.h"
#include "shared/tiled_matmul.h"
#include "shared/vecmat.h"

template <typename T>
kernel void quantized_mv(device const T *x [[buffer(0)]],
                         device const uint *w [[buffer(1)]],
                         device const uchar *scales [[buffer(2)]],
                         device const uchar *biases [[buffer(3)]],
                         device T *out [[buffer(4)]],
                         device const uint *ids [[buffer(5)]],
                         constant MatmulShape &shape [[buffer(6)]],
                         constant AffineLayout &layout [[buffer(7)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint simd [[simdgroup_index_in_threadgroup]],
                         uint simds [[simdgroups_per_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
  matvec(affine(w, scales, biases, layout), x, x, out, ids, shape, group, simd, simds, lane);
}

template <typename T>
kernel void quantized_quad(device const T *x [[buffer(0)]],
                           device const uint *w [[buffer(1)]],
                           device const uchar *scales [[buffer(2)]],
                           device const uchar *biases [[buffer(3)]],
                           device T *out [[buffer(4)]],
                           device const uint *ids [[buffer(5)]],
                           constant MatmulShape &shape [[buffer(6)]],
                           constant AffineLayout &layout [[buffer(7)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[QUAD_FLOATS];
  const QuadAffine weights = quad_affine(w, scales, biases, depth_of(shape), layout.rows);
  quad_matvec(weights, x, x, out, ids, shape, memory, group, lane);
}

template <typename T>
kernel void quantized_quads(device const T *x [[buffer(0)]],
                            device const uint *w [[buffer(1)]],
                            device const uchar *scales [[buffer(2)]],
                            device const uchar *biases [[buffer(3)]],
                            device T *out [[buffer(4)]],
                            constant MatmulShape &shape [[buffer(5)]],
                            constant AffineLayout &layout [[buffer(6)]],
                            uint3 group [[threadgroup_position_in_grid]],
                            uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[BATCH_FLOATS];
  const QuadAffine weights = quad_affine(w, scales, biases, depth_of(shape), layout.rows);
  quad_rows_matvec(weights, x, out, shape, memory, group, lane);
}

template <typename T>
kernel void quantized_vm(device const T *x [[buffer(0)]],
                         device const uint *w [[buffer(1)]],
                         device const uchar *scales [[buffer(2)]],
                         device const uchar *biases [[buffer(3)]],
                         device T *out [[buffer(4)]],
                         constant MatmulShape &shape [[buffer(5)]],
                         constant AffineLayout &layout [[buffer(6)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float memory[VECMAT_THREADS * VECMAT_SPAN];
  vecmat(affine(w, scales, biases, layout), x, x, out, shape, memory, group, thread_index);
}

template <typename T>
kernel void quantized_mm(device const T *x [[buffer(0)]],
                         device const uint *w [[buffer(1)]],
                         device const uchar *scales [[buffer(2)]],
                         device const uchar *biases [[buffer(3)]],
                         device T *out [[buffer(4)]],
                         device const uint *starts [[buffer(5)]],
                         device const uint *order [[buffer(6)]],
                         constant MatmulShape &shape [[buffer(7)]],
                         constant AffineLayout &layout [[buffer(8)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint simd [[simdgroup_index_in_threadgroup]],
                         uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float memory[TILE_FLOATS];
  tiled_matmul(affine(w, scales, biases, layout), x, x, out, starts, order, shape, memory, group, simd, thread_index);
}

template <typename T>
kernel void quantized_lane(device const T *x [[buffer(0)]],
                           device const uint *w [[buffer(1)]],
                           device const uchar *scales [[buffer(2)]],
                           device const uchar *biases [[buffer(3)]],
                           device T *out [[buffer(4)]],
                           device const uint *starts [[buffer(5)]],
                           device const uint *order [[buffer(6)]],
                           constant MatmulShape &shape [[buffer(7)]],
                           constant AffineLayout &layout [[buffer(8)]],
                           uint3 group [[threadgroup_position_in_grid]],
                           uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[LANE_FLOATS];
  lane_matmul(affine(w, scales, biases, layout), x, x, out, starts, order, shape, memory, group, lane);
}

// T(T(scale * q) + bias): a rounding after each step, as MLX has it.
template <typename T>
struct Rounded {
  device T *to;
  float2 factors;
  void operator()(uint i, float4 q) thread {
#pragma METAL fp contract(off)
    for (uint j = 0; j < 4; ++j) {
      float product = float(T(factors.x * q[j]));
      to[4 * i + j] = T(MXFP4 ? product : product + factors.y);
    }
  }
};

// A thread for each 32 values.
template <typename T>
kernel void dequantize(device const uint *w [[buffer(0)]],
                       device const uchar *scales [[buffer(1)]],
                       device const uchar *biases [[buffer(2)]],
                       device T *out [[buffer(3)]],
                       constant AffineLayout &layout [[buffer(4)]],
                       uint2 at [[thread_position_in_grid]]) {
  const Affine weights = affine(w, scales, biases, layout);
  Rounded<T> put = {out + ulong(at.y) * layout.length + at.x * 32, weights.factors(at.y, at.x)};
  weights.unpack(at.y, at.x, put);
}

inline uint e2m1_code(float value) {
  const float size = abs(value);
  const uint code = uint(size > 0.25f) + uint(size > 0.75f) + uint(size > 1.25f) + uint(size > 1.75f) +
                    uint(size > 2.5f) + uint(size > 3.5f) + uint(size > 5.0f);
  return code != 0 && value < 0.0f ? code + 8 : code;
}

// The end of a group's values that lies further from 0 is met exactly.
struct AffineStep {
  float scale, bias;
  AffineStep(float low, float high) {
    const float most = float((1u << BITS) - 1);
    const bool below = abs(low) > abs(high);
    const float edge = below ? low : high, step = max(precise::divide(high - low, most), 1e-7f);
    scale = below ? step : -step;
    const float code = rint(precise::divide(edge, scale));
    if (code != 0.0f) {
      scale = precise::divide(edge, code);
    }
    bias = code != 0.0f ? edge : 0.0f;
  }
  uint code(float value) const thread {
    return uint(clamp(rint(precise::divide(value - bias, scale)), 0.0f, float((1u << BITS) - 1)));
  }
};

// A thread for each group.
template <typename T>
kernel void quantize(device const T *x [[buffer(0)]],
                     device uint *w [[buffer(1)]],
                     device uchar *scales [[buffer(2)]],
                     device T *biases [[buffer(3), function_constant(AFFINE)]],
                     constant uint &group_size [[buffer(4)]],
                     uint group [[thread_position_in_grid]]) {
  x += ulong(group) * group_size;
  w += ulong(group) * (group_size / 32) * BITS;
  float low = INFINITY, high = -INFINITY;
  for (uint i = 0; i < group_size; ++i) {
    low = min(low, float(x[i]));
    high = max(high, float(x[i]));
  }
  AffineStep step(low, high);
  if (MXFP4) {
    const float most = max(abs(low), abs(high));
    const uint exponent = most == 0.0f ? 127 : uint(ceil(precise::log2(precise::divide(most, 6.0f))) + 127.0f);
    scales[group] = uchar(exponent);
    step.scale = e8m0(uchar(exponent));
  } else {
    ((device T *)scales)[group] = T(step.scale);
    biases[group] = T(step.bias);
  }
  ulong pending = 0;
  uint held = 0;
  for (uint i = 0; i < group_size; ++i) {
    const float value = float(x[i]);
    pending |= ulong(MXFP4 ? e2m1_code(precise::divide(value, step.scale)) : step.code(value)) << held;
    held += BITS;
    if (held >= 32) {
      *w++ = uint(pending);
      pending >>= 32;
      held -= 32;
    }
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("quantized_mv_" #name)]] kernel decltype(quantized_mv<T>) quantized_mv<T>; \
  template [[host_name("quantized_vm_" #name)]] kernel decltype(quantized_vm<T>) quantized_vm<T>; \
  template [[host_name("quantized_quad_" #name)]] kernel decltype(quantized_quad<T>) quantized_quad<T>; \
  template [[host_name("quantized_quads_" #name)]] kernel decltype(quantized_quads<T>) quantized_quads<T>; \
  template [[host_name("quantized_lane_" #name)]] kernel decltype(quantized_lane<T>) quantized_lane<T>; \
  template [[host_name("quantized_mm_" #name)]] kernel decltype(quantized_mm<T>) quantized_mm<T>; \
  template [[host_name("dequantize_" #name)]] kernel decltype(dequantize<T>) dequantize<T>; \
  template [[host_name("quantize_" #name)]] kernel decltype(quantize<T>) quantize<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
