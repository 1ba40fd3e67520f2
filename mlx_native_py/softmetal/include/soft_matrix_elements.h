// simdgroup_matrix in pieces: each thread holds two elements. A product is made once, by the last thread to arrive.
#pragma once

namespace soft {

// The parts of the inbox that hold the factors, row by row; each thread puts its elements where they belong.
enum { FACTOR_BYTES = 256, FACTORS = SOFT_WIDTH * (SOFT_SLOT_BYTES - 1) };

template <class T> SOFT_LANE_FN metal::vec<T, 2> &element_slot(char *box, uint factor, element_place place) {
  return *(metal::vec<T, 2> *)(box + factor * FACTOR_BYTES + (place.row * 8 + place.column) * sizeof(T));
}

template <class D, class A, class B, class C> void multiply_elements(const char *inbox, char *outbox, uint) {
  const char *factors = inbox + FACTORS;
  const tile<A> &a = *(const tile<A> *)factors;
  const tile<B> &b = *(const tile<B> *)(factors + FACTOR_BYTES);
  const tile<C> &c = *(const tile<C> *)(factors + 2 * FACTOR_BYTES);
  tile<D> &d = *(tile<D> *)outbox;
  tile<D> sum;
  for (uint i = 0; i < 8; i++) sum.close(i, c.open(i));
  multiply_tiles(sum, a, b);
  d = sum;
}

}  // namespace soft

namespace metal {

template <class T, int Columns = 8, int Rows = 8> struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "simdgroup matrices are 8x8");
  static_assert(__is_same(T, float) || __is_same(T, half) || __is_same(T, bfloat),
                "simdgroup matrices are of float, half or bfloat");

  simdgroup_matrix() = default;
  explicit __attribute__((always_inline)) simdgroup_matrix(T diagonal) { soft_fill(diagonal, true); }

  __attribute__((always_inline)) __private vec<T, 2> &thread_elements() __private { return soft_elements; }
  __attribute__((always_inline)) const __private vec<T, 2> &thread_elements() const __private { return soft_elements; }

  __attribute__((always_inline)) void soft_fill(T value, bool diagonal) {
    soft::element_place place = soft::own_elements();
    T zero = T(0.0f);
    soft_elements = vec<T, 2>(!diagonal || place.row == place.column ? value : zero,
                              !diagonal || place.row == place.column + 1 ? value : zero);
  }
  __attribute__((always_inline)) void soft_load(const T *from, const soft::layout &layout) {
    soft::element_place place = soft::own_elements();
    soft_elements = vec<T, 2>(from[layout.at(place.row, place.column)], from[layout.at(place.row, place.column + 1)]);
  }
  __attribute__((always_inline)) void soft_store(T *to, const soft::layout &layout) const {
    soft::element_place place = soft::own_elements();
    to[layout.at(place.row, place.column)] = soft_elements[0];
    to[layout.at(place.row, place.column + 1)] = soft_elements[1];
  }
  template <class A, class B, class C>
  static __attribute__((always_inline)) void soft_multiply(simdgroup_matrix &d, const simdgroup_matrix<A, 8, 8> &a,
                                                           const simdgroup_matrix<B, 8, 8> &b,
                                                           const simdgroup_matrix<C, 8, 8> &c) {
    soft_lane *lane = soft::self();
    soft::element_place place = soft::own_elements();
    char *factors = lane->inbox + soft::FACTORS;
    soft::element_slot<A>(factors, 0, place) = a.soft_elements;
    soft::element_slot<B>(factors, 1, place) = b.soft_elements;
    soft::element_slot<C>(factors, 2, place) = c.soft_elements;
    soft_meet(lane, soft::multiply_elements<T, A, B, C>, 0);
    d.soft_elements = soft::element_slot<T>(lane->inbox + SOFT_OUTBOX, 0, place);
  }

  vec<T, 2> soft_elements;
};

}  // namespace metal
