// matrix<T, C, R>: C columns of R rows, stored by columns as Metal does.
#pragma once
#include "soft_packed.h"

namespace soft {
template <class T> using if_real_matrix = metal::enable_if_t<__is_same(T, float) || __is_same(T, half), int>;

// A column of a matrix's constructor: a vector, or the list in braces that makes one, but no single number.
template <class T, int R> struct column {
  metal::vec<T, R> value;
  SOFT_MEMBER column(metal::vec<T, R> value) : value(value) {}
  template <class... A, metal::enable_if_t<(sizeof...(A) > 1) && __is_constructible(metal::vec<T, R>, A...), int> = 0>
  SOFT_MEMBER column(A... parts) : value(parts...) {}
};
}  // namespace soft

namespace metal {
template <class T, int C, int R> struct matrix {
  typedef vec<T, R> column_type;
  column_type columns[C];

  matrix() = default;
  SOFT_MEMBER explicit matrix(T diagonal) : matrix(diagonal, soft::indices<C>()) {}
  template <class... A, enable_if_t<sizeof...(A) + 1 == C && (__is_convertible(A, column_type) && ...) &&
                                        (soft::vector<A>::value && ...), int> = 0>
  SOFT_MEMBER matrix(column_type first, A... rest) : columns{first, column_type(rest)...} {}
  typedef soft::column<T, R> listed;
  template <int K = C, enable_if_t<K == 2, int> = 0> SOFT_MEMBER matrix(listed a, listed b) : columns{a.value, b.value} {}
  template <int K = C, enable_if_t<K == 3, int> = 0>
  SOFT_MEMBER matrix(listed a, listed b, listed c) : columns{a.value, b.value, c.value} {}
  template <int K = C, enable_if_t<K == 4, int> = 0>
  SOFT_MEMBER matrix(listed a, listed b, listed c, listed d) : columns{a.value, b.value, c.value, d.value} {}
  template <class... A, enable_if_t<sizeof...(A) + 2 == C * R && (__is_convertible(A, T) && ...), int> = 0>
  SOFT_MEMBER matrix(T first, T second, A... rest) : columns{} {
    const T all[C * R] = {first, second, T(rest)...};
    for (int i = 0; i < C * R; i++) columns[i / R].put(i % R, all[i]);
  }
  template <class U> SOFT_MEMBER explicit matrix(matrix<U, C, R> m) : columns{} {
    for (int i = 0; i < C; i++) columns[i] = column_type(m.columns[i]);
  }

  // A column keeps the address space of its matrix (device memory's serves constants too); one of a temporary is a value.
  SOFT_MEMBER __private column_type &operator[](int i) __private & { return columns[i]; }
  SOFT_MEMBER const __private column_type &operator[](int i) const __private & { return columns[i]; }
  SOFT_MEMBER __local column_type &operator[](int i) __local & { return columns[i]; }
  SOFT_MEMBER const __local column_type &operator[](int i) const __local & { return columns[i]; }
  SOFT_MEMBER SOFT_DEVICE column_type &operator[](int i) __global & { return (SOFT_DEVICE column_type &)columns[i]; }
  SOFT_MEMBER const SOFT_DEVICE column_type &operator[](int i) const __global & {
    return (const SOFT_DEVICE column_type &)columns[i];
  }
  SOFT_MEMBER __generic column_type &operator[](int i) & { return columns[i]; }
  SOFT_MEMBER const __generic column_type &operator[](int i) const & { return columns[i]; }
  SOFT_MEMBER column_type operator[](int i) && { return columns[i]; }

  friend SOFT_MEMBER matrix operator+(matrix a, matrix b) {
    for (int i = 0; i < C; i++) a.columns[i] += b.columns[i];
    return a;
  }
  friend SOFT_MEMBER matrix operator-(matrix a, matrix b) {
    for (int i = 0; i < C; i++) a.columns[i] -= b.columns[i];
    return a;
  }
  friend SOFT_MEMBER matrix operator-(matrix a) {
    for (int i = 0; i < C; i++) a.columns[i] = -a.columns[i];
    return a;
  }
  friend SOFT_MEMBER matrix operator*(matrix a, T b) {
    for (int i = 0; i < C; i++) a.columns[i] *= b;
    return a;
  }
  friend SOFT_MEMBER matrix operator*(T a, matrix b) { return b * a; }
  friend SOFT_MEMBER matrix operator/(matrix a, T b) {
    for (int i = 0; i < C; i++) a.columns[i] /= b;
    return a;
  }
  friend SOFT_MEMBER column_type operator*(matrix a, vec<T, C> b) {
    column_type sum = a.columns[0] * b.at(0);
    for (int i = 1; i < C; i++) sum += a.columns[i] * b.at(i);
    return sum;
  }
  friend SOFT_MEMBER vec<T, C> operator*(column_type a, matrix b) {
    vec<T, C> result(T(0));
    for (int i = 0; i < C; i++) {
      column_type products = a * b.columns[i];
      T sum = products.at(0);
      for (int j = 1; j < R; j++) sum += products.at(j);
      result.put(i, sum);
    }
    return result;
  }
  template <int K> friend SOFT_MEMBER matrix<T, K, R> operator*(matrix a, matrix<T, K, C> b) {
    matrix<T, K, R> result{};
    for (int i = 0; i < K; i++) result.columns[i] = a * b.columns[i];
    return result;
  }
  template <class B> SOFT_MEMBER __generic matrix &operator+=(B b) { return *this = *this + b; }
  template <class B> SOFT_MEMBER __generic matrix &operator-=(B b) { return *this = *this - b; }
  template <class B> SOFT_MEMBER __generic matrix &operator*=(B b) { return *this = *this * b; }
  template <class B> SOFT_MEMBER __generic matrix &operator/=(B b) { return *this = *this / b; }

  friend SOFT_MEMBER bool operator==(matrix a, matrix b) {
    bool same = true;
    for (int i = 0; i < C * R; i++) same = same && a.columns[i / R].at(i % R) == b.columns[i / R].at(i % R);
    return same;
  }
  friend SOFT_MEMBER bool operator!=(matrix a, matrix b) { return !(a == b); }

 private:
  template <int... I> SOFT_MEMBER matrix(T diagonal, soft::index_list<I...>) : columns{} {
    for (int i = 0; i < (C < R ? C : R); i++) columns[i].put(i, diagonal);
  }
};

template <class T, int C, int R, soft::if_real_matrix<T> = 0> SOFT_FN matrix<T, R, C> transpose(matrix<T, C, R> m) {
  matrix<T, R, C> result{};
  for (int i = 0; i < C; i++)
    for (int j = 0; j < R; j++) result.columns[j].put(i, m.columns[i].at(j));
  return result;
}
}  // namespace metal

namespace soft {
template <class T, int N> SOFT_FN float minor2(metal::matrix<T, N, N> m, int c, int d, int r, int s) {
  return float(m.columns[c].at(r)) * float(m.columns[d].at(s)) - float(m.columns[d].at(r)) * float(m.columns[c].at(s));
}
}  // namespace soft

namespace metal {
template <class T, soft::if_real_matrix<T> = 0> SOFT_FN T determinant(matrix<T, 2, 2> m) { return T(soft::minor2(m, 0, 1, 0, 1)); }
template <class T, soft::if_real_matrix<T> = 0> SOFT_FN T determinant(matrix<T, 3, 3> m) {
  return T(float(m.columns[0].at(0)) * soft::minor2(m, 1, 2, 1, 2) -
           float(m.columns[1].at(0)) * soft::minor2(m, 0, 2, 1, 2) +
           float(m.columns[2].at(0)) * soft::minor2(m, 0, 1, 1, 2));
}
// Laplace expansion along the first two rows.
template <class T, soft::if_real_matrix<T> = 0> SOFT_FN T determinant(matrix<T, 4, 4> m) {
  return T(soft::minor2(m, 0, 1, 0, 1) * soft::minor2(m, 2, 3, 2, 3) -
           soft::minor2(m, 0, 2, 0, 1) * soft::minor2(m, 1, 3, 2, 3) +
           soft::minor2(m, 0, 3, 0, 1) * soft::minor2(m, 1, 2, 2, 3) +
           soft::minor2(m, 1, 2, 0, 1) * soft::minor2(m, 0, 3, 2, 3) -
           soft::minor2(m, 1, 3, 0, 1) * soft::minor2(m, 0, 2, 2, 3) +
           soft::minor2(m, 2, 3, 0, 1) * soft::minor2(m, 0, 1, 2, 3));
}
}  // namespace metal

#define SOFT_MATRIX_NAME(T, C, R)                                                                             \
  typedef metal::matrix<T, C, R> T##C##x##R;                                                                  \
  namespace metal {                                                                                           \
  using ::T##C##x##R;                                                                                         \
  }
#define SOFT_MATRIX_ROWS(T, C) SOFT_MATRIX_NAME(T, C, 2) SOFT_MATRIX_NAME(T, C, 3) SOFT_MATRIX_NAME(T, C, 4)
#define SOFT_MATRIX_NAMES(T) SOFT_MATRIX_ROWS(T, 2) SOFT_MATRIX_ROWS(T, 3) SOFT_MATRIX_ROWS(T, 4)
SOFT_MATRIX_NAMES(float)
SOFT_MATRIX_NAMES(half)
SOFT_MATRIX_NAMES(bfloat)
#undef SOFT_MATRIX_NAME
#undef SOFT_MATRIX_ROWS
#undef SOFT_MATRIX_NAMES
