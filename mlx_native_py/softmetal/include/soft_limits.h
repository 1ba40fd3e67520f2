// numeric_limits of every scalar type.
#pragma once
#include "soft_bfloat.h"

namespace metal {
enum float_round_style {
  round_indeterminate = -1,
  round_toward_zero = 0,
  round_to_nearest = 1,
  round_toward_infinity = 2,
  round_toward_neg_infinity = 3
};
enum float_denorm_style { denorm_indeterminate = -1, denorm_absent = 0, denorm_present = 1 };
}  // namespace metal

namespace soft {
#define SOFT_LIMIT(T, name, value) static constexpr SOFT_CONSTANT T name = value;
struct no_limits {
  SOFT_LIMIT(bool, is_specialized, false)
  SOFT_LIMIT(bool, is_signed, false)
  SOFT_LIMIT(bool, is_integer, false)
  SOFT_LIMIT(bool, is_exact, false)
  SOFT_LIMIT(bool, is_bounded, false)
  SOFT_LIMIT(bool, is_modulo, false)
  SOFT_LIMIT(bool, is_iec559, false)
  SOFT_LIMIT(bool, has_infinity, false)
  SOFT_LIMIT(bool, has_quiet_NaN, false)
  SOFT_LIMIT(bool, has_signaling_NaN, false)
  SOFT_LIMIT(bool, has_denorm_loss, false)
  SOFT_LIMIT(bool, traps, false)
  SOFT_LIMIT(bool, tinyness_before, false)
  SOFT_LIMIT(int, digits, 0)
  SOFT_LIMIT(int, digits10, 0)
  SOFT_LIMIT(int, max_digits10, 0)
  SOFT_LIMIT(int, radix, 0)
  SOFT_LIMIT(int, min_exponent, 0)
  SOFT_LIMIT(int, min_exponent10, 0)
  SOFT_LIMIT(int, max_exponent, 0)
  SOFT_LIMIT(int, max_exponent10, 0)
  SOFT_LIMIT(metal::float_denorm_style, has_denorm, metal::denorm_absent)
  SOFT_LIMIT(metal::float_round_style, round_style, metal::round_toward_zero)
};

template <class T> struct integer_limits : no_limits {
  static constexpr int width = __is_same(T, bool) ? 1 : int(sizeof(T)) * 8;
  SOFT_LIMIT(bool, is_specialized, true)
  SOFT_LIMIT(bool, is_signed, T(-1) < T(0))
  SOFT_LIMIT(bool, is_integer, true)
  SOFT_LIMIT(bool, is_exact, true)
  SOFT_LIMIT(bool, is_bounded, true)
  SOFT_LIMIT(bool, is_modulo, !is_signed && !__is_same(T, bool))
  SOFT_LIMIT(int, digits, width - is_signed)
  SOFT_LIMIT(int, digits10, digits * 643 / 2136)
  SOFT_LIMIT(int, radix, 2)
  static SOFT_MEMBER T max() { return is_signed ? T((((T(1) << (width - 2)) - 1) << 1) + 1) : T(~T(0)); }
  static SOFT_MEMBER T min() { return is_signed ? T(-max() - 1) : T(0); }
  static SOFT_MEMBER T lowest() { return min(); }
  static SOFT_MEMBER T epsilon() { return T(0); }
  static SOFT_MEMBER T round_error() { return T(0); }
  static SOFT_MEMBER T infinity() { return T(0); }
  static SOFT_MEMBER T quiet_NaN() { return T(0); }
  static SOFT_MEMBER T signaling_NaN() { return T(0); }
  static SOFT_MEMBER T denorm_min() { return T(0); }
};

// Decimal digits follow from the number of significant bits.
template <class T, class Bits, int Digits, int Exponent> struct float_limits : no_limits {
  SOFT_LIMIT(bool, is_specialized, true)
  SOFT_LIMIT(bool, is_signed, true)
  SOFT_LIMIT(bool, is_bounded, true)
  SOFT_LIMIT(bool, is_iec559, true)
  SOFT_LIMIT(bool, has_infinity, true)
  SOFT_LIMIT(bool, has_quiet_NaN, true)
  SOFT_LIMIT(bool, has_signaling_NaN, true)
  SOFT_LIMIT(int, digits, Digits)
  SOFT_LIMIT(int, digits10, (Digits - 1) * 643 / 2136)
  SOFT_LIMIT(int, max_digits10, 2 + Digits * 643 / 2136)
  SOFT_LIMIT(int, radix, 2)
  SOFT_LIMIT(int, min_exponent, 3 - Exponent)
  SOFT_LIMIT(int, min_exponent10, -((Exponent - 2) * 643 / 2136))
  SOFT_LIMIT(int, max_exponent, Exponent)
  SOFT_LIMIT(int, max_exponent10, Exponent * 643 / 2136)
  SOFT_LIMIT(metal::float_denorm_style, has_denorm, metal::denorm_present)
  SOFT_LIMIT(metal::float_round_style, round_style, metal::round_to_nearest)
  static constexpr int fraction = Digits - 1;
  static SOFT_MEMBER T of(uint bits) { return __builtin_bit_cast(T, Bits(bits)); }
  static SOFT_MEMBER T max() { return of(((2u * Exponent - 1u) << fraction) - 1u); }
  static SOFT_MEMBER T min() { return of(1u << fraction); }
  static SOFT_MEMBER T lowest() { return -max(); }
  static SOFT_MEMBER T epsilon() { return of(uint(Exponent - 1 - fraction) << fraction); }
  static SOFT_MEMBER T round_error() { return of(uint(Exponent - 2) << fraction); }
  static SOFT_MEMBER T infinity() { return of((2u * Exponent - 1u) << fraction); }
  static SOFT_MEMBER T quiet_NaN() { return of(((2u * Exponent - 1u) << fraction) | (1u << (fraction - 1))); }
  static SOFT_MEMBER T signaling_NaN() { return of(((2u * Exponent - 1u) << fraction) | (1u << (fraction - 2))); }
  static SOFT_MEMBER T denorm_min() { return of(1u); }
};
#undef SOFT_LIMIT
}  // namespace soft

namespace metal {
template <class T> struct _numeric_limits_impl : soft::no_limits {
  static constexpr T max() { return T(); }
  static constexpr T min() { return T(); }
  static constexpr T lowest() { return T(); }
};
#define SOFT_INTEGER_LIMITS(T)                                                                                \
  template <> struct _numeric_limits_impl<T> : soft::integer_limits<T> {};
SOFT_INTEGER_LIMITS(bool)
SOFT_INTEGER_LIMITS(char)
SOFT_INTEGER_LIMITS(signed char)
SOFT_INTEGER_LIMITS(uchar)
SOFT_INTEGER_LIMITS(short)
SOFT_INTEGER_LIMITS(ushort)
SOFT_INTEGER_LIMITS(int)
SOFT_INTEGER_LIMITS(uint)
SOFT_INTEGER_LIMITS(long)
SOFT_INTEGER_LIMITS(ulong)
#undef SOFT_INTEGER_LIMITS
template <> struct _numeric_limits_impl<float> : soft::float_limits<float, uint, 24, 128> {};
template <> struct _numeric_limits_impl<half> : soft::float_limits<half, ushort, 11, 16> {};
template <> struct _numeric_limits_impl<bfloat> : soft::float_limits<bfloat, ushort, 8, 128> {};

template <class T> struct numeric_limits : _numeric_limits_impl<remove_cvref_t<T>> {};
}  // namespace metal
