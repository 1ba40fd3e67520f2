// How the library's functions take vectors: any mix of one vector type, its packed form and scalars.
#pragma once
#include "soft_packed.h"

#define SOFT_INLINE static inline __attribute__((always_inline))

namespace soft {
template <class A> struct as_vector {
  typedef void type;
  typedef void element;
};
template <class T, int N> struct as_vector<metal::vec<T, N>> {
  typedef metal::vec<T, N> type;
  typedef T element;
  static constexpr int size = N;
};
template <class T, int N> struct as_vector<metal::packed_vec<T, N>> : as_vector<metal::vec<T, N>> {};

template <class... A> struct first_vector {
  typedef void type;
};
template <class A, class... B> struct first_vector<A, B...> {
  typedef metal::conditional_t<__is_same(typename as_vector<A>::type, void), typename first_vector<B...>::type,
                               typename as_vector<A>::type>
      type;
};

template <class V, class A, class E = typename as_vector<V>::element> struct fits {
  typedef typename as_vector<A>::type own;
  static constexpr bool value = __is_same(own, V) || (__is_same(own, void) && splats<A, E>::value);
};
template <class A, class E> struct fits<void, A, E> {
  static constexpr bool value = false;
};

template <class... A> struct joined {
  typedef typename first_vector<A...>::type type;
  typedef typename as_vector<type>::element element;
  static constexpr bool any = (fits<type, A>::value && ...);
  static constexpr bool floating = any && metal::is_floating_point<element>::value;
  static constexpr bool single = any && __is_same(element, float);
  static constexpr bool real = single || (any && __is_same(element, half));  // what mathematics is for: no bfloat
  static constexpr bool whole = any && soft::whole_number<element> && !__is_same(element, bool);
};
// The vector type that all arguments share; no such type takes the function out of the overload set.
template <class... A> using vector_t = metal::enable_if_t<joined<A...>::any, typename joined<A...>::type>;
template <class... A> using floating_vector_t = metal::enable_if_t<joined<A...>::floating, typename joined<A...>::type>;
template <class... A> using float_vector_t = metal::enable_if_t<joined<A...>::single, typename joined<A...>::type>;
template <class... A> using real_vector_t = metal::enable_if_t<joined<A...>::real, typename joined<A...>::type>;
template <class... A> using whole_vector_t = metal::enable_if_t<joined<A...>::whole, typename joined<A...>::type>;
template <class V> using bools_t = metal::vec<bool, as_vector<V>::size>;
template <class V> using ints_t = metal::vec<int, as_vector<V>::size>;

// Functions are computed on float vectors, whatever the floating-point type, and rounded once.
template <class T, int N> SOFT_FN ext_t<float, N> widen(metal::vec<T, N> v) {
  if constexpr (__is_same(T, float))
    return v.whole();
  else
    return __builtin_convertvector(lanes<T, N>::open(v.whole()), ext_t<float, N>);
}
template <class V> SOFT_FN V narrow(ext_t<float, as_vector<V>::size> v) {
  constexpr int N = as_vector<V>::size;
  return V(metal::vec<float, N>(v));
}

template <class V> struct ext_size {
  static constexpr int value = __builtin_vectorelements(V);
};
// Applies a scalar function to every lane of a compiler vector, or to a plain float.
template <class F> SOFT_INLINE float each(F f, float a) { return f(a); }
template <class F> SOFT_INLINE float each(F f, float a, float b) { return f(a, b); }
template <class F, class V> SOFT_INLINE V each(F f, V a) {
  V result;
  for (int i = 0; i < ext_size<V>::value; i++) result[i] = f(a[i]);
  return result;
}
template <class F, class V> SOFT_INLINE V each(F f, V a, V b) {
  V result;
  for (int i = 0; i < ext_size<V>::value; i++) result[i] = f(a[i], b[i]);
  return result;
}

// The same for vec: the scalar overload of the library serves each component.
template <class V, class F, class... A> SOFT_INLINE V map(F f, A... a) {
  V result;
  for (int i = 0; i < V::soft_size; i++) result.put(i, typename as_vector<V>::element(f(a.at(i)...)));
  return result;
}
}  // namespace soft
