// vec<T, N>: Metal's vectors as a class over the compiler's own vectors.
#pragma once
#include "soft_swizzle.h"
#include "soft_vector_lanes.h"

// The template for volatile vectors leaves the others trivial.
#define SOFT_VEC_ASSIGN(op, Operand)                                                                          \
  SOFT_MEMBER __generic vec &operator op##=(Operand b) { return *this = *this op b; }                         \
  template <class V = Operand> SOFT_MEMBER void operator op##=(type_identity_t<V> b) volatile {               \
    *this = vec(*this) op b;                                                                                  \
  }
#define SOFT_VEC_ARITHMETIC(op)                                                                               \
  friend SOFT_MEMBER vec operator op(vec a, vec b) {                                                          \
    static_assert(!soft::is_bool<T>::value, "arithmetic on a bool vector");                                   \
    return vec(soft_lanes::close(soft_lanes::open(a.whole()) op soft_lanes::open(b.whole())));           \
  }                                                                                                           \
  SOFT_VEC_ASSIGN(op, vec)
#define SOFT_VEC_BITWISE(op)                                                                                  \
  friend SOFT_MEMBER vec operator op(vec a, vec b) {                                                          \
    static_assert(soft::whole_number<T>, "integer operator on a floating-point vector");               \
    return vec(a.whole() op b.whole());                                                                       \
  }                                                                                                           \
  SOFT_VEC_ASSIGN(op, vec)
// The amounts of a shift may be of another integer type.
#define SOFT_VEC_SHIFT(op)                                                                                    \
  SOFT_VEC_BITWISE(op)                                                                                        \
  template <class U, soft::if_other_integer<U, T> = 0>                                                        \
  friend SOFT_MEMBER vec operator op(vec a, vec<U, soft_size> b) {                                            \
    return a op vec(b);                                                                                       \
  }                                                                                                           \
  template <class U, soft::if_other_integer<U, T> = 0>                                                        \
  SOFT_MEMBER __generic vec &operator op##=(vec<U, soft_size> b) {                                            \
    return *this = *this op vec(b);                                                                           \
  }
#define SOFT_VEC_COMPARE(op)                                                                                  \
  friend SOFT_MEMBER vec<bool, soft_size> operator op(vec a, vec b) {                                         \
    return vec<bool, soft_size>(soft::lanes<bool, soft_size>::close(                         \
                                                     soft_lanes::open(a.whole()) op soft_lanes::open(b.whole())));     \
  }
#define SOFT_VEC_LOGICAL(op)                                                                                  \
  friend SOFT_MEMBER vec<bool, soft_size> operator op##op(vec a, vec b) {                                     \
    return vec<bool, soft_size>(soft::convert<bool>(a) op soft::convert<bool>(b));           \
  }

// Aligned to its size, which ARM's compiler does not do beyond a register. On x86, where it does, saying so would
// void -fmax-type-align, and loads of vectors at any element's address would fault.
#if defined(__aarch64__)
#define SOFT_VEC_ALIGNED __attribute__((aligned(4 * sizeof(typename soft::store<T>::type))))
#else
#define SOFT_VEC_ALIGNED
#endif

// What vectors of every width have in common. Components are members beside the compiler's vector, so that one
// of them in a buffer is read and written alone. Constant expressions see the components only.
#define SOFT_VEC_COMMON(N)                                                                                    \
  typedef soft::lanes<T, N> soft_lanes;                                                                       \
  typedef typename soft_lanes::stored soft_stored;                                                            \
  typedef soft::ext_t<typename soft::store<T>::type, N == 3 ? 4 : N> soft_wide;                               \
  typedef typename soft::held<soft_wide, typename soft::store<T>::type, N == 3 ? 4 : N>::type soft_held;      \
  enum { soft_size = N };                                                                                     \
                                                                                                              \
  vec() = default;                                                                                            \
  struct soft_bare {                                                                                          \
    soft_stored v;                                                                                            \
  };                                                                                                          \
  SOFT_MEMBER explicit vec(soft_stored v) : vec(made(v)) {}                                                   \
  template <class S, soft::if_splats<S, T> = 0> SOFT_MEMBER vec(S s) : vec(soft_stored(soft::element<T>(T(s)))) {}\
  template <class S, soft::if_splats_explicitly<S, T> = 0>                                                    \
  SOFT_MEMBER explicit vec(S s) : vec(soft_stored(soft::element<T>(T(s)))) {}                                 \
  template <class U> SOFT_MEMBER explicit vec(vec<U, N> v) : vec(soft::convert<T>(v)) {}                      \
  template <class V, soft::if_volatile<V, vec> = 0> SOFT_MEMBER vec(V &v) : vec(soft::volatile_lanes<T, N>(&v.d)) {}\
  template <class V = vec> SOFT_MEMBER void operator=(type_identity_t<V> v) volatile {                        \
    for (int i = 0; i < N; i++) ((volatile typename soft::store<T>::type *)&d)[i] = v.whole()[i];             \
  }                                                                                                           \
                                                                                                              \
  static SOFT_MEMBER vec made(soft_stored v) {                                                                \
    if (__builtin_is_constant_evaluated()) return spread(v);                                                  \
    return vec(soft_bare{v});                                                                                 \
  }                                                                                                           \
  SOFT_MEMBER T at(int i) const {                                                                             \
    if (__builtin_is_constant_evaluated()) return __builtin_bit_cast(T, (typename soft::store<T>::type)whole()[i]);\
    return ((const T *)&d)[i];                                                                                \
  }                                                                                                           \
  SOFT_MEMBER void put(int i, T v) {                                                                          \
    if (__builtin_is_constant_evaluated())                                                                    \
      put_constant(i, v);                                                                                     \
    else                                                                                                      \
      ((T *)&d)[i] = v;                                                                                       \
  }                                                                                                           \
  SOFT_MEMBER __generic T &operator[](int i) & { return ((T *)&d)[i]; }                                       \
  SOFT_MEMBER T operator[](int i) const & { return at(i); }                                                   \
  SOFT_MEMBER T operator[](int i) const && { return at(i); }                                                  \
                                                                                                              \
  SOFT_VEC_ARITHMETIC(+)                                                                                      \
  SOFT_VEC_ARITHMETIC(-)                                                                                      \
  SOFT_VEC_ARITHMETIC(*)                                                                                      \
  SOFT_VEC_ARITHMETIC(/)                                                                                      \
  SOFT_VEC_BITWISE(%)                                                                                         \
  SOFT_VEC_BITWISE(&)                                                                                         \
  SOFT_VEC_BITWISE(|)                                                                                         \
  SOFT_VEC_BITWISE(^)                                                                                         \
  SOFT_VEC_SHIFT(<<)                                                                                          \
  SOFT_VEC_SHIFT(>>)                                                                                          \
  SOFT_VEC_COMPARE(==)                                                                                        \
  SOFT_VEC_COMPARE(!=)                                                                                        \
  SOFT_VEC_COMPARE(<)                                                                                         \
  SOFT_VEC_COMPARE(<=)                                                                                        \
  SOFT_VEC_COMPARE(>)                                                                                         \
  SOFT_VEC_COMPARE(>=)                                                                                        \
  SOFT_VEC_LOGICAL(&)                                                                                         \
  SOFT_VEC_LOGICAL(|)                                                                                         \
                                                                                                              \
  SOFT_MEMBER vec operator+() const { return *this; }                                                         \
  SOFT_MEMBER vec operator-() const { return vec(soft_lanes::close(-soft_lanes::open(whole()))); } \
  SOFT_MEMBER vec operator~() const {                                                                         \
    static_assert(soft::whole_number<T>, "~ on a floating-point vector");                              \
    if constexpr (soft::is_bool<T>::value) return vec(whole() ^ (uchar)1);                         \
    else return vec(~whole());                                                                     \
  }                                                                                                           \
  SOFT_MEMBER vec<bool, N> operator!() const {                                                                \
    return vec<bool, N>(soft::convert<bool>(*this) ^ (uchar)1);                              \
  }                                                                                                           \
  SOFT_MEMBER __generic vec &operator++() { return *this += T(1); }                                           \
  SOFT_MEMBER __generic vec &operator--() { return *this -= T(1); }                                           \
  SOFT_MEMBER vec operator++(int) {                                                                           \
    vec before = *this;                                                                                       \
    *this += T(1);                                                                                            \
    return before;                                                                                            \
  }                                                                                                           \
  SOFT_MEMBER vec operator--(int) {                                                                           \
    vec before = *this;                                                                                       \
    *this -= T(1);                                                                                            \
    return before;                                                                                            \
  }

// Fewer values than components are for lists in braces: the rest is zero. The front end hears of each and looks for braces.
#define SOFT_SHORT __attribute__((diagnose_if(true, "fewer values than components", "warning")))

namespace soft {
// A vector among the arguments of a constructor; a scalar never stands for one there.
template <class T, int N> struct part;
template <class T> struct part<T, 2> {
  T at[2];
  SOFT_MEMBER part(metal::vec<T, 2> v) : at{v.x, v.y} {}
  SOFT_MEMBER part(metal::packed_vec<T, 2> v) : at{v.at(0), v.at(1)} {}
};
template <class T> struct part<T, 3> {
  T at[3];
  SOFT_MEMBER part(metal::vec<T, 3> v) : at{v.x, v.y, v.z} {}
  SOFT_MEMBER part(metal::packed_vec<T, 3> v) : at{v.at(0), v.at(1), v.at(2)} {}
};
}  // namespace soft

namespace metal {
// Extended vectors, of more than four elements, have no names for them.
template <class T, int N> struct vec {
  static_assert(N > 4 && N <= 16, "a vector has two to four elements, or up to sixteen if extended");
  SOFT_VEC_COMMON(N)
  union {
    T elements[N];
    soft_held d;
  };
  SOFT_MEMBER explicit vec(soft_bare bare) : d(bare.v) {}
  template <class... A, enable_if_t<sizeof...(A) == N && (__is_convertible(A, T) && ...), int> = 0>
  SOFT_MEMBER vec(A... values) : elements{T(values)...} {}

  SOFT_MEMBER soft_stored whole() const {
    if (!__builtin_is_constant_evaluated()) return d;
    soft_stored v = soft_stored();
    for (int i = 0; i < N; i++) v[i] = soft::element(elements[i]);
    return v;
  }
  static SOFT_MEMBER vec spread(soft_stored v) {
    vec result = vec(soft_array{});
    for (int i = 0; i < N; i++) result.elements[i] = soft::value<T>(v[i]);
    return result;
  }
  SOFT_MEMBER void put_constant(int i, T v) { elements[i] = v; }

 private:
  struct soft_array {};
  SOFT_MEMBER explicit vec(soft_array) : elements{} {}
};

template <class T> struct vec<T, 2> : swizzles<vec<T, 2>, T, 2> {
  SOFT_VEC_COMMON(2)
  union {
    struct {
      T x, y;
    };
    struct {
      T r, g;
    };
    soft_held d;
  };
  SOFT_MEMBER explicit vec(soft_bare bare) : d(bare.v) {}
  SOFT_MEMBER vec(T x, T y) : x(x), y(y) {}

  SOFT_MEMBER soft_stored whole() const {
    if (__builtin_is_constant_evaluated()) return soft_stored{soft::element(x), soft::element(y)};
    return d;
  }
  static SOFT_MEMBER vec spread(soft_stored v) { return vec(soft::value<T>(v[0]), soft::value<T>(v[1])); }
  SOFT_MEMBER void put_constant(int i, T v) { (i == 0 ? x : y) = v; }
};

// Three elements lie in memory as four, of which the last is zero.
template <class T> struct SOFT_VEC_ALIGNED vec<T, 3> : swizzles<vec<T, 3>, T, 3> {
  SOFT_VEC_COMMON(3)
  union {
    struct {
      T x, y, z, soft_rest;
    };
    struct {
      T r, g, b;
    };
    soft_held d;
  };
  SOFT_MEMBER explicit vec(soft_bare bare) : d(__builtin_shufflevector(bare.v, soft_stored(), 0, 1, 2, 3)) {}
  SOFT_MEMBER vec(T x, T y) SOFT_SHORT : vec(x, y, T(0)) {}
  SOFT_MEMBER vec(T x, T y, T z) : x(x), y(y), z(z), soft_rest(T(0)) {}
  SOFT_MEMBER vec(soft::part<T, 2> a, T z) : vec(a.at[0], a.at[1], z) {}
  SOFT_MEMBER vec(T x, soft::part<T, 2> a) : vec(x, a.at[0], a.at[1]) {}

  SOFT_MEMBER soft_stored whole() const {
    if (__builtin_is_constant_evaluated()) return soft_stored{soft::element(x), soft::element(y), soft::element(z)};
    soft_wide all = d;
    return __builtin_shufflevector(all, all, 0, 1, 2);
  }
  static SOFT_MEMBER vec spread(soft_stored v) {
    return vec(soft::value<T>(v[0]), soft::value<T>(v[1]), soft::value<T>(v[2]));
  }
  SOFT_MEMBER void put_constant(int i, T v) { (i == 0 ? x : i == 1 ? y : z) = v; }
};

template <class T> struct SOFT_VEC_ALIGNED vec<T, 4> : swizzles<vec<T, 4>, T, 4> {
  SOFT_VEC_COMMON(4)
  union {
    struct {
      T x, y, z, w;
    };
    struct {
      T r, g, b, a;
    };
    soft_held d;
  };
  SOFT_MEMBER explicit vec(soft_bare bare) : d(bare.v) {}
  SOFT_MEMBER vec(T x, T y) SOFT_SHORT : vec(x, y, T(0), T(0)) {}
  SOFT_MEMBER vec(T x, T y, T z) SOFT_SHORT : vec(x, y, z, T(0)) {}
  SOFT_MEMBER vec(T x, T y, T z, T w) : x(x), y(y), z(z), w(w) {}
  SOFT_MEMBER vec(soft::part<T, 2> a, T z, T w) : vec(a.at[0], a.at[1], z, w) {}
  SOFT_MEMBER vec(T x, soft::part<T, 2> a, T w) : vec(x, a.at[0], a.at[1], w) {}
  SOFT_MEMBER vec(T x, T y, soft::part<T, 2> a) : vec(x, y, a.at[0], a.at[1]) {}
  SOFT_MEMBER vec(soft::part<T, 2> a, soft::part<T, 2> b) : vec(a.at[0], a.at[1], b.at[0], b.at[1]) {}
  SOFT_MEMBER vec(soft::part<T, 3> a, T w) : vec(a.at[0], a.at[1], a.at[2], w) {}
  SOFT_MEMBER vec(T x, soft::part<T, 3> a) : vec(x, a.at[0], a.at[1], a.at[2]) {}

  SOFT_MEMBER soft_stored whole() const {
    if (__builtin_is_constant_evaluated())
      return soft_stored{soft::element(x), soft::element(y), soft::element(z), soft::element(w)};
    return d;
  }
  static SOFT_MEMBER vec spread(soft_stored v) {
    return vec(soft::value<T>(v[0]), soft::value<T>(v[1]), soft::value<T>(v[2]), soft::value<T>(v[3]));
  }
  SOFT_MEMBER void put_constant(int i, T v) { (i == 0 ? x : i == 1 ? y : i == 2 ? z : w) = v; }
};

}  // namespace metal

namespace soft {
// Unions have no bits in constant expressions, the compiler's vectors do.
template <class T> SOFT_FN T bare_vector(T value) { return value; }
template <class T, int N> SOFT_FN typename lanes<T, N>::stored bare_vector(metal::vec<T, N> value) {
  return value.whole();
}
// Numbers and vectors of them can be taken as others of their size; no bool, pointer, matrix or struct can.
template <class T> struct has_bits : metal::bool_constant<metal::is_arithmetic<T>::value && !metal::is_same<T, bool>::value> {};
template <class T, int N> struct has_bits<metal::vec<T, N>> : has_bits<T> {};
template <class T, int N> struct has_bits<metal::packed_vec<T, N>> : has_bits<T> {};
template <class T> using if_bits = metal::enable_if_t<has_bits<bare<T>>::value, int>;
template <class To> struct bits_as {
  template <class From> static SOFT_MEMBER To of(From value) { return __builtin_bit_cast(To, value); }
};
template <class T, int N> struct bits_as<metal::vec<T, N>> {
  template <class From> static SOFT_MEMBER metal::vec<T, N> of(From value) {
    return metal::vec<T, N>(__builtin_bit_cast(typename lanes<T, N>::stored, value));
  }
};
}  // namespace soft

namespace metal {
template <class To, class From, soft::if_bits<To> = 0, soft::if_bits<From> = 0> SOFT_FN To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type between types of different size");
  return soft::bits_as<To>::of(soft::bare_vector(value));
}
}  // namespace metal
using metal::as_type;

#define SOFT_VEC_NAME(T, N)                                                                                   \
  typedef metal::vec<T, N> T##N;                                                                              \
  namespace metal {                                                                                           \
  using ::T##N;                                                                                               \
  }
#define SOFT_VEC_NAMES(T) SOFT_VEC_NAME(T, 2) SOFT_VEC_NAME(T, 3) SOFT_VEC_NAME(T, 4)
SOFT_VEC_NAMES(bool)
SOFT_VEC_NAMES(char)
SOFT_VEC_NAMES(uchar)
SOFT_VEC_NAMES(short)
SOFT_VEC_NAMES(ushort)
SOFT_VEC_NAMES(int)
SOFT_VEC_NAMES(uint)
SOFT_VEC_NAMES(long)
SOFT_VEC_NAMES(ulong)
SOFT_VEC_NAMES(half)
SOFT_VEC_NAMES(float)
SOFT_VEC_NAMES(bfloat)
#undef SOFT_VEC_NAME
#undef SOFT_VEC_NAMES
