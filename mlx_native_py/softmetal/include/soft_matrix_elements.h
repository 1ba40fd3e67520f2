// simdgroup_matrix in pieces: each thread holds two elements. A product is made once, by the last thread to arrive.
#pragma once

namespace soft {

// The parts of the inbox that hold the factors.
enum { FACTOR_BYTES = 256, FACTORS = SOFT_WIDTH * (SOFT_SLOT_BYTES - 1) };

#if SOFT_ENGINE == 2
// All lanes' first elements, then all lanes' second ones, so that each is one store; the product sorts them.
template <class T> SOFT_LANE_FN void put_elements(char *box, uint factor, metal::vec<T, 2> elements) {
  T *place = (T *)(box + factor * FACTOR_BYTES) + __lane_number();
  place[0] = elements[0];
  place[SOFT_WIDTH] = elements[1];
}
template <class T> SOFT_LANE_FN metal::vec<T, 2> get_elements(const char *box) {
  const T *place = (const T *)box + __lane_number();
  return metal::vec<T, 2>(take<T>(place), take<T>(place + SOFT_WIDTH));
}

// Sixteen lanes hold four rows: pairs of neighbours from two lanes, and from the two lanes eight further on.
template <class T> SOFT_LANE_FN tile<T> rows_of(const char *factor) {
  typedef sixteen<typename store<T>::type> half_of_lanes;
  const half_of_lanes *elements = (const half_of_lanes *)factor;
  tile<T> rows;
  for (uint i = 0; i < 2; i++) {
    half_of_lanes even = elements[i], odd = elements[2 + i];
    rows.rows[4 * i] = __builtin_shufflevector(even, odd, 0, 16, 1, 17, 8, 24, 9, 25);
    rows.rows[4 * i + 1] = __builtin_shufflevector(even, odd, 2, 18, 3, 19, 10, 26, 11, 27);
    rows.rows[4 * i + 2] = __builtin_shufflevector(even, odd, 4, 20, 5, 21, 12, 28, 13, 29);
    rows.rows[4 * i + 3] = __builtin_shufflevector(even, odd, 6, 22, 7, 23, 14, 30, 15, 31);
  }
  return rows;
}
template <class R> SOFT_LANE_FN auto side_by_side(R a, R b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
template <class T> SOFT_LANE_FN void elements_of(const tile<T> &rows, char *box) {
  typedef sixteen<typename store<T>::type> half_of_lanes;
  half_of_lanes *elements = (half_of_lanes *)box;
  for (uint i = 0; i < 2; i++) {
    auto *four = rows.rows + 4 * i;
    half_of_lanes upper = side_by_side(four[0], four[1]), lower = side_by_side(four[2], four[3]);
    elements[i] =
        __builtin_shufflevector(upper, lower, 0, 2, 8, 10, 16, 18, 24, 26, 4, 6, 12, 14, 20, 22, 28, 30);
    elements[2 + i] =
        __builtin_shufflevector(upper, lower, 1, 3, 9, 11, 17, 19, 25, 27, 5, 7, 13, 15, 21, 23, 29, 31);
  }
}

template <class D, class A, class B, class C> void multiply_elements(const char *inbox, char *outbox, uint) {
  const char *factors = inbox + FACTORS;
  const tile<C> start = rows_of<C>(factors + 2 * FACTOR_BYTES);
  tile<D> sum;
  for (uint i = 0; i < 8; i++) sum.close(i, start.open(i));
  multiply_tiles(sum, rows_of<A>(factors), rows_of<B>(factors + FACTOR_BYTES));
  elements_of(sum, outbox);
}
#else
// Row by row; each thread puts its elements where they belong.

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

template <class T> SOFT_LANE_FN void put_elements(char *box, uint factor, metal::vec<T, 2> elements) {
  element_slot<T>(box, factor, own_elements()) = elements;
}
template <class T> SOFT_LANE_FN metal::vec<T, 2> get_elements(char *box) {
  return element_slot<T>(box, 0, own_elements());
}
#endif

}  // namespace soft

namespace metal {

template <class T, int Columns = 8, int Rows = 8> struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "simdgroup matrices are 8x8");
  static_assert(__is_same(T, float) || __is_same(T, half) || __is_same(T, bfloat),
                "simdgroup matrices are of float, half or bfloat");
  typedef vec<T, 2> storage_type;  // a thread's share

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
    soft::lane_t lane = soft::self();
    char *factors = lane->inbox + soft::FACTORS;
    soft::put_elements(factors, 0, a.soft_elements);
    soft::put_elements(factors, 1, b.soft_elements);
    soft::put_elements(factors, 2, c.soft_elements);
    soft_meet(lane, soft::multiply_elements<T, A, B, C>, 0);
    d.soft_elements = soft::get_elements<T>(lane->inbox + SOFT_OUTBOX);
  }

  vec<T, 2> soft_elements;
};

}  // namespace metal
