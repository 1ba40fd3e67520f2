// out = a + b, a - b, a * b of whole numbers, modulo their width: the same bits for signed and unsigned ones.
#include <metal_stdlib>
using namespace metal;

struct Sum {
  template <typename W> W operator()(W a, W b) const thread { return a + b; }
};
struct Difference {
  template <typename W> W operator()(W a, W b) const thread { return a - b; }
};
struct Product {
  template <typename W> W operator()(W a, W b) const thread { return a * b; }
};

// In W, which is at least 32 bits wide and unsigned, so that nothing overflows.
template <typename T, typename W, typename Op>
kernel void elementwise(device const T *a [[buffer(0)]],
                        device const T *b [[buffer(1)]],
                        device T *out [[buffer(2)]],
                        uint i [[thread_position_in_grid]]) {
  out[i] = T(Op()(W(a[i]), W(b[i])));
}

// Each row of a with the one row b; a thread per column and row.
template <typename T, typename W, typename Op>
kernel void elementwise_row(device const T *a [[buffer(0)]],
                            device const T *b [[buffer(1)]],
                            device T *out [[buffer(2)]],
                            constant uint &width [[buffer(3)]],
                            uint2 at [[thread_position_in_grid]]) {
  const ulong i = ulong(at.y) * width + at.x;
  out[i] = T(Op()(W(a[i]), W(b[at.x])));
}

#define KERNEL(name, ...) template [[host_name(name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;
#define FOR_BITS(bits, T, W) \
  KERNEL("integer_add_" #bits, elementwise<T, W, Sum>) \
  KERNEL("integer_sub_" #bits, elementwise<T, W, Difference>) \
  KERNEL("integer_mul_" #bits, elementwise<T, W, Product>) \
  KERNEL("integer_add_row_" #bits, elementwise_row<T, W, Sum>) \
  KERNEL("integer_sub_row_" #bits, elementwise_row<T, W, Difference>) \
  KERNEL("integer_mul_row_" #bits, elementwise_row<T, W, Product>)
FOR_BITS(8, uchar, uint)
FOR_BITS(16, ushort, uint)
FOR_BITS(32, uint, uint)
FOR_BITS(64, ulong, ulong)
