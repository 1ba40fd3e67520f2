// The arithmetic of matmul2d: one thread of the scope computes what all of them asked for.
#pragma once
#include "soft_tensor_shares.h"

namespace soft {
template <class T> struct is_tensor : metal::false_type {};
template <class E, class X, class D, class... G> struct is_tensor<tensors::tensor<E, X, D, G...>> : metal::true_type {};
template <class T> struct is_shared : tensors::is_cooperative_tensor<T> {};

template <class Operand, bool Shared = is_shared<Operand>::value> struct operand_value {
  typedef typename cells<typename Operand::element_type>::value type;
};
template <class Operand> struct operand_value<Operand, true> {
  typedef typename Operand::element_type type;
};
template <class Operand> using operand_value_t = typename operand_value<Operand>::type;

template <class T> SOFT_FN bool is_byte() { return metal::is_same_v<T, int8_t> || metal::is_same_v<T, uint8_t>; }
template <class T> SOFT_FN bool is_plain_char() { return metal::is_same_v<T, char>; }
template <class T> SOFT_FN bool is_input() {
  return is_byte<T>() || is_plain_char<T>() || metal::is_floating_point_v<T>;
}

// Which element types may meet: a sum is as wide as its widest term, and integers may stay integers.
template <class L, class R, class D> SOFT_FN bool product_types() {
  constexpr bool integers = soft::whole_number<L> && soft::whole_number<R>;
  constexpr bool singles = metal::is_same_v<L, float> || metal::is_same_v<R, float>;
  constexpr bool same = metal::is_same_v<L, D> || metal::is_same_v<R, D>;
  if constexpr (!is_input<L>() || !is_input<R>()) return false;
  else if constexpr (metal::is_same_v<D, int32_t>) return integers;
  else if constexpr (metal::is_same_v<D, float>) return true;
  else if constexpr (metal::is_same_v<D, half>) return !singles && (same || integers);
  else return metal::is_same_v<D, metal::bfloat> && !singles && same;
}
template <class L, class R>
using sum_t = metal::conditional_t<soft::whole_number<L> && soft::whole_number<R>, int, float>;

// A sum added to what was there before.
template <class D, class Sum> SOFT_FN D accumulated(D before, Sum sum) {
  if constexpr (metal::is_same_v<D, int>) return before + sum;
  else return D(float(before) + float(sum));
}

// Reads the element at a row and column of the product's own matrix, from memory.
template <class Operand, bool Transposed, class Sum> struct tensor_terms {
  typedef cells<typename Operand::element_type> cell;
  typename cell::pointer data;
  long origin, row_stride, column_stride, rows, columns;

  template <class Call> explicit tensor_terms(void *const *, const Operand &tensor, Call)
      : data(tensor.soft_cells()), origin(tensor.soft_origin()), row_stride(tensor.soft_stride(Transposed ? 0 : 1)),
        column_stride(tensor.soft_stride(Transposed ? 1 : 0)), rows(tensor.soft_bound(Transposed ? 0 : 1)),
        columns(tensor.soft_bound(Transposed ? 1 : 0)) {}
  Sum at(long row, long column) const {
    return Sum(cell::read(data, origin + row * row_stride + column * column_stride));
  }
  void read_row(long row, Sum *into, long count) const {
    const long start = origin + row * row_stride;
    if (column_stride == 1) {
      for (long i = 0; i < count; ++i) into[i] = Sum(cell::read(data, start + i));
    } else {
      for (long i = 0; i < count; ++i) into[i] = Sum(cell::read(data, start + i * column_stride));
    }
  }
};

// The same from the shares of all threads, brought together first.
template <class Operand, bool Transposed, class Sum> struct shared_terms {
  typedef typename Operand::layout layout;
  long rows = Transposed ? layout::columns() : layout::rows();
  long columns = Transposed ? layout::rows() : layout::columns();
  Sum whole[layout::columns() * layout::rows()];

  template <class Call> explicit shared_terms(void *const *threads, const Operand &, Call share) {
    for (int thread = 0; thread < crew<typename layout::scope>::size(); ++thread) {
      const Operand &mine = *share(threads[thread]);
      for (int i = 0; i < layout::count(thread); ++i) {
        int column = layout::column(thread, i), row = layout::row(thread, i);
        whole[Transposed ? column * layout::rows() + row : row * layout::columns() + column] = Sum(mine[i]);
      }
    }
  }
  Sum at(long row, long column) const { return whole[row * columns + column]; }
  void read_row(long row, Sum *into, long count) const {
    for (long i = 0; i < count; ++i) into[i] = whole[row * columns + i];
  }
};
template <class Operand, bool Transposed, class Sum>
using terms = metal::conditional_t<is_shared<Operand>::value, shared_terms<Operand, Transposed, Sum>,
                                   tensor_terms<Operand, Transposed, Sum>>;

// Puts a block of finished rows into memory; outside the tensor nothing is written.
template <bool Accumulate, int Columns, class Tensor, class Sum>
void put_rows(const Tensor &to, const Sum *sums, long first, long count) {
  typedef cells<typename Tensor::element_type> cell;
  typedef typename cell::value value;
  const long columns = to.soft_bound(0) < Columns ? to.soft_bound(0) : Columns;
  for (long row = first; row < first + count && row < to.soft_bound(1); ++row) {
    for (long column = 0; column < columns; ++column) {
      auto &place = cell::at(to.soft_cells(), to.soft_origin() + row * to.soft_stride(1) + column * to.soft_stride(0));
      const Sum sum = sums[(row - first) * Columns + column];
      place = Accumulate ? accumulated<value>(place, sum) : accumulated<value>(value(0), sum);
    }
  }
}

// Deals a block of finished rows out to the threads.
template <bool Accumulate, class Operand, class Sum, class Share>
void deal_rows(void *const *threads, Share share, const Sum *sums, long first, long count) {
  typedef typename Operand::layout layout;
  typedef typename Operand::element_type value;
  for (int thread = 0; thread < crew<typename layout::scope>::size(); ++thread) {
    Operand &mine = *share(threads[thread]);
    for (int i = 0; i < layout::count(thread); ++i) {
      long row = layout::row(thread, i) - first;
      if (row < 0 || row >= count) continue;
      const Sum sum = sums[row * layout::columns() + layout::column(thread, i)];
      mine[i] = Accumulate ? accumulated<value>(mine[i], sum) : accumulated<value>(value(0), sum);
    }
  }
}

template <class L, class R, class D> struct product_call {
  L *left;
  R *right;
  D *destination;
};

// Shape gives rows(), columns(), depth() (negative: as deep as the tensors), left() and right() (whether transposed)
// and accumulate().
template <class Shape, class L, class R, class D> struct product {
  typedef product_call<L, R, D> call;
  typedef sum_t<operand_value_t<L>, operand_value_t<R>> sum;
  static SOFT_MEMBER int columns() { return Shape::columns(); }
  // As many rows at once as fit in a modest part of a fiber's stack.
  static SOFT_MEMBER int block() {
    return Shape::rows() * columns() <= 4096 ? Shape::rows() : (columns() < 4096 ? 4096 / columns() : 1);
  }

  template <class Left, class Right>
  static void multiply(const Left &left, const Right &right, sum *sums, long first, long count) {
    long depth = left.columns < right.rows ? left.columns : right.rows;
    if (Shape::depth() >= 0 && depth > Shape::depth()) depth = Shape::depth();
    const long across = right.columns < columns() ? right.columns : columns();
    const long down = left.rows - first < count ? left.rows - first : count;
    sum factors[columns()] = {};
    for (long k = 0; k < depth; ++k) {
      right.read_row(k, factors, across);
      for (long row = 0; row < down; ++row) {
        const sum factor = left.at(first + row, k);
        sum *into = sums + row * columns();
        for (int column = 0; column < columns(); ++column) into[column] += factor * factors[column];
      }
    }
  }

  static __attribute__((noinline)) void run(void *const *threads) {
    const call &one = *(const call *)threads[0];
    const terms<L, Shape::left(), sum> left(threads, *one.left, [](void *t) { return ((const call *)t)->left; });
    const terms<R, Shape::right(), sum> right(threads, *one.right, [](void *t) { return ((const call *)t)->right; });
    sum sums[block() * columns()];
    for (long first = 0; first < Shape::rows(); first += block()) {
      const long count = Shape::rows() - first < block() ? Shape::rows() - first : block();
      for (long i = 0; i < count * columns(); ++i) sums[i] = 0;
      multiply(left, right, sums, first, count);
      if constexpr (is_shared<D>::value)
        deal_rows<Shape::accumulate(), D>(
            threads, [](void *t) { return ((call *)t)->destination; }, sums, first, count);
      else put_rows<Shape::accumulate(), Shape::columns()>(*one.destination, sums, first, count);
    }
  }
};

// Reduces a matrix along one axis: 1 leaves a value for each row, 0 for each column.
template <int Axis, class Operation, class S, class D> struct reduction {
  typedef typename D::element_type value;
  struct call {
    S *source;
    D *destination;
    Operation operation;
    value identity;
  };
  static SOFT_MEMBER value joined(Operation operation, value a, value b) {
    if (operation == Operation::sum) return value(a + b);
    return (operation == Operation::max) == (a < b) ? b : a;
  }
  static __attribute__((noinline)) void run(void *const *threads) {
    typedef typename S::layout layout;
    const call &one = *(const call *)threads[0];
    value line[D::layout::capacity()];
    for (int i = 0; i < D::layout::capacity(); ++i) line[i] = one.identity;
    for (int thread = 0; thread < crew<typename layout::scope>::size(); ++thread) {
      const S &mine = *((const call *)threads[thread])->source;
      for (int i = 0; i < layout::count(thread); ++i) {
        int at = layout::index(thread, i, Axis);
        line[at] = joined(one.operation, line[at], mine[i]);
      }
    }
    for (int thread = 0; thread < crew<typename layout::scope>::size(); ++thread) {
      D &mine = *((const call *)threads[thread])->destination;
      for (int i = 0; i < D::layout::capacity(); ++i) mine[i] = line[i];
    }
  }
};

template <int Axis, class S, class D, class Operation, class Value>
void reduce(S &source, D &destination, Operation operation, Value identity) {
  typedef reduction<Axis, Operation, bare<S>, bare<D>> all;
  static_assert(bare<D>::layout::rank() == 1 && bare<D>::layout::template maps<typename bare<S>::layout>() &&
                    bare<D>::layout::axis() == Axis,
                "reduce: the destination must be a reduction destination of an operation of the same shape");
  typename all::call mine = {&source, &destination, operation, identity};
  crew<typename bare<S>::layout::scope>::template together<all>(&mine);
}
}  // namespace soft
