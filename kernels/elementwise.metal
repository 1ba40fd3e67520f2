// out = a + b, out = a * b and out = x * s, element by element, in float; f32, f16 and bf16.
#include <metal_stdlib>
using namespace metal;

struct Sum {
  float operator()(float a, float b) const thread { return a + b; }
};
struct Product {
  float operator()(float a, float b) const thread { return a * b; }
};

template <typename T, typename Op>
kernel void elementwise(device const T *a [[buffer(0)]],
                        device const T *b [[buffer(1)]],
                        device T *out [[buffer(2)]],
                        constant uint &n [[buffer(3)]],
                        uint i [[thread_position_in_grid]]) {
  if (i < n) {
    out[i] = T(Op()(float(a[i]), float(b[i])));
  }
}

template <typename T>
kernel void scalar_mul(device const T *x [[buffer(0)]],
                       device T *out [[buffer(1)]],
                       constant float &s [[buffer(2)]],
                       constant uint &n [[buffer(3)]],
                       uint i [[thread_position_in_grid]]) {
  if (i < n) {
    out[i] = T(float(x[i]) * s);
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("elementwise_add_" #name)]] kernel decltype(elementwise<T, Sum>) elementwise<T, Sum>; \
  template [[host_name("elementwise_mul_" #name)]] kernel decltype(elementwise<T, Product>) elementwise<T, Product>; \
  template [[host_name("scalar_mul_" #name)]] kernel decltype(scalar_mul<T>) scalar_mul<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
