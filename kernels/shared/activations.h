// Activations of one float, to a few units in the last place also where they come near zero.
#pragma once
#include <metal_stdlib>

namespace activations {
using namespace metal;

inline float power_of_two(int n) { return as_type<float>((n + 127) << 23); }

// exp(x + low) for |x| <= 160 and |low| < 0.05, which is what rounding lost in x.
inline float exp_of_sum(float x, float low) {
  const float n = rint(x * 1.442695041f);
  const float r = fma(n, 2.1219444e-04f, fma(n, -0.693359375f, x)) + low;
  float p = 1.379047055e-03f;
  p = fma(p, r, 8.380413214e-03f);
  p = fma(p, r, 4.166970746e-02f);
  p = fma(p, r, 1.666640845e-01f);
  p = fma(p, r, 4.999998459e-01f);
  p = fma(p * r, r, r) + 1.0f;
  const int half_n = int(n) >> 1;
  return p * power_of_two(half_n) * power_of_two(int(n) - half_n);
}

// exp(x) to one unit in the last place, for any x.
inline float exp_precisely(float x) {
  const float e = exp_of_sum(clamp(x, -160.0f, 160.0f), 0.0f);
  return isnan(x) ? x : e;
}

inline float sigmoid(float x) { return precise::divide(1.0f, 1.0f + exp_precisely(-x)); }

inline float silu(float x) { return precise::divide(x, 1.0f + exp_precisely(-x)); }

// The normal distribution's tail beyond 0.9 <= t <= 15, as a sum of two: exp(-t * t / 2) times a smooth function of
// 1 / (t + 3).
inline float2 normal_tail(float t) {
  const float r = precise::divide(1.0f, t + 3.0f);
  const float r_low = r * fma(-r, t, fma(-3.0f, r, 1.0f));
  const float u = fma(-6.0f, r_low, fma(-6.0f, r, 1.0f));
  float g = 1.746034534e-04f;
  g = fma(g, u, -2.074781503e-04f);
  g = fma(g, u, -1.063530369e-03f);
  g = fma(g, u, 1.015977998e-03f);
  g = fma(g, u, 6.976856509e-03f);
  g = fma(g, u, -1.046171272e-02f);
  g = fma(g, u, -4.726338327e-02f);
  g = fma(g, u, 2.300176789e-01f);
  g = fma(g, u, -5.093319740e-01f);
  g = fma(g, u, 7.290836904e-01f);
  const float smooth = g * r;
  const float smooth_low = fma(g, r_low, fma(g, r, -smooth));
  const float square = t * t;
  const float e = exp_of_sum(-0.5f * square, -0.5f * fma(t, t, -square));
  const float tail = smooth * e;
  return float2(tail, fma(smooth_low, e, fma(smooth, e, -tail)));
}

// x * (1 + erf(x / sqrt(2))) / 2
inline float gelu(float x) {
  const float t = min(fabs(x), 15.0f);
  if (t < 1.0f) {
    const float s = x * x;
    float p = -7.654208620e-06f;
    p = fma(p, s, 1.134863726e-04f);
    p = fma(p, s, -1.186329942e-03f);
    p = fma(p, s, 9.973323410e-03f);
    p = fma(p, s, -6.649035992e-02f);
    p = fma(p, s, 3.989422801e-01f);
    return x * fma(p, x, 0.5f);
  }
  const float2 tail = normal_tail(t);
  return x < 0.0f ? fma(x, tail.x, x * tail.y) : x * (1.0f - tail.x);
}

// x * (1 + tanh(y)) / 2 with y = sqrt(2 / pi) * (x + 0.044715 * x^3), which is x / (1 + exp(-2 * y)).
// 2 * y = x * (a + b * x^2) is the product of x with a short number, and a small rest.
inline float gelu_approx(float x) {
  const float a = 1.595703125f, a_low = 6.5996606e-05f;
  const float b = 0.071354814f, b_low = 2.3988324e-09f;
  const float c = clamp(x, -12.5f, 12.5f);
  const float s = c * c;
  const float q = as_type<float>(as_type<uint>(fma(b, s, a)) & 0xfffff000u);
  const float q_low = fma(b, s, a - q) + fma(b, fma(c, c, -s), fma(b_low, s, a_low));
  const float y = c * q;
  const float y_low = fma(c, q_low, fma(c, q, -y));
  return precise::divide(x, 1.0f + exp_of_sum(-y, -y_low));
}

inline float softcap(float x, float cap) { return cap * precise::tanh(precise::divide(x, cap)); }
}  // namespace activations
