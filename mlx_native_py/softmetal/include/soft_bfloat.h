// bfloat: a class that converts implicitly to float and integers, never to half, and from integers.
#pragma once
#include "soft_traits.h"

namespace soft {
// Round to nearest even; a NaN keeps its sign and stays a NaN.
SOFT_FN ushort bfloat_bits(float value) {
  uint bits = __builtin_bit_cast(uint, value);
  uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint quiet = (bits >> 16) | 0x40u;
  return ushort((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
SOFT_FN float bfloat_value(ushort bits) { return __builtin_bit_cast(float, uint(bits) << 16); }
template <class T> using if_integer = metal::enable_if_t<soft::whole_number<T> || __is_enum(T), int>;
template <class T> using if_real = metal::enable_if_t<metal::is_floating_point<T>::value && !__is_class(T), int>;
// A class of the program that converts to a number.
template <class T>
using if_number_like =
    metal::enable_if_t<__is_class(T) && !metal::is_same<T, metal::bfloat>::value && __is_convertible(T, float), int>;
template <class T> using if_half = metal::enable_if_t<metal::is_same<T, half>::value, int>;
template <class T> using if_not_half = metal::enable_if_t<!metal::is_same<T, half>::value, int>;
template <class T> using if_float = metal::enable_if_t<metal::is_same<T, float>::value, int>;
template <class T>
using if_float_or_integer = metal::enable_if_t<metal::is_same<bare<T>, float>::value || whole_number<T>, int>;
template <class A> using if_variable = metal::enable_if_t<!__is_const(A), if_float_or_integer<A>>;
template <class T>
using if_number = metal::enable_if_t<metal::is_same<T, float>::value || whole_number<T> || __is_enum(T), int>;
template <class T> using if_half_or_enum = metal::enable_if_t<metal::is_same<T, half>::value || __is_enum(T), int>;
}  // namespace soft

namespace metal {
struct bfloat {
  ushort bits;

  bfloat() = default;
  template <class T, soft::if_integer<T> = 0> SOFT_MEMBER bfloat(T value) : bits(soft::bfloat_bits(float(value))) {}
  template <class T, soft::if_real<T> = 0>
  SOFT_MEMBER explicit bfloat(T value) : bits(soft::bfloat_bits(float(value))) {}
  template <class T, soft::if_number_like<T> = 0>
  SOFT_MEMBER explicit bfloat(T value) : bits(soft::bfloat_bits(float(value))) {}
  SOFT_MEMBER bfloat(soft::raw_tag, ushort value) : bits(value) {}

  template <class T, soft::if_number_like<T> = 0> SOFT_MEMBER __generic bfloat &operator=(T value) {
    return *this = bfloat(value);
  }

  // Templates, so that no second conversion follows, from float to half.
  template <class T, soft::if_float_or_integer<T> = 0> SOFT_MEMBER operator T() const {
    return T(soft::bfloat_value(bits));
  }
  template <class T, soft::if_half_or_enum<T> = 0> SOFT_MEMBER explicit operator T() const {
    return T(soft::bfloat_value(bits));
  }

  SOFT_MEMBER bfloat operator-() const { return bfloat(soft::raw_tag(), ushort(bits ^ 0x8000u)); }
  SOFT_MEMBER bfloat operator+() const { return *this; }

#define SOFT_BFLOAT_OPERATOR(op)                                                                              \
  friend SOFT_MEMBER bfloat operator op(bfloat a, bfloat b) { return bfloat(float(a) op float(b)); }          \
  template <class T, soft::if_integer<T> = 0> friend SOFT_MEMBER bfloat operator op(bfloat a, T b) {          \
    return a op bfloat(b);                                                                                    \
  }                                                                                                           \
  template <class T, soft::if_integer<T> = 0> friend SOFT_MEMBER bfloat operator op(T a, bfloat b) {          \
    return bfloat(a) op b;                                                                                    \
  }                                                                                                           \
  template <class T, soft::if_float<T> = 0> friend SOFT_MEMBER float operator op(bfloat a, T b) {             \
    return float(a) op b;                                                                                     \
  }                                                                                                           \
  template <class T, soft::if_float<T> = 0> friend SOFT_MEMBER float operator op(T a, bfloat b) {             \
    return a op float(b);                                                                                     \
  }                                                                                                           \
  template <class A, soft::if_variable<A> = 0>                                                                \
  friend SOFT_MEMBER A &operator op##=(A &a, bfloat b) {                                                      \
    return a = soft::bare<A>(float(a) op float(b));                                                           \
  }                                                                                                           \
  template <class T, soft::if_half<T> = 0> friend bfloat operator op(bfloat, T) = delete;                     \
  template <class T, soft::if_half<T> = 0> friend bfloat operator op(T, bfloat) = delete;                     \
  template <class T, soft::if_not_half<T> = 0> SOFT_MEMBER __generic bfloat &operator op##=(T b) {            \
    return *this = bfloat(*this op b);                                                                        \
  }
  SOFT_BFLOAT_OPERATOR(+)
  SOFT_BFLOAT_OPERATOR(-)
  SOFT_BFLOAT_OPERATOR(*)
  SOFT_BFLOAT_OPERATOR(/)
#undef SOFT_BFLOAT_OPERATOR

#define SOFT_BFLOAT_COMPARE(op)                                                                               \
  friend SOFT_MEMBER bool operator op(bfloat a, bfloat b) { return float(a) op float(b); }                    \
  template <class T, soft::if_number<T> = 0> friend SOFT_MEMBER bool operator op(bfloat a, T b) {             \
    return float(a) op b;                                                                                     \
  }                                                                                                           \
  template <class T, soft::if_number<T> = 0> friend SOFT_MEMBER bool operator op(T a, bfloat b) {             \
    return a op float(b);                                                                                     \
  }                                                                                                           \
  template <class T, soft::if_half<T> = 0> friend bool operator op(bfloat, T) = delete;                       \
  template <class T, soft::if_half<T> = 0> friend bool operator op(T, bfloat) = delete;
  SOFT_BFLOAT_COMPARE(==)
  SOFT_BFLOAT_COMPARE(!=)
  SOFT_BFLOAT_COMPARE(<)
  SOFT_BFLOAT_COMPARE(<=)
  SOFT_BFLOAT_COMPARE(>)
  SOFT_BFLOAT_COMPARE(>=)
#undef SOFT_BFLOAT_COMPARE

  SOFT_MEMBER __generic bfloat &operator++() { return *this += 1; }
  SOFT_MEMBER __generic bfloat &operator--() { return *this -= 1; }
  SOFT_MEMBER bfloat operator++(int) {
    bfloat before = *this;
    *this += 1;
    return before;
  }
  SOFT_MEMBER bfloat operator--(int) {
    bfloat before = *this;
    *this -= 1;
    return before;
  }
};
}  // namespace metal

using metal::bfloat;
