// simdgroup_matrix: 8x8 matrices of a simdgroup. Kept whole by one thread, or, where a kernel looks at its
// threads' own elements (SOFT_ELEMENTS), two elements by each thread in Apple's layout.
#pragma once
#include "soft_simd.h"
#include "soft_watch.h"

#ifndef SOFT_ELEMENTS
#define SOFT_ELEMENTS 1
#endif

namespace soft {

template <class T> using eight = T __attribute__((ext_vector_type(8)));
// Eight wherever they lie.
template <class T> struct __attribute__((packed)) loose_eight {
  eight<T> values;
};

// A row of eight, as it is stored and as it is computed with.
template <class T> struct matrix_row {
  typedef eight<T> stored;
  static __attribute__((always_inline)) eight<float> open(stored r) { return __builtin_convertvector(r, eight<float>); }
  static __attribute__((always_inline)) stored close(eight<float> r) { return __builtin_convertvector(r, stored); }
};
template <> struct matrix_row<metal::bfloat> {
  typedef eight<ushort> stored;
  static __attribute__((always_inline)) eight<float> open(stored r) { return lanes<metal::bfloat, 8>::open(r); }
  static __attribute__((always_inline)) stored close(eight<float> r) { return lanes<metal::bfloat, 8>::close(r); }
};

template <class T> struct alignas(32) tile {
  typedef typename matrix_row<T>::stored row;
  row rows[8];
  eight<float> open(uint i) const { return matrix_row<T>::open(rows[i]); }
  void close(uint i, eight<float> r) { rows[i] = matrix_row<T>::close(r); }
  T &at(uint i, uint j) { return ((T *)rows)[i * 8 + j]; }
};

template <class D, class A, class B> SOFT_LANE_FN void multiply_tiles(D &d, const A &a, const B &b) {
  eight<float> right[8];
  for (uint k = 0; k < 8; k++) right[k] = b.open(k);
  for (uint i = 0; i < 8; i++) {
    eight<float> left = a.open(i), sum = d.open(i);
    for (uint k = 0; k < 8; k++) sum += left[k] * right[k];
    d.close(i, sum);
  }
}

// Where an element of a matrix lies in memory.
struct layout {
  ulong pitch;
  ulong start;
  bool transposed;
  layout(ulong elements_per_row, metal::vec<ulong, 2> origin, bool transpose)
      : pitch(elements_per_row), start(origin.y * elements_per_row + origin.x), transposed(transpose) {}
  // Without the start, as one number.
  explicit layout(ulong packed) : pitch(packed & ~0ul >> 1), start(0), transposed(packed >> 63) {}
  ulong packed() const { return pitch | ulong(transposed) << 63; }
  ulong at(uint row, uint column) const { return start + (transposed ? column * pitch + row : row * pitch + column); }
};

template <class T, class P> constexpr bool points_to = metal::is_same<bare<decltype(*P())>, T>::value;
template <class P> constexpr bool points_to_shared = false;
template <class T> constexpr bool points_to_shared<SOFT_DEVICE T *> = true;
template <class T> constexpr bool points_to_shared<__local T *> = true;

// A thread's own two elements, side by side.
struct element_place {
  uint row, column;
};
SOFT_LANE_FN element_place own_elements() {
  uint lane = own_lane(), quad = lane / 4;
  return {(quad & 4) + lane / 2 % 4, (quad & 2) * 2 + lane % 2 * 2};
}

}  // namespace soft

#if SOFT_ELEMENTS
#include "soft_matrix_elements.h"
#else
#include "soft_matrix_whole.h"
#endif

namespace metal {

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <class T, int Columns, int Rows = Columns>
SOFT_LANE_FN simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Columns, Rows> result;
  result.soft_fill(value, false);
  return result;
}
template <class T, int Columns, int Rows = Columns>
SOFT_LANE_FN simdgroup_matrix<T, Columns, Rows> make_diagonal_simdgroup_matrix(T value) {
  return simdgroup_matrix<T, Columns, Rows>(value);
}

template <class T, int C, int R, class P>
SOFT_LANE_FN void simdgroup_load(simdgroup_matrix<T, C, R> &d, P source, ulong elements_per_row = C,
                                 vec<ulong, 2> matrix_origin = vec<ulong, 2>(0ul), bool transpose_matrix = false) {
  static_assert(soft::points_to<T, P>, "simdgroup_load: the pointer must be to the matrix's own element type");
  static_assert(soft::points_to_shared<P>, "simdgroup_load: the pointer must be to device or threadgroup memory");
  d.soft_load((const T *)source, soft::layout(elements_per_row, matrix_origin, transpose_matrix));
}
template <class T, int C, int R, class P>
SOFT_LANE_FN void simdgroup_store(const simdgroup_matrix<T, C, R> &a, P target, ulong elements_per_row = C,
                                  vec<ulong, 2> matrix_origin = vec<ulong, 2>(0ul), bool transpose_matrix = false) {
  static_assert(soft::points_to<T, P>, "simdgroup_store: the pointer must be to the matrix's own element type");
  static_assert(soft::points_to_shared<P>, "simdgroup_store: the pointer must be to device or threadgroup memory");
  T *plain = target;
  a.soft_store(plain, soft::layout(elements_per_row, matrix_origin, transpose_matrix));
}

template <class D, class A, class B, class S, int C, int R, int K>
SOFT_LANE_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, C, R> &d, const simdgroup_matrix<A, K, R> &a,
                                                const simdgroup_matrix<B, C, K> &b,
                                                const simdgroup_matrix<S, C, R> &c) {
  simdgroup_matrix<D, C, R>::soft_multiply(d, a, b, c);
}
template <class D, class A, class B, int C, int R, int K>
SOFT_LANE_FN void simdgroup_multiply(simdgroup_matrix<D, C, R> &d, const simdgroup_matrix<A, K, R> &a,
                                     const simdgroup_matrix<B, C, K> &b) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, C, R>(D(0.0f)));
}
template <class T, int C, int R, int K>
SOFT_LANE_FN simdgroup_matrix<T, C, R> operator*(const simdgroup_matrix<T, K, R> &a,
                                                 const simdgroup_matrix<T, C, K> &b) {
  simdgroup_matrix<T, C, R> d;
  simdgroup_multiply(d, a, b);
  return d;
}

}  // namespace metal
