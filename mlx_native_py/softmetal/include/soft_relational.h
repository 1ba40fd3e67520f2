// metal_relational: tests that give bool or bool vectors, and select.
#pragma once
#include "soft_math.h"

namespace soft {
template <int Bytes> struct mask_of;
template <> struct mask_of<1> {
  typedef char type;
};
template <> struct mask_of<2> {
  typedef short type;
};
template <> struct mask_of<4> {
  typedef int type;
};
template <> struct mask_of<8> {
  typedef long type;
};

namespace test {
// Written on bits: these answers hold under every floating-point option.
template <class T> struct layout;
template <> struct layout<float> {
  typedef uint bits;
  static constexpr uint infinity = 0x7f800000u, sign = 0x80000000u, smallest = 0x00800000u;
};
template <> struct layout<half> {
  typedef ushort bits;
  static constexpr uint infinity = 0x7c00u, sign = 0x8000u, smallest = 0x0400u;
};
template <> struct layout<metal::bfloat> {
  typedef ushort bits;
  static constexpr uint infinity = 0x7f80u, sign = 0x8000u, smallest = 0x0080u;
};
template <class T> SOFT_FN uint bits(T x) { return __builtin_bit_cast(typename layout<T>::bits, x); }
template <class T> SOFT_FN uint magnitude(T x) { return bits(x) & ~layout<T>::sign; }
template <class T> SOFT_FN bool isnan(T x) { return magnitude(x) > layout<T>::infinity; }
template <class T> SOFT_FN bool isinf(T x) { return magnitude(x) == layout<T>::infinity; }
template <class T> SOFT_FN bool isfinite(T x) { return magnitude(x) < layout<T>::infinity; }
template <class T> SOFT_FN bool isnormal(T x) { return isfinite(x) && magnitude(x) >= layout<T>::smallest; }
template <class T> SOFT_FN bool signbit(T x) { return (bits(x) & layout<T>::sign) != 0; }
template <class T> SOFT_FN bool isunordered(T x, T y) { return isnan(x) || isnan(y); }
template <class T> SOFT_FN bool isordered(T x, T y) { return !isunordered(x, y); }
}  // namespace test
}  // namespace soft

namespace metal {
#define SOFT_TEST1(name)                                                                                      \
  SOFT_FN bool name(float x) { return soft::test::name(x); }                                                  \
  SOFT_FN bool name(half x) { return soft::test::name(x); }                                                   \
  template <class A, class V = soft::floating_vector_t<A>> SOFT_INLINE soft::bools_t<V> name(A x) {           \
    typedef typename soft::as_vector<V>::element T;                                                           \
    return soft::map<soft::bools_t<V>>([](T a) { return soft::test::name(a); }, V(x));                        \
  }
#define SOFT_TEST2(name)                                                                                      \
  SOFT_FN bool name(float x, float y) { return soft::test::name(x, y); }                                      \
  SOFT_FN bool name(half x, half y) { return soft::test::name(x, y); }                                        \
  template <class A, class B, class V = soft::floating_vector_t<A, B>>                                        \
  SOFT_INLINE soft::bools_t<V> name(A x, B y) {                                                               \
    typedef typename soft::as_vector<V>::element T;                                                           \
    return soft::map<soft::bools_t<V>>([](T a, T b) { return soft::test::name(a, b); }, V(x), V(y));          \
  }
SOFT_TEST1(isfinite)
SOFT_TEST1(isinf)
SOFT_TEST1(isnan)
SOFT_TEST1(isnormal)
SOFT_TEST1(signbit)
SOFT_TEST2(isordered)
SOFT_TEST2(isunordered)
#undef SOFT_TEST1
#undef SOFT_TEST2

SOFT_FN bool all(bool x) { return x; }
SOFT_FN bool any(bool x) { return x; }
template <int N> SOFT_FN bool all(vec<bool, N> x) { return __builtin_reduce_and(x.whole()) != 0; }
template <int N> SOFT_FN bool any(vec<bool, N> x) { return __builtin_reduce_or(x.whole()) != 0; }

// select(a, b, c) is c ? b : a, per component.
template <class T, enable_if_t<is_arithmetic<T>::value, int> = 0> SOFT_FN T select(T a, T b, bool c) {
  return c ? b : a;
}
template <class A, class B, class V = soft::vector_t<A, B>> SOFT_FN V select(A a, B b, bool c) {
  return c ? V(b) : V(a);
}
template <class A, class B, int N, class V = soft::vector_t<A, B>, enable_if_t<N == V::soft_size, int> = 0>
SOFT_FN V select(A a, B b, vec<bool, N> c) {
  typedef typename soft::as_vector<V>::element T;
  typedef soft::ext_t<typename soft::mask_of<sizeof(T)>::type, N> mask;
  mask chosen = -__builtin_convertvector(c.whole(), mask);
  mask yes = __builtin_bit_cast(mask, V(b).whole()), no = __builtin_bit_cast(mask, V(a).whole());
  return V(__builtin_bit_cast(typename V::soft_stored, (yes & chosen) | (no & ~chosen)));
}
}  // namespace metal
