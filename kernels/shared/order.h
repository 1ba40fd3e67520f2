// The order of floats as that of whole numbers: NaN after everything, -0 like 0.
#include <metal_stdlib>
using namespace metal;

inline uint order_key(float x) {
  uint bits = as_type<uint>(x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) {
    return 0xFFFFFFFF;
  }
  if (bits == 0x80000000) {
    bits = 0;
  }
  return bits & 0x80000000 ? ~bits : bits | 0x80000000;
}

// The same from the largest to the smallest; NaN still comes last.
inline uint reverse_order_key(float x) {
  uint key = order_key(x);
  return key == 0xFFFFFFFF ? key : ~key;
}
