// out = f(x), out = f(gate) * up and out = cap * tanh(x / cap), element by element, in float; f32, f16 and bf16.
#include <metal_stdlib>
using namespace metal;
// Every operation rounds by itself, so that a fused kernel leaves the bits of the two that it stands for.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
#include "shared/activations.h"

#define FUNCTION(Name, ...) \
  struct Name { \
    float operator()(float x) const thread { return __VA_ARGS__; } \
  };
FUNCTION(Silu, activations::silu(x))
FUNCTION(Gelu, activations::gelu(x))
FUNCTION(GeluApprox, activations::gelu_approx(x))
FUNCTION(Sigmoid, activations::sigmoid(x))
FUNCTION(Tanh, precise::tanh(x))
FUNCTION(Exp, precise::exp(x))
FUNCTION(Log, precise::log(x))

template <typename T, typename F>
kernel void activation(device const T *x [[buffer(0)]],
                       device T *out [[buffer(1)]],
                       uint i [[thread_position_in_grid]]) {
  out[i] = T(F()(float(x[i])));
}

template <typename T, typename F>
kernel void gated(device const T *gate [[buffer(0)]],
                  device const T *up [[buffer(1)]],
                  device T *out [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) {
  out[i] = T(F()(float(gate[i])) * float(up[i]));
}

template <typename T>
kernel void softcap(device const T *x [[buffer(0)]],
                    device T *out [[buffer(1)]],
                    constant float &cap [[buffer(2)]],
                    uint i [[thread_position_in_grid]]) {
  out[i] = T(activations::softcap(float(x[i]), cap));
}

#define KERNEL(name, ...) template [[host_name(name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;
#define FOR_TYPE(name, T) \
  KERNEL("silu_" #name, activation<T, Silu>) \
  KERNEL("gelu_" #name, activation<T, Gelu>) \
  KERNEL("gelu_approx_" #name, activation<T, GeluApprox>) \
  KERNEL("sigmoid_" #name, activation<T, Sigmoid>) \
  KERNEL("tanh_" #name, activation<T, Tanh>) \
  KERNEL("exp_" #name, activation<T, Exp>) \
  KERNEL("log_" #name, activation<T, Log>) \
  KERNEL("silu_mul_" #name, gated<T, Silu>) \
  KERNEL("gelu_mul_" #name, gated<T, Gelu>) \
  KERNEL("gelu_approx_mul_" #name, gated<T, GeluApprox>) \
  KERNEL("sigmoid_mul_" #name, gated<T, Sigmoid>) \
  KERNEL("softcap_" #name, softcap<T>)
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
