// metal::array and initializer_list, uniform values, tessellation factors and the small utilities: move, swap, addressof.
#pragma once
#include "soft_traits.h"

namespace std {
// The compiler knows it by this name and its two members. Its pointer has no address space, as none that is spelled would.
template <class E> class initializer_list {
  __decay(const E[1]) first;
  size_t count;

 public:
  typedef E value_type;
  SOFT_MEMBER initializer_list() : first(nullptr), count(0) {}
  SOFT_MEMBER size_t size() const { return count; }
  SOFT_MEMBER const __private E *begin() const { return __builtin_bit_cast(const __private E *, first); }
  SOFT_MEMBER const __private E *end() const { return begin() + count; }
};
}  // namespace std

// What a kernel writes for the tessellator.
struct MTLQuadTessellationFactorsHalf {
  half edgeTessellationFactor[4], insideTessellationFactor[2];
};
struct MTLTriangleTessellationFactorsHalf {
  half edgeTessellationFactor[3], insideTessellationFactor;
};

namespace metal {
using std::initializer_list;

template <class T, size_t N> struct array {
  typedef T value_type;
  T elements[N];

  SOFT_MEMBER __private T &operator[](size_t i) __private & { return elements[i]; }
  SOFT_MEMBER const __private T &operator[](size_t i) const __private & { return elements[i]; }
  SOFT_MEMBER __local T &operator[](size_t i) __local & { return elements[i]; }
  SOFT_MEMBER const __local T &operator[](size_t i) const __local & { return elements[i]; }
  SOFT_MEMBER SOFT_DEVICE T &operator[](size_t i) __global & { return (SOFT_DEVICE T &)elements[i]; }
  SOFT_MEMBER const SOFT_DEVICE T &operator[](size_t i) const __global & { return (const SOFT_DEVICE T &)elements[i]; }
  SOFT_MEMBER __generic T &operator[](size_t i) & { return elements[i]; }
  SOFT_MEMBER const __generic T &operator[](size_t i) const & { return elements[i]; }
  SOFT_MEMBER T operator[](size_t i) && { return elements[i]; }
  SOFT_MEMBER __generic T &front() { return elements[0]; }
  SOFT_MEMBER const __generic T &front() const { return elements[0]; }
  SOFT_MEMBER __generic T &back() { return elements[N - 1]; }
  SOFT_MEMBER const __generic T &back() const { return elements[N - 1]; }
  SOFT_MEMBER __generic T *data() { return elements; }
  SOFT_MEMBER const __generic T *data() const { return elements; }
  SOFT_MEMBER __generic T *begin() { return elements; }
  SOFT_MEMBER const __generic T *begin() const { return elements; }
  SOFT_MEMBER __generic T *end() { return elements + N; }
  SOFT_MEMBER const __generic T *end() const { return elements + N; }
  SOFT_MEMBER void fill(T value) {
    for (size_t i = 0; i < N; i++) elements[i] = value;
  }
  static SOFT_MEMBER size_t size() { return N; }
  static SOFT_MEMBER size_t max_size() { return N; }
  static SOFT_MEMBER bool empty() { return N == 0; }
};

// Uniformity is a promise to the compiler; the value is an ordinary one.
template <class T> using uniform = T;
template <class T> SOFT_FN T make_uniform(T value) { return value; }

template <class T> SOFT_FN remove_reference_t<T> &&move(T &&value) {
  return static_cast<remove_reference_t<T> &&>(value);
}
template <class T> SOFT_FN T *addressof(T &value) { return __builtin_addressof(value); }
// The pack makes a swap of the program's own the better match.
template <class A, class B, class... None,
          enable_if_t<is_same<remove_addrspace_t<A>, remove_addrspace_t<B>>::value && sizeof...(None) == 0, int> = 0>
SOFT_FN void swap(A &a, B &b, None...) {
  remove_addrspace_t<A> before = a;
  a = b;
  b = before;
}
}  // namespace metal
