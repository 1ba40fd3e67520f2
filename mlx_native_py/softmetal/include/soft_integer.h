// metal_integer, for scalars and vectors.
#pragma once
#include "soft_math.h"

namespace soft {
template <class T> using if_whole =
    metal::enable_if_t<soft::whole_number<T> && !metal::is_same<T, bool>::value, int>;

template <class V> using if_32_bits = metal::enable_if_t<sizeof(typename as_vector<V>::element) == 4, int>;

namespace whole {
template <class T> using unsigned_of = typename signs<T>::without;
template <class T> SOFT_FN int width() { return int(sizeof(T)) * 8; }

template <class T> SOFT_FN unsigned_of<T> absdiff(T x, T y) {
  typedef unsigned_of<T> U;
  return x < y ? U(U(y) - U(x)) : U(U(x) - U(y));
}
template <class T> SOFT_FN T addsat(T x, T y) { return __builtin_elementwise_add_sat(x, y); }
template <class T> SOFT_FN T subsat(T x, T y) { return __builtin_elementwise_sub_sat(x, y); }
template <class T> SOFT_FN T clz(T x) { return T(__builtin_clzg(unsigned_of<T>(x), width<T>())); }
template <class T> SOFT_FN T ctz(T x) { return T(__builtin_ctzg(unsigned_of<T>(x), width<T>())); }
template <class T> SOFT_FN T popcount(T x) { return T(__builtin_popcountg(unsigned_of<T>(x))); }
template <class T> SOFT_FN T reverse_bits(T x) { return __builtin_elementwise_bitreverse(x); }
template <class T> SOFT_FN T hadd(T x, T y) { return T((x & y) + ((x ^ y) >> 1)); }
template <class T> SOFT_FN T rhadd(T x, T y) { return T((x | y) - ((x ^ y) >> 1)); }
template <class T> SOFT_FN T rotate(T x, T by) {
  unsigned_of<T> u = unsigned_of<T>(x);
  int n = int(by) & (width<T>() - 1);
  return T(unsigned_of<T>(u << n) | unsigned_of<T>(u >> ((width<T>() - n) & (width<T>() - 1))));
}
template <class T> struct doubled {
  typedef metal::conditional_t<metal::is_signed<T>::value, long, ulong> type;
};
template <> struct doubled<long> {
  typedef __int128 type;
};
template <> struct doubled<ulong> {
  typedef unsigned __int128 type;
};
template <class T> SOFT_FN T mulhi(T x, T y) {
  typedef typename doubled<T>::type W;
  return T((W(x) * W(y)) >> width<T>());
}
template <class T> SOFT_FN T madhi(T a, T b, T c) {
  return T(unsigned_of<T>(mulhi(a, b)) + unsigned_of<T>(c));
}
template <class T> SOFT_FN T madsat(T a, T b, T c) {
  typedef typename doubled<T>::type W;
  constexpr unsigned_of<T> all = unsigned_of<T>(~unsigned_of<T>(0));
  constexpr T most = metal::is_signed<T>::value ? T(all >> 1) : T(all);
  constexpr T least = metal::is_signed<T>::value ? T(~most) : T(0);
  W sum = W(a) * W(b) + W(c);
  return sum > W(most) ? most : (sum < W(least) ? least : T(sum));
}
template <class T> SOFT_FN T low24(T x) {
  return metal::is_signed<T>::value ? T(T(uint(x) << 8) >> 8) : T(x & T(0xffffff));
}
template <class T> SOFT_FN T mul24(T x, T y) { return T(uint(low24(x)) * uint(low24(y))); }
template <class T> SOFT_FN T mad24(T x, T y, T z) { return T(uint(mul24(x, y)) + uint(z)); }
template <class T> SOFT_FN T extract_bits(T x, uint offset, uint bits) {
  typedef unsigned_of<T> U;
  if (bits == 0) return T(0);
  int left = width<T>() - int(offset + bits);
  return T(T(U(x) << left) >> (width<T>() - int(bits)));
}
template <class T> SOFT_FN T insert_bits(T base, T insert, uint offset, uint bits) {
  typedef unsigned_of<T> U;
  if (bits == 0) return base;
  U mask = U(U(U(~U(0)) >> (width<T>() - int(bits))) << offset);
  return T((U(base) & U(~mask)) | (U(U(insert) << offset) & mask));
}
}  // namespace whole
}  // namespace soft

namespace metal {
// Overloads per type, so that calls with mixed types are ambiguous as in Metal.
#define SOFT_WHOLE(T)                                                                                         \
  SOFT_FN T abs(T x) { return x < T(0) ? T(-x) : x; }                                                         \
  SOFT_FN T max(T x, T y) { return x < y ? y : x; }                                                           \
  SOFT_FN T min(T x, T y) { return y < x ? y : x; }                                                           \
  SOFT_FN T clamp(T x, T low, T high) { return min(max(x, low), high); }                                      \
  SOFT_FN T max3(T x, T y, T z) { return max(x, max(y, z)); }                                                 \
  SOFT_FN T min3(T x, T y, T z) { return min(x, min(y, z)); }                                                 \
  SOFT_FN T median3(T x, T y, T z) { return max(min(x, y), min(max(x, y), z)); }
SOFT_WHOLE(char)
SOFT_WHOLE(uchar)
SOFT_WHOLE(short)
SOFT_WHOLE(ushort)
SOFT_WHOLE(int)
SOFT_WHOLE(uint)
SOFT_WHOLE(long)
SOFT_WHOLE(ulong)
#undef SOFT_WHOLE

#define SOFT_WHOLE1(name)                                                                                     \
  template <class T, soft::if_whole<T> = 0> SOFT_FN T name(T x) { return soft::whole::name(x); }
#define SOFT_WHOLE2(name)                                                                                     \
  template <class T, soft::if_whole<T> = 0> SOFT_FN T name(T x, T y) { return soft::whole::name(x, y); }
#define SOFT_WHOLE3(name)                                                                                     \
  template <class T, soft::if_whole<T> = 0> SOFT_FN T name(T x, T y, T z) { return soft::whole::name(x, y, z); }
SOFT_WHOLE1(clz)
SOFT_WHOLE1(ctz)
SOFT_WHOLE1(popcount)
SOFT_WHOLE1(reverse_bits)
SOFT_WHOLE2(addsat)
SOFT_WHOLE2(subsat)
SOFT_WHOLE2(hadd)
SOFT_WHOLE2(rhadd)
SOFT_WHOLE2(mulhi)
SOFT_WHOLE2(rotate)
SOFT_WHOLE3(madhi)
SOFT_WHOLE3(madsat)
#undef SOFT_WHOLE1
#undef SOFT_WHOLE2
#undef SOFT_WHOLE3
SOFT_FN int mul24(int x, int y) { return soft::whole::mul24(x, y); }
SOFT_FN uint mul24(uint x, uint y) { return soft::whole::mul24(x, y); }
SOFT_FN int mad24(int x, int y, int z) { return soft::whole::mad24(x, y, z); }
SOFT_FN uint mad24(uint x, uint y, uint z) { return soft::whole::mad24(x, y, z); }
template <class T, soft::if_whole<T> = 0> SOFT_FN make_unsigned_t<T> absdiff(T x, T y) {
  return soft::whole::absdiff(x, y);
}
template <class T, soft::if_whole<T> = 0> SOFT_FN T extract_bits(T x, uint offset, uint bits) {
  return soft::whole::extract_bits(x, offset, bits);
}
template <class T, soft::if_whole<T> = 0> SOFT_FN T insert_bits(T base, T insert, uint offset, uint bits) {
  return soft::whole::insert_bits(base, insert, offset, bits);
}

#define SOFT_WHOLES1(name)                                                                                    \
  template <class A, class V = soft::whole_vector_t<A>> SOFT_INLINE V name(A x) {                             \
    typedef typename soft::as_vector<V>::element T;                                                           \
    return soft::map<V>([](T a) { return soft::whole::name<T>(a); }, V(x));                                   \
  }
#define SOFT_WHOLES2(name)                                                                                    \
  template <class A, class B, class V = soft::whole_vector_t<A, B>> SOFT_INLINE V name(A x, B y) {            \
    typedef typename soft::as_vector<V>::element T;                                                           \
    return soft::map<V>([](T a, T b) { return soft::whole::name<T>(a, b); }, V(x), V(y));                     \
  }
#define SOFT_WHOLES3(name)                                                                                    \
  template <class A, class B, class C, class V = soft::whole_vector_t<A, B, C>>                               \
  SOFT_INLINE V name(A x, B y, C z) {                                                                         \
    typedef typename soft::as_vector<V>::element T;                                                           \
    return soft::map<V>([](T a, T b, T c) { return soft::whole::name<T>(a, b, c); }, V(x), V(y), V(z));       \
  }
SOFT_WHOLES1(clz)
SOFT_WHOLES1(ctz)
SOFT_WHOLES1(popcount)
SOFT_WHOLES1(reverse_bits)
SOFT_WHOLES2(addsat)
SOFT_WHOLES2(subsat)
SOFT_WHOLES2(hadd)
SOFT_WHOLES2(rhadd)
SOFT_WHOLES2(mulhi)
SOFT_WHOLES2(rotate)
SOFT_WHOLES3(madhi)
SOFT_WHOLES3(madsat)
#undef SOFT_WHOLES1
#undef SOFT_WHOLES2
#undef SOFT_WHOLES3

// For 32 bits only.
template <class A, class B, class V = soft::whole_vector_t<A, B>, soft::if_32_bits<V> = 0>
SOFT_INLINE V mul24(A x, B y) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([](T a, T b) { return soft::whole::mul24<T>(a, b); }, V(x), V(y));
}
template <class A, class B, class C, class V = soft::whole_vector_t<A, B, C>, soft::if_32_bits<V> = 0>
SOFT_INLINE V mad24(A x, B y, C z) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([](T a, T b, T c) { return soft::whole::mad24<T>(a, b, c); }, V(x), V(y), V(z));
}

// On compiler vectors these are single instructions.
template <class A, class V = soft::whole_vector_t<A>, class = void> SOFT_FN V abs(A x) {
  if constexpr (is_unsigned<typename soft::as_vector<V>::element>::value)
    return V(x);
  else
    return V(__builtin_elementwise_abs(V(x).whole()));
}
template <class A, class B, class V = soft::whole_vector_t<A, B>, class = void> SOFT_FN V max(A x, B y) {
  return V(__builtin_elementwise_max(V(x).whole(), V(y).whole()));
}
template <class A, class B, class V = soft::whole_vector_t<A, B>, class = void> SOFT_FN V min(A x, B y) {
  return V(__builtin_elementwise_min(V(x).whole(), V(y).whole()));
}
template <class A, class B, class C, class V = soft::whole_vector_t<A, B, C>, class = void>
SOFT_FN V clamp(A x, B low, C high) {
  return min(max(V(x), V(low)), V(high));
}
template <class A, class B, class C, class V = soft::whole_vector_t<A, B, C>, class = void>
SOFT_FN V max3(A x, B y, C z) {
  return max(V(x), max(V(y), V(z)));
}
template <class A, class B, class C, class V = soft::whole_vector_t<A, B, C>, class = void>
SOFT_FN V min3(A x, B y, C z) {
  return min(V(x), min(V(y), V(z)));
}
template <class A, class B, class C, class V = soft::whole_vector_t<A, B, C>, class = void>
SOFT_FN V median3(A x, B y, C z) {
  return max(min(V(x), V(y)), min(max(V(x), V(y)), V(z)));
}
template <class A, class B, class V = soft::whole_vector_t<A, B>> SOFT_INLINE make_unsigned_t<V> absdiff(A x, B y) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<make_unsigned_t<V>>([](T a, T b) { return soft::whole::absdiff<T>(a, b); }, V(x), V(y));
}
template <class A, class V = soft::whole_vector_t<A>> SOFT_INLINE V extract_bits(A x, uint offset, uint bits) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([=](T a) { return soft::whole::extract_bits<T>(a, offset, bits); }, V(x));
}
template <class A, class B, class V = soft::whole_vector_t<A, B>>
SOFT_INLINE V insert_bits(A base, B insert, uint offset, uint bits) {
  typedef typename soft::as_vector<V>::element T;
  return soft::map<V>([=](T a, T b) { return soft::whole::insert_bits<T>(a, b, offset, bits); }, V(base), V(insert));
}
}  // namespace metal
