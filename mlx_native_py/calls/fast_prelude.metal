// What the bodies given to fast.metal_kernel may use without declaring it: types, limits, indexing of strided arrays.
#include <metal_stdlib>
using namespace metal;

typedef half float16_t;
typedef bfloat bfloat16_t;

template <typename U> struct WorkPerThread {
  static constexpr constant int n = 8 / sizeof(U);
};

template <typename U> struct Limits {
  static constexpr constant U max = numeric_limits<U>::max();
  static constexpr constant U min = numeric_limits<U>::min();
  static constexpr constant U finite_max = numeric_limits<U>::max();
  static constexpr constant U finite_min = numeric_limits<U>::min();
};

#define FAST_FLOAT_LIMITS(type) \
  template <> struct Limits<type> { \
    static constexpr constant type max = numeric_limits<type>::infinity(); \
    static constexpr constant type min = -numeric_limits<type>::infinity(); \
    static constexpr constant type finite_max = numeric_limits<type>::max(); \
    static constexpr constant type finite_min = -numeric_limits<type>::max(); \
  };
FAST_FLOAT_LIMITS(float)
FAST_FLOAT_LIMITS(half)
FAST_FLOAT_LIMITS(bfloat)
#undef FAST_FLOAT_LIMITS

template <> struct Limits<bool> {
  static constexpr constant bool max = true;
  static constexpr constant bool min = false;
};

// The place of element number `elem`, in row-major order, of an array with any strides.
template <typename I = int64_t>
inline I elem_to_loc(I elem, constant const int *shape, constant const int64_t *strides, int ndim) {
  I place = 0;
  for (int axis = ndim - 1; axis >= 0 && elem > 0; --axis) {
    place += (elem % shape[axis]) * I(strides[axis]);
    elem /= shape[axis];
  }
  return place;
}

// The same for a grid: x and y count the last two axes, z all those before.
template <typename I = int64_t>
inline I elem_to_loc(uint3 elem, constant const int *shape, constant const int64_t *strides, int ndim) {
  I place = elem.x * I(strides[ndim - 1]) + elem.y * I(strides[ndim - 2]);
  for (int axis = ndim - 3; axis >= 0; --axis) {
    place += (elem.z % shape[axis]) * I(strides[axis]);
    elem.z /= shape[axis];
  }
  return place;
}

template <typename I = int64_t> inline I elem_to_loc_1(uint elem, constant const int64_t &stride) {
  return elem * I(stride);
}

template <typename I = int64_t> inline I elem_to_loc_2(uint2 elem, constant const int64_t *strides) {
  return elem.x * I(strides[1]) + elem.y * I(strides[0]);
}

template <typename I = int64_t> inline I elem_to_loc_3(uint3 elem, constant const int64_t *strides) {
  return elem.x * I(strides[2]) + elem.y * I(strides[1]) + elem.z * I(strides[0]);
}

template <typename T, typename U> inline T ceildiv(T n, U m) {
  return (n + m - 1) / m;
}

// ln(1 + x), also where 1 + x rounds to 1.
inline float log1p(float x) {
  float sum = 1.0f + x;
  if (sum == 1.0f || sum == INFINITY) {
    return x;
  }
  return x * (metal::log(sum) / (sum - 1.0f));
}
inline bfloat log1p(bfloat x) {
  return bfloat(log1p(float(x)));
}
