// The lanes of a vector: how they are kept, computed with and converted.
#pragma once
#include "soft_bfloat.h"

namespace soft {
template <class T> struct is_bool : metal::is_same<T, bool> {};

// Elements in the form that arithmetic is done in: itself, or float for bfloat.
template <class T, int N> struct lanes {
  typedef ext_t<typename store<T>::type, N> stored;
  typedef stored computed;
  static SOFT_MEMBER computed open(stored v) { return v; }
  static SOFT_MEMBER stored close(computed v) { return v; }
};
template <int N> struct lanes<metal::bfloat, N> {
  typedef ext_t<ushort, N> stored;
  typedef ext_t<float, N> computed;
  static SOFT_MEMBER computed open(stored v) {
    return __builtin_bit_cast(computed, __builtin_convertvector(v, ext_t<uint, N>) << 16u);
  }
  static SOFT_MEMBER stored close(computed v) {
    ext_t<uint, N> bits = __builtin_bit_cast(ext_t<uint, N>, v);
    ext_t<uint, N> rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
    ext_t<uint, N> quiet = (bits >> 16u) | 0x40u;
    ext_t<uint, N> nan = __builtin_convertvector((bits & 0x7fffffffu) > 0x7f800000u, ext_t<uint, N>);
    return __builtin_convertvector((quiet & nan) | (rounded & ~nan), stored);
  }
};
template <int N> struct lanes<bool, N> {
  typedef ext_t<uchar, N> stored;
  typedef stored computed;
  static SOFT_MEMBER computed open(stored v) { return v; }
  template <class V> static SOFT_MEMBER stored close(V v) {
    return __builtin_convertvector(v != V(), stored) & (uchar)1;
  }
};

// How a vector lies in memory. Checked mode hears of no access wider than 16 bytes, so there wider ones are elements.
template <class V, class E, int N, bool = (sizeof(V) > 16)> struct held {
  typedef V type;
};
#if __has_feature(thread_sanitizer)
template <class V, class E, int N> struct held<V, E, N, true> {
  struct __attribute__((aligned(sizeof(V)))) type {
    E elements[N];
    type() = default;
    SOFT_MEMBER type(V v) {
      for (int i = 0; i < N; i++) elements[i] = v[i];
    }
    SOFT_MEMBER operator V() const {
      V v;
      for (int i = 0; i < N; i++) v[i] = elements[i];
      return v;
    }
  };
};
#endif

// A scalar that stands for a whole vector in an expression: integers never take floats silently.
template <class S, class T> struct splats {
  static constexpr bool value =
      __is_convertible(S, T) && !metal::is_vector<S>::value &&
      !(soft::whole_number<T> && !is_bool<T>::value && metal::is_floating_point<S>::value);
};
template <class S, class T> using if_splats = metal::enable_if_t<splats<S, T>::value, int>;
template <class S, class T>
using if_splats_explicitly =
    metal::enable_if_t<!splats<S, T>::value && (metal::is_arithmetic<S>::value || __is_enum(S)), int>;

// The compiler's vectors wrap where its scalars saturate.
template <class To, int N, class V> SOFT_FN ext_t<To, N> saturated(V v) {
  ext_t<To, N> result = ext_t<To, N>();
  for (int i = 0; i < N; i++) result[i] = To(v[i]);
  return result;
}

// A volatile vector is read and written element by element.
template <class V, class Vec>
using if_volatile = metal::enable_if_t<metal::is_volatile<V>::value && metal::is_same<bare<V>, Vec>::value, int>;
template <class T, int N> SOFT_FN typename lanes<T, N>::stored volatile_lanes(const volatile void *from) {
  typename lanes<T, N>::stored v = typename lanes<T, N>::stored();
  for (int i = 0; i < N; i++) v[i] = ((const volatile typename store<T>::type *)from)[i];
  return v;
}
template <class U, class T>
using if_other_integer = metal::enable_if_t<integral<U>::value && integral<T>::value && !metal::is_same<U, T>::value, int>;

template <class To, class From, int N> SOFT_FN typename lanes<To, N>::stored convert(metal::vec<From, N> v) {
  if constexpr (is_bool<To>::value)
    return lanes<bool, N>::close(lanes<From, N>::open(v.whole()));
  else if constexpr (soft::whole_number<To> && metal::is_floating_point<From>::value)
    return saturated<To, N>(lanes<From, N>::open(v.whole()));
  else
    return lanes<To, N>::close(
        __builtin_convertvector(lanes<From, N>::open(v.whole()), typename lanes<To, N>::computed));
}
template <class T> SOFT_FN typename store<T>::type element(T v) {
  return __builtin_bit_cast(typename store<T>::type, v);
}
template <class T> SOFT_FN T value(typename store<T>::type v) { return __builtin_bit_cast(T, v); }
}  // namespace soft
