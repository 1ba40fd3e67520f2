// y = a * x + y, then the sum over each simdgroup: touches memory, constants and lanes in one go.
#include <metal_stdlib>
using namespace metal;

kernel void self_check(device const float *x [[buffer(0)]],
                       device float *y [[buffer(1)]],
                       device float *sums [[buffer(2)]],
                       constant float &a [[buffer(3)]],
                       uint i [[thread_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint width [[threads_per_simdgroup]]) {
  float value = fma(a, x[i], y[i]);
  y[i] = value;
  float sum = simd_sum(value);
  if (lane == 0) {
    sums[i / width] = sum;
  }
}
