// What the compiler knows about a kernel's arguments, as data: MTLDataType, size, alignment.
#pragma once
#include "soft_abi.h"
#include "soft_traits.h"

namespace metal {
template <class T> struct atomic;
}

namespace soft {

template <class... T> struct list {};

// Numbers of MTLDataType; vectors follow their scalar.
template <class T> struct data_type {
  static constexpr uint value = metal::is_pointer<T>::value ? 60 : metal::is_enum<T>::value ? 29 : 1;
};
#define SOFT_DATA_TYPE(T, number)                \
  template <> struct data_type<T> {              \
    static constexpr uint value = number;        \
  };
SOFT_DATA_TYPE(void, 0)
SOFT_DATA_TYPE(float, 3)
SOFT_DATA_TYPE(half, 16)
SOFT_DATA_TYPE(int, 29)
SOFT_DATA_TYPE(uint, 33)
SOFT_DATA_TYPE(short, 37)
SOFT_DATA_TYPE(ushort, 41)
SOFT_DATA_TYPE(char, 45)
SOFT_DATA_TYPE(signed char, 45)
SOFT_DATA_TYPE(uchar, 49)
SOFT_DATA_TYPE(bool, 53)
SOFT_DATA_TYPE(long, 81)
SOFT_DATA_TYPE(ulong, 85)
SOFT_DATA_TYPE(metal::bfloat, 121)
#undef SOFT_DATA_TYPE
template <class T, int N> struct data_type<metal::vec<T, N>> {
  static constexpr uint value = data_type<T>::value + N - 1;
};
template <class T, int N> struct data_type<metal::packed_vec<T, N>> : data_type<metal::vec<T, N>> {};
template <class T> struct data_type<metal::atomic<T>> : data_type<T> {};
template <int C, int R> struct data_type<metal::matrix<float, C, R>> {
  static constexpr uint value = 7 + (C - 2) * 3 + R - 2;
};
template <int C, int R> struct data_type<metal::matrix<half, C, R>> {
  static constexpr uint value = 20 + (C - 2) * 3 + R - 2;
};
template <class T, size_t N> struct data_type<T[N]> {
  static constexpr uint value = 2;
};

template <class T> struct extent {
  static constexpr uint size = sizeof(T), alignment = alignof(T);
};
template <> struct extent<void> {
  static constexpr uint size = 1, alignment = 1;
};

template <class Bound> static constexpr soft_argument describe_argument(uint index, uint kind) {
  typedef bare<typename Bound::element> T;
  return {index, kind, data_type<T>::value, extent<T>::size, extent<T>::alignment, Bound::is_pointer};
}

// The bindable arguments among a kernel's parameters.
template <uint N> struct argument_list {
  soft_argument items[N ? N : 1];
  uint count;
  template <class... P, class... Items> static constexpr argument_list of(list<P...>, list<Items...>) {
    argument_list result = {};
    (result.template add<P, Items>(), ...);
    return result;
  }
  template <class P, class Item> constexpr void add() {
    if constexpr (Item::is_bindable) items[count++] = Item::template describe<P>();
  }
};

}  // namespace soft
