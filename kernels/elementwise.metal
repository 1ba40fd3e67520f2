// out = a + b, a - b, a * b, a / b, out = x * s, casts and fills, element by element, in float; f32, f16 and bf16.
#include <metal_stdlib>
using namespace metal;
// Every operation rounds by itself, so that a fused kernel leaves the bits of the two that it stands for.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

struct Sum {
  float operator()(float a, float b) const thread { return a + b; }
};
struct Difference {
  float operator()(float a, float b) const thread { return a - b; }
};
struct Quotient {
  float operator()(float a, float b) const thread { return a / b; }
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

// Each row of a with the one row b; a thread per column and row.
template <typename T, typename Op>
kernel void elementwise_row(device const T *a [[buffer(0)]],
                            device const T *b [[buffer(1)]],
                            device T *out [[buffer(2)]],
                            constant uint &width [[buffer(3)]],
                            uint2 at [[thread_position_in_grid]]) {
  const ulong i = ulong(at.y) * width + at.x;
  out[i] = T(Op()(float(a[i]), float(b[at.x])));
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

template <typename From, typename To>
kernel void cast(device const From *x [[buffer(0)]],
                 device To *out [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  out[i] = To(float(x[i]));
}

// Bits, so that one kernel serves all types of a size.
template <typename T>
kernel void fill(device T *out [[buffer(0)]],
                 constant T &value [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  out[i] = value;
}

#define KERNEL(name, ...) template [[host_name(name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;
#define FOR_TYPE(name, T) \
  KERNEL("elementwise_add_" #name, elementwise<T, Sum>) \
  KERNEL("elementwise_mul_" #name, elementwise<T, Product>) \
  KERNEL("elementwise_sub_" #name, elementwise<T, Difference>) \
  KERNEL("elementwise_div_" #name, elementwise<T, Quotient>) \
  KERNEL("elementwise_add_row_" #name, elementwise_row<T, Sum>) \
  KERNEL("elementwise_mul_row_" #name, elementwise_row<T, Product>) \
  KERNEL("elementwise_sub_row_" #name, elementwise_row<T, Difference>) \
  KERNEL("elementwise_div_row_" #name, elementwise_row<T, Quotient>) \
  KERNEL("scalar_mul_" #name, scalar_mul<T>)
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)

KERNEL("cast_f32_f16", cast<float, half>)
KERNEL("cast_f32_bf16", cast<float, bfloat>)
KERNEL("cast_f16_f32", cast<half, float>)
KERNEL("cast_f16_bf16", cast<half, bfloat>)
KERNEL("cast_bf16_f32", cast<bfloat, float>)
KERNEL("cast_bf16_f16", cast<bfloat, half>)

KERNEL("fill_8", fill<uchar>)
KERNEL("fill_16", fill<ushort>)
KERNEL("fill_32", fill<uint>)
KERNEL("fill_64", fill<ulong>)
