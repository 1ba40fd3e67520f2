// simdgroup_matrix kept whole: the first thread of the simdgroup holds it and does all the work, the others pass by.
#pragma once

// Not defined anywhere: a kernel that looks at its threads' elements needs the other form.
extern "C" void *soft_whole_matrices_have_no_elements();

namespace metal {

template <class T, int Columns = 8, int Rows = 8> struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "simdgroup matrices are 8x8");
  static_assert(__is_same(T, float) || __is_same(T, half) || __is_same(T, bfloat),
                "simdgroup matrices are of float, half or bfloat");

  simdgroup_matrix() = default;
  explicit __attribute__((always_inline)) simdgroup_matrix(T diagonal) { soft_fill(diagonal, true); }

  __private vec<T, 2> &thread_elements() __private { return *(__private vec<T, 2> *)soft_whole_matrices_have_no_elements(); }
  const __private vec<T, 2> &thread_elements() const __private {
    return *(const __private vec<T, 2> *)soft_whole_matrices_have_no_elements();
  }

  __attribute__((always_inline)) void soft_fill(T value, bool diagonal) {
    if (!soft::is_keeper()) return;
    for (uint i = 0; i < 8; i++)
      for (uint j = 0; j < 8; j++) soft_tile.at(i, j) = !diagonal || i == j ? value : T(0.0f);
  }
  __attribute__((always_inline)) void soft_load(const T *from, const soft::layout &layout) {
    if (!soft::is_keeper()) return;
    typedef soft::loose_eight<typename soft::store<T>::type> loose;
    if (!layout.transposed)
      for (uint i = 0; i < 8; i++) {
        const loose &row = *(const loose *)(from + layout.at(i, 0));
        SOFT_WILL_READ(row);
        soft_tile.rows[i] = row.values;
      }
    else
      for (uint i = 0; i < 8; i++)
        for (uint j = 0; j < 8; j++) soft_tile.at(i, j) = from[layout.at(i, j)];
  }
  __attribute__((always_inline)) void soft_store(T *to, const soft::layout &layout) const {
    if (!soft::is_keeper()) return;
    typedef soft::loose_eight<typename soft::store<T>::type> loose;
    soft::tile<T> mine = soft_tile;
    if (!layout.transposed)
      for (uint i = 0; i < 8; i++) {
        loose &row = *(loose *)(to + layout.at(i, 0));
        SOFT_WILL_WRITE(row);
        row.values = mine.rows[i];
      }
    else
      for (uint i = 0; i < 8; i++)
        for (uint j = 0; j < 8; j++) to[layout.at(i, j)] = mine.at(i, j);
  }
  template <class A, class B, class C>
  static __attribute__((always_inline)) void soft_multiply(simdgroup_matrix &d, const simdgroup_matrix<A, 8, 8> &a,
                                                           const simdgroup_matrix<B, 8, 8> &b,
                                                           const simdgroup_matrix<C, 8, 8> &c) {
    if (!soft::is_keeper()) return;
    soft::tile<T> sum;
    if constexpr (__is_same(T, C))
      sum = c.soft_tile;
    else
      for (uint i = 0; i < 8; i++) sum.close(i, c.soft_tile.open(i));
    soft::multiply_tiles(sum, a.soft_tile, b.soft_tile);
    d.soft_tile = sum;
  }

  soft::tile<T> soft_tile;
};

}  // namespace metal
