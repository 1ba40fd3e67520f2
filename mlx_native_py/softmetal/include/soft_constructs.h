// What the front end needs for constructs that OpenCL's C++ has no form for.
#pragma once
#include "soft_traits.h"

namespace soft {
// Operands of ?: that are objects, possibly in different address spaces, become values of one type.
struct by_value {};
template <class T> constexpr bool is_object = __is_class(bare<T>) || __is_union(bare<T>);
template <class T> using if_object = metal::enable_if_t<is_object<T>, bare<T>>;
// Other operands find no such operator, so the comma leaves them as they are.
template <class T> __attribute__((always_inline)) constexpr if_object<T> operator,(by_value, T &&object) { return object; }

// A literal beside an operand of type T: an object's type draws it over, a pointer makes it null.
template <class T> __attribute__((always_inline)) constexpr auto like(int value) {
  if constexpr (is_object<T>)
    return metal::remove_addrspace_t<bare<T>>(value);
  else if constexpr (__is_pointer(bare<T>))
    return bare<T>(nullptr);
  else
    return value;
}

// The component of a vector as a place; clang loses a property's setter when a template is instantiated.
template <class T> struct has_lanes {
  static constexpr bool value = false;
};
template <class T, int N> struct has_lanes<metal::vec<T, N>> {
  static constexpr bool value = true;
};
template <class T, int N> struct has_lanes<metal::packed_vec<T, N>> {
  static constexpr bool value = true;
};
#define SOFT_PLACE(name, index)                                                                       \
  template <class V> __attribute__((always_inline)) constexpr decltype(auto) place_##name(V &&v) {    \
    if constexpr (has_lanes<bare<V>>::value)                                                          \
      return v[index];                                                                                \
    else                                                                                              \
      return (v.name);                                                                                \
  }
SOFT_PLACE(x, 0)
SOFT_PLACE(y, 1)
SOFT_PLACE(z, 2)
SOFT_PLACE(w, 3)
SOFT_PLACE(r, 0)
SOFT_PLACE(g, 1)
SOFT_PLACE(b, 2)
SOFT_PLACE(a, 3)
#undef SOFT_PLACE

// An integral_constant, of whatever namespace, as the number that it stands for.
struct by_count {};
template <class T, class Value = typename bare<T>::value_type, Value number = bare<T>::value>
__attribute__((always_inline)) constexpr Value operator,(by_count, T &&) {
  return number;
}

// const_cast, between any spaces; the types must be the same but for their qualifiers.
template <class T> struct target {
  typedef bare<T> type;
};
template <class T> struct target<T *> {
  typedef bare<T> type;
};
template <class T> struct target<T *const> {
  typedef bare<T> type;
};
template <class To, class From> __attribute__((always_inline)) constexpr To without_const(From &&from) {
  static_assert(__is_same(typename target<metal::remove_reference_t<To>>::type,
                          typename target<metal::remove_addrspace_t<metal::remove_reference_t<From>>>::type),
                "const_cast between different types");
  return (To)from;
}

// The bytes behind the last of these members, up to the alignment of the struct.
template <class T> struct member {
  static constexpr uint size = sizeof(T), align = alignof(T);
};
template <class T> struct member<T &> {
  static constexpr uint size = sizeof(T *), align = alignof(T *);
};
struct extent_so_far {
  uint end, align;
  constexpr extent_so_far with(uint size, uint its) const {
    return {(end + its - 1) / its * its + size, align < its ? its : align};
  }
};
template <class... T> constexpr uint tail_bytes() {
  extent_so_far all = {0, 1};
  ((all = all.with(member<T>::size, member<T>::align)), ...);
  return (all.align - all.end % all.align) % all.align;
}

// A string literal as `constant` memory.
template <size_t N> __attribute__((always_inline)) const __global char *text(const __constant char (&literal)[N]) {
  return __builtin_bit_cast(const __global char *, &literal[0]);
}

// A function constant while the source is only checked.
template <class T> T not_yet_known() { return T(); }

// A template's parameter that is a function.
template <class Pointer> struct pointed_function;
template <class F> struct pointed_function<F *> {
  typedef F &type;
};
template <class Pointer> using function_reference = typename pointed_function<Pointer>::type;
}  // namespace soft

#define SOFT_VALUE_OF soft::by_value(),
#define SOFT_COUNT_OF soft::by_count(),

// See tails.py. Vectors are aligned to 32 bytes at most.
#define SOFT_TAIL_BYTE(n) uchar : soft_tail > n ? 8 : 0;
#define SOFT_TAIL_4(n) SOFT_TAIL_BYTE(n) SOFT_TAIL_BYTE(n + 1) SOFT_TAIL_BYTE(n + 2) SOFT_TAIL_BYTE(n + 3)
#define SOFT_TAIL(...)                                                                                  \
  enum { soft_tail = soft::tail_bytes<__VA_ARGS__>() };                                                 \
  SOFT_TAIL_4(0) SOFT_TAIL_4(4) SOFT_TAIL_4(8) SOFT_TAIL_4(12) SOFT_TAIL_4(16) SOFT_TAIL_4(20) SOFT_TAIL_4(24) SOFT_TAIL_4(28)
