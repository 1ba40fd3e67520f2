// packed_vec<T, N>: vectors without padding, converting to and from vec.
#pragma once
#include "soft_vector.h"

// The operator of two packed vectors takes nothing that converts, or scalars would find two ways in.
#define SOFT_PACKED_OPERATOR(Result, op)                                                                      \
  template <class P, soft::if_same<P, packed_vec> = 0>                                                        \
  friend SOFT_MEMBER Result operator op(packed_vec a, P b) {                                                  \
    return a.unpacked() op b.unpacked();                                                                      \
  }                                                                                                           \
  friend SOFT_MEMBER Result operator op(packed_vec a, wide b) { return a.unpacked() op b; }                   \
  friend SOFT_MEMBER Result operator op(wide a, packed_vec b) { return a op b.unpacked(); }
#define SOFT_PACKED_ASSIGNING(op)                                                                             \
  SOFT_PACKED_OPERATOR(wide, op)                                                                              \
  SOFT_MEMBER __generic packed_vec &operator op##=(wide b) { return *this = packed_vec(unpacked() op b); }

#define SOFT_PACKED_COMMON(N)                                                                                 \
  typedef vec<T, N> wide;                                                                                     \
                                                                                                              \
  packed_vec() = default;                                                                                     \
  SOFT_MEMBER packed_vec(wide v) : packed_vec(v, soft::indices<N>()) {}                                       \
  template <class S, soft::if_splats<S, T> = 0> SOFT_MEMBER packed_vec(S s) : packed_vec(wide(s)) {}          \
  template <class S, soft::if_splats_explicitly<S, T> = 0>                                                    \
  SOFT_MEMBER explicit packed_vec(S s) : packed_vec(wide(s)) {}                                               \
  template <class U> SOFT_MEMBER explicit packed_vec(vec<U, N> v) : packed_vec(wide(v)) {}                    \
  template <class U> SOFT_MEMBER explicit packed_vec(packed_vec<U, N> v) : packed_vec(wide(v.unpacked())) {}  \
  SOFT_MEMBER operator wide() const { return unpacked(); }                                                    \
  template <class U> SOFT_MEMBER explicit operator vec<U, N>() const { return vec<U, N>(unpacked()); }        \
                                                                                                              \
  SOFT_MEMBER wide unpacked() const { return unpacked(soft::indices<N>()); }                                  \
  SOFT_MEMBER typename wide::soft_stored whole() const { return unpacked().whole(); }                               \
  SOFT_MEMBER T at(int i) const { return d[i]; }                                                              \
  SOFT_MEMBER void put(int i, T v) { d[i] = v; }                                                              \
  SOFT_MEMBER __generic T &operator[](int i) { return d[i]; }                                                 \
  SOFT_MEMBER T operator[](int i) const { return d[i]; }                                                      \
                                                                                                              \
  SOFT_PACKED_ASSIGNING(+)                                                                                    \
  SOFT_PACKED_ASSIGNING(-)                                                                                    \
  SOFT_PACKED_ASSIGNING(*)                                                                                    \
  SOFT_PACKED_ASSIGNING(/)                                                                                    \
  SOFT_PACKED_ASSIGNING(%)                                                                                    \
  SOFT_PACKED_ASSIGNING(&)                                                                                    \
  SOFT_PACKED_ASSIGNING(|)                                                                                    \
  SOFT_PACKED_ASSIGNING(^)                                                                                    \
  SOFT_PACKED_ASSIGNING(<<)                                                                                   \
  SOFT_PACKED_ASSIGNING(>>)                                                                                   \
  typedef vec<bool, N> soft_bools;                                                                            \
  SOFT_PACKED_OPERATOR(soft_bools, ==)                                                                        \
  SOFT_PACKED_OPERATOR(soft_bools, !=)                                                                        \
  SOFT_PACKED_OPERATOR(soft_bools, <)                                                                         \
  SOFT_PACKED_OPERATOR(soft_bools, <=)                                                                        \
  SOFT_PACKED_OPERATOR(soft_bools, >)                                                                         \
  SOFT_PACKED_OPERATOR(soft_bools, >=)                                                                        \
  SOFT_PACKED_OPERATOR(soft_bools, &&)                                                                        \
  SOFT_PACKED_OPERATOR(soft_bools, ||)                                                                        \
  SOFT_MEMBER wide operator+() const { return unpacked(); }                                                   \
  SOFT_MEMBER wide operator-() const { return -unpacked(); }                                                  \
  SOFT_MEMBER wide operator~() const { return ~unpacked(); }                                                  \
  SOFT_MEMBER soft_bools operator!() const { return !unpacked(); }                                            \
  SOFT_MEMBER __generic packed_vec &operator++() { return *this += wide(T(1)); }                              \
  SOFT_MEMBER __generic packed_vec &operator--() { return *this -= wide(T(1)); }                              \
  SOFT_MEMBER packed_vec operator++(int) {                                                                    \
    packed_vec before = *this;                                                                                \
    *this += wide(T(1));                                                                                      \
    return before;                                                                                            \
  }                                                                                                           \
  SOFT_MEMBER packed_vec operator--(int) {                                                                    \
    packed_vec before = *this;                                                                                \
    *this -= wide(T(1));                                                                                      \
    return before;                                                                                            \
  }                                                                                                           \
  template <int... I> SOFT_MEMBER packed_vec(wide v, soft::index_list<I...>) : d{v.at(I)...} {}               \
  template <int... I> SOFT_MEMBER wide unpacked(soft::index_list<I...>) const { return wide(d[I]...); }

// Whatever arguments make up the ordinary vector.
#define SOFT_PACKED_OF_TWO(N)                                                                                 \
  template <class A, class B, soft::if_parts<N, A, B> = 0,                                                    \
            class = decltype(wide(metal::declval<A>(), metal::declval<B>()))>                                 \
  SOFT_MEMBER packed_vec(A a, B b) : packed_vec(wide(a, b)) {}

namespace soft {
template <class A, class B> using if_same = metal::enable_if_t<__is_same(A, B), int>;
template <int...> struct index_list {};
template <int N> struct index_maker;
template <> struct index_maker<2> {
  typedef index_list<0, 1> type;
};
template <> struct index_maker<3> {
  typedef index_list<0, 1, 2> type;
};
template <> struct index_maker<4> {
  typedef index_list<0, 1, 2, 3> type;
};
template <int N> using indices = typename index_maker<N>::type;
template <class A> constexpr SOFT_CONSTANT int part_size = vector<A>::value ? int(elements<A>::value) : 1;
template <int N, class... A> using if_parts = metal::enable_if_t<(part_size<A> + ...) == N, int>;
}  // namespace soft

namespace metal {
template <class T> struct packed_vec<T, 2> : swizzles<packed_vec<T, 2>, T, 2> {
  SOFT_PACKED_COMMON(2)
  union {
    T d[2];
    struct {
      T x, y;
    };
    struct {
      T r, g;
    };
  };
  SOFT_MEMBER packed_vec(T x, T y) : d{x, y} {}
};
template <class T> struct packed_vec<T, 3> : swizzles<packed_vec<T, 3>, T, 3> {
  SOFT_PACKED_COMMON(3)
  union {
    T d[3];
    struct {
      T x, y, z;
    };
    struct {
      T r, g, b;
    };
  };
  SOFT_PACKED_OF_TWO(3)
  SOFT_MEMBER packed_vec(T x, T y) SOFT_SHORT : d{x, y, T(0)} {}
  SOFT_MEMBER packed_vec(T x, T y, T z) : d{x, y, z} {}
};
template <class T> struct packed_vec<T, 4> : swizzles<packed_vec<T, 4>, T, 4> {
  SOFT_PACKED_COMMON(4)
  union {
    T d[4];
    struct {
      T x, y, z, w;
    };
    struct {
      T r, g, b, a;
    };
  };
  SOFT_PACKED_OF_TWO(4)
  SOFT_MEMBER packed_vec(T x, T y) SOFT_SHORT : d{x, y, T(0), T(0)} {}
  SOFT_MEMBER packed_vec(T x, T y, T z) SOFT_SHORT : d{x, y, z, T(0)} {}
  SOFT_MEMBER packed_vec(T x, T y, T z, T w) : d{x, y, z, w} {}
  template <class A, class B, class C, soft::if_parts<4, A, B, C> = 0,
            class = decltype(wide(metal::declval<A>(), metal::declval<B>(), metal::declval<C>()))>
  SOFT_MEMBER packed_vec(A a, B b, C c) : packed_vec(wide(a, b, c)) {}
};
}  // namespace metal

#define SOFT_PACKED_NAME(T, N)                                                                                \
  typedef metal::packed_vec<T, N> packed_##T##N;                                                              \
  namespace metal {                                                                                           \
  using ::packed_##T##N;                                                                                      \
  }
#define SOFT_PACKED_NAMES(T) SOFT_PACKED_NAME(T, 2) SOFT_PACKED_NAME(T, 3) SOFT_PACKED_NAME(T, 4)
SOFT_PACKED_NAMES(bool)
SOFT_PACKED_NAMES(char)
SOFT_PACKED_NAMES(uchar)
SOFT_PACKED_NAMES(short)
SOFT_PACKED_NAMES(ushort)
SOFT_PACKED_NAMES(int)
SOFT_PACKED_NAMES(uint)
SOFT_PACKED_NAMES(long)
SOFT_PACKED_NAMES(ulong)
SOFT_PACKED_NAMES(half)
SOFT_PACKED_NAMES(float)
SOFT_PACKED_NAMES(bfloat)
#undef SOFT_PACKED_NAME
#undef SOFT_PACKED_NAMES
