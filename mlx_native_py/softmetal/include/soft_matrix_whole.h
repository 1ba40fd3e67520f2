// simdgroup_matrix kept whole: one thread of the simdgroup holds it and does all the work, the others pass by.
#pragma once

// Not defined anywhere: a kernel that looks at its threads' elements needs the other form.
extern "C" void *soft_whole_matrices_have_no_elements();

namespace soft {

#if SOFT_ENGINE != 2
// Whether this thread is the one. It is the first to run after a wait (runtime/fibers.cpp), so that what the others
// write next is not in its matrices yet.
SOFT_LANE_FN bool holds_matrices() {
  const soft_lane *lane = self();
#if SOFT_ENGINE == 0 || __has_feature(thread_sanitizer)
  return lane->index % SOFT_WIDTH == 0;
#else
  uint lowest = lane->index / SOFT_WIDTH * SOFT_WIDTH;
  return lane->index == lowest + (lowest + 1 < lane->group->count);
#endif
}
#endif

// Done once for a simdgroup.
SOFT_LANE_FN void once(soft_once work, ulong n, const void *a, const void *b = nullptr, const void *c = nullptr,
                       const void *d = nullptr) {
#if SOFT_ENGINE == 2
  __lane_once(work, (void *)a, (void *)b, (void *)c, (void *)d, n);
#else
  if (holds_matrices()) work((void *)a, (void *)b, (void *)c, (void *)d, n);
#endif
}

template <class T> using bits_in_tile = metal::conditional_t<sizeof(T) == 2, ushort, uint>;

template <class T> SOFT_LANE_FN void fill_tile(void *to, void *, void *, void *, ulong what) {
  T value = __builtin_bit_cast(T, bits_in_tile<T>(what));
  for (uint i = 0; i < 8; i++)
    for (uint j = 0; j < 8; j++) ((tile<T> *)to)->at(i, j) = !(what >> 63) || i == j ? value : T(0.0f);
}

template <class T> SOFT_LANE_FN void load_tile(void *to, void *from, void *, void *, ulong packed) {
  typedef loose_eight<typename store<T>::type> loose;
  tile<T> &mine = *(tile<T> *)to;
  const T *first = (const T *)from;
  layout layout(packed);
  if (!layout.transposed)
    for (uint i = 0; i < 8; i++) {
      const loose &row = *(const loose *)(first + layout.at(i, 0));
      SOFT_WILL_READ(row);
      mine.rows[i] = row.values;
    }
  else
    for (uint i = 0; i < 8; i++)
      for (uint j = 0; j < 8; j++) mine.at(i, j) = first[layout.at(i, j)];
}

template <class T> SOFT_LANE_FN void store_tile(void *from, void *to, void *, void *, ulong packed) {
  typedef loose_eight<typename store<T>::type> loose;
  tile<T> mine = *(const tile<T> *)from;
  T *first = (T *)to;
  layout layout(packed);
  if (!layout.transposed)
    for (uint i = 0; i < 8; i++) {
      loose &row = *(loose *)(first + layout.at(i, 0));
      SOFT_WILL_WRITE(row);
      row.values = mine.rows[i];
    }
  else
    for (uint i = 0; i < 8; i++)
      for (uint j = 0; j < 8; j++) first[layout.at(i, j)] = mine.at(i, j);
}

template <class D, class A, class B, class C>
SOFT_LANE_FN void multiply_whole(void *d, void *a, void *b, void *c, ulong) {
  tile<D> sum;
  const tile<C> &start = *(const tile<C> *)c;
  if constexpr (__is_same(D, C))
    sum = start;
  else
    for (uint i = 0; i < 8; i++) sum.close(i, start.open(i));
  multiply_tiles(sum, *(const tile<A> *)a, *(const tile<B> *)b);
  *(tile<D> *)d = sum;
}

}  // namespace soft

namespace metal {

template <class T, int Columns = 8, int Rows = 8> struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "simdgroup matrices are 8x8");
  static_assert(__is_same(T, float) || __is_same(T, half) || __is_same(T, bfloat),
                "simdgroup matrices are of float, half or bfloat");
  typedef vec<T, 2> storage_type;  // a thread's share

  simdgroup_matrix() = default;
  explicit __attribute__((always_inline)) simdgroup_matrix(T diagonal) { soft_fill(diagonal, true); }

  __private vec<T, 2> &thread_elements() __private { return *(__private vec<T, 2> *)soft_whole_matrices_have_no_elements(); }
  const __private vec<T, 2> &thread_elements() const __private {
    return *(const __private vec<T, 2> *)soft_whole_matrices_have_no_elements();
  }

  __attribute__((always_inline)) void soft_fill(T value, bool diagonal) {
    ulong what = ulong(__builtin_bit_cast(soft::bits_in_tile<T>, value)) | ulong(diagonal) << 63;
    soft::once(soft::fill_tile<T>, what, &soft_tile);
  }
  __attribute__((always_inline)) void soft_load(const T *from, const soft::layout &layout) {
    soft::once(soft::load_tile<T>, layout.packed(), &soft_tile, from + layout.start);
  }
  __attribute__((always_inline)) void soft_store(T *to, const soft::layout &layout) const {
    soft::once(soft::store_tile<T>, layout.packed(), &soft_tile, to + layout.start);
  }
  template <class A, class B, class C>
  static __attribute__((always_inline)) void soft_multiply(simdgroup_matrix &d, const simdgroup_matrix<A, 8, 8> &a,
                                                           const simdgroup_matrix<B, 8, 8> &b,
                                                           const simdgroup_matrix<C, 8, 8> &c) {
    soft::once(soft::multiply_whole<T, A, B, C>, 0, &d.soft_tile, &a.soft_tile, &b.soft_tile, &c.soft_tile);
  }

  soft::tile<T> soft_tile;
};

}  // namespace metal
