// metal_geometric: products and lengths, computed in float for every floating-point type.
#pragma once
#include "soft_relational.h"

namespace soft {
template <class V> using element_t = typename as_vector<V>::element;
template <class V> SOFT_FN float sum_of_products(V a, V b) {
  auto x = widen(a), y = widen(b);
  float sum = x[0] * y[0];
  for (int i = 1; i < V::soft_size; i++) sum = __builtin_fmaf(x[i], y[i], sum);
  return sum;
}
}  // namespace soft

namespace metal {
template <class A, class B, class V = soft::real_vector_t<A, B>> SOFT_INLINE soft::element_t<V> dot(A a, B b) {
  return soft::element_t<V>(soft::sum_of_products(V(a), V(b)));
}
template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE soft::element_t<V> length_squared(A x) {
  return dot(V(x), V(x));
}
template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE soft::element_t<V> length(A x) {
  return soft::element_t<V>(__builtin_sqrtf(soft::sum_of_products(V(x), V(x))));
}
template <class A, class B, class V = soft::real_vector_t<A, B>> SOFT_INLINE soft::element_t<V> distance(A a, B b) {
  return length(V(a) - V(b));
}
template <class A, class B, class V = soft::real_vector_t<A, B>>
SOFT_INLINE soft::element_t<V> distance_squared(A a, B b) {
  return length_squared(V(a) - V(b));
}
template <class A, class V = soft::real_vector_t<A>> SOFT_INLINE V normalize(A x) {
  float square = soft::sum_of_products(V(x), V(x));
  return square == 0.0f ? V(x) : soft::narrow<V>(soft::widen(V(x)) / __builtin_sqrtf(square));
}
template <class A, class B, class V = soft::real_vector_t<A, B>, enable_if_t<V::soft_size == 3, int> = 0>
SOFT_INLINE V cross(A x, B y) {
  vec<float, 3> a(soft::widen(V(x))), b(soft::widen(V(y)));
  return V(a.yzx * b.zxy - a.zxy * b.yzx);
}
template <class A, class B, class C, class V = soft::real_vector_t<A, B, C>>
SOFT_INLINE V faceforward(A n, B incident, C reference) {
  return soft::sum_of_products(V(reference), V(incident)) < 0.0f ? V(n) : -V(n);
}
template <class A, class B, class V = soft::real_vector_t<A, B>> SOFT_INLINE V reflect(A incident, B normal) {
  float along = 2.0f * soft::sum_of_products(V(normal), V(incident));
  return soft::narrow<V>(soft::widen(V(incident)) - along * soft::widen(V(normal)));
}
template <class A, class B, class V = soft::real_vector_t<A, B>>
SOFT_INLINE V refract(A incident, B normal, soft::element_t<V> eta) {
  float ratio = float(eta), along = soft::sum_of_products(V(normal), V(incident));
  float k = 1.0f - ratio * ratio * (1.0f - along * along);
  if (k < 0.0f) return V(soft::element_t<V>(0.0f));
  float bend = ratio * along + __builtin_sqrtf(k);
  return soft::narrow<V>(ratio * soft::widen(V(incident)) - bend * soft::widen(V(normal)));
}

}  // namespace metal
