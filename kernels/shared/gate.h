// out = f(gate) * up, where gate and up are the two halves of the rows of one matrix. Values between are rounded, and
// each operation by itself, so that the bits are those of the product and kernels/activation.metal one after the other.
#pragma once
#include <metal_stdlib>
using namespace metal;
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#include "shared/activations.h"

// Where it is given, the function: 0 silu, 1 gelu, 2 gelu_approx, 3 sigmoid.
constant uint GATE [[function_constant(5)]];

METAL_FUNC bool is_gated() { return is_function_constant_defined(GATE); }

template <typename T>
METAL_FUNC T gated(T gate, T up) {
  const float x = float(gate);
  const float y = GATE == 0   ? activations::silu(x)
                  : GATE == 1 ? activations::gelu(x)
                  : GATE == 2 ? activations::gelu_approx(x)
                              : activations::sigmoid(x);
  return T(y * float(up));
}
#pragma METAL fp math_mode(fast)
#pragma METAL fp contract(fast)
