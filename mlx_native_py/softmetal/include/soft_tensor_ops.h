// mpp::tensor_ops: matmul2d, its cooperative tensors, and reductions of them.
#pragma once
#include "soft_limits.h"
#include "soft_tensor_product.h"

namespace soft {
template <class Operand> SOFT_FN bool is_operand() { return is_tensor<Operand>::value || is_shared<Operand>::value; }

// Rejects what the operation does not take as an operand; a tensor's elements must be writable in type.
template <class Operand> SOFT_FN void check_operand() {
  static_assert(is_operand<Operand>(), "matmul2d: an operand must be a tensor or a cooperative tensor");
  if constexpr (is_tensor<Operand>::value) {
    typedef typename Operand::element_type element;
    static_assert(Operand::get_rank() == 2, "matmul2d: an operand must have two dimensions");
    static_assert(space_of<element>::get() == space::of_constant ||
                      !metal::is_const_v<metal::remove_addrspace_t<element>>,
                  "matmul2d: an operand's elements must not be const");
  }
}
template <class Operand> SOFT_FN void check_input() {
  check_operand<Operand>();
  if constexpr (is_tensor<Operand>::value) check_source<typename Operand::element_type>();
}
template <class Operand> SOFT_FN void check_destination() {
  check_operand<Operand>();
  if constexpr (is_tensor<Operand>::value)
    static_assert(space_of<typename Operand::element_type>::get() != space::of_constant,
                  "matmul2d: the destination must not be in the constant address space");
}
}  // namespace soft

namespace mpp::tensor_ops {
using namespace soft::tensors;

template <class T> struct dynamic_length {
  static constexpr SOFT_CONSTANT T value = metal::numeric_limits<T>::max();
};
template <class T> constexpr SOFT_CONSTANT T dynamic_length_v = dynamic_length<T>::value;

struct matmul2d_descriptor {
  enum class mode { multiply, multiply_accumulate };
  int m, n, k;
  bool transpose_left, transpose_right, relaxed_precision;
  mode matmul_mode;

  SOFT_MEMBER matmul2d_descriptor(int m, int n, int k = int(dynamic_extent), bool transpose_left = false,
                                  bool transpose_right = false, bool relaxed_precision = false,
                                  mode matmul_mode = mode::multiply)
      : m(m), n(n), k(k), transpose_left(transpose_left), transpose_right(transpose_right),
        relaxed_precision(relaxed_precision), matmul_mode(matmul_mode) {}

  // A template argument cannot be of class type in this dialect, so a descriptor travels as a number.
  SOFT_MEMBER operator ulong() const {
    return size(m) | size(n) << 20 | (dynamic() ? 0xffffful : size(k)) << 40 | ulong(transpose_left) << 60 |
           ulong(transpose_right) << 61 | ulong(relaxed_precision) << 62 |
           ulong(matmul_mode == mode::multiply_accumulate) << 63;
  }
  static SOFT_MEMBER matmul2d_descriptor from(ulong code) {
    const int depth = int(code >> 40 & 0xffffful);
    return matmul2d_descriptor(int(code & 0xffffful), int(code >> 20 & 0xffffful), depth == 0xfffff ? -1 : depth,
                               code >> 60 & 1, code >> 61 & 1, code >> 62 & 1,
                               code >> 63 ? mode::multiply_accumulate : mode::multiply);
  }

 private:
  SOFT_MEMBER bool dynamic() const { return k == int(dynamic_extent) || k == dynamic_length_v<int>; }
  static void size_must_be_positive_and_below_a_million();
  static SOFT_MEMBER ulong size(int length) {
    if (length <= 0 || length >= 0xfffff) size_must_be_positive_and_below_a_million();
    return ulong(length);
  }
};

enum class reduction_operation { sum, max, min };
template <class T> struct reduction_operation_identity {
  static constexpr SOFT_CONSTANT T sum_identity = T(0);
  static constexpr SOFT_CONSTANT T max_identity = metal::numeric_limits<T>::lowest();
  static constexpr SOFT_CONSTANT T min_identity = metal::numeric_limits<T>::max();
};

template <ulong Code, class Scope, class... Arguments> class matmul2d {
  struct shape {
    static SOFT_MEMBER matmul2d_descriptor all() { return matmul2d_descriptor::from(Code); }
    static SOFT_MEMBER int rows() { return all().m; }
    static SOFT_MEMBER int columns() { return all().n; }
    static SOFT_MEMBER int depth() { return all().k; }
    static SOFT_MEMBER bool left() { return all().transpose_left; }
    static SOFT_MEMBER bool right() { return all().transpose_right; }
    static SOFT_MEMBER bool accumulate() { return all().matmul_mode == matmul2d_descriptor::mode::multiply_accumulate; }
  };
  template <class Element, class Index, int Columns, int Rows>
  using matrix = cooperative_tensor<Element, extents<Index, size_t(Columns), size_t(Rows)>,
                                           soft::matrix_shares<Columns, Rows, Scope>>;
  template <class Element, class Index, int Length, int Axis>
  using line = cooperative_tensor<Element, extents<Index, size_t(Length)>,
                                         soft::line_shares<Length, Axis, Scope>>;
  template <class L, class R, class D> static SOFT_MEMBER void check_elements() {
    static_assert(soft::product_types<L, R, D>(), "matmul2d: this combination of element types is not supported");
  }
  static SOFT_MEMBER void check_shared_input() {
    static_assert(metal::is_same_v<Scope, execution_simdgroup>,
                  "matmul2d: input cooperative tensors need the scope execution_simdgroup");
    static_assert(shape::depth() > 0, "matmul2d: input cooperative tensors need a descriptor with a fixed k");
  }
  template <class To, class From> static To converted(const From &from) {
    To to;
    if constexpr (metal::is_same_v<typename To::layout, typename From::layout>) {
      for (int i = 0; i < To::get_capacity(); ++i) to[i] = typename To::element_type(from[i]);
    } else {
      __builtin_trap();
    }
    return to;
  }

 public:
  typedef Scope scope;
  static constexpr SOFT_CONSTANT matmul2d_descriptor descriptor = matmul2d_descriptor::from(Code);

  template <class L, class R, class E, class Index = int>
  using cooperative_tensor_left_input_t = matrix<L, Index, shape::left() ? shape::rows() : shape::depth(),
                                                 shape::left() ? shape::depth() : shape::rows()>;
  template <class L, class R, class E, class Index = int>
  using cooperative_tensor_right_input_t = matrix<R, Index, shape::right() ? shape::depth() : shape::columns(),
                                                  shape::right() ? shape::columns() : shape::depth()>;
  template <class L, class R, class E, class Index = int>
  using cooperative_tensor_destination_t = matrix<E, Index, shape::columns(), shape::rows()>;
  template <class L, class R, class E, class Index = int>
  using cooperative_tensor_row_reduction_destination_t = line<E, Index, shape::rows(), 1>;
  template <class L, class R, class E, class Index = int>
  using cooperative_tensor_column_reduction_destination_t = line<E, Index, shape::columns(), 0>;

  template <class L, class R, class E, class Index = int> SOFT_MEMBER auto get_left_input_cooperative_tensor() const {
    check_shared_input();
    check_elements<L, R, E>();
    return cooperative_tensor_left_input_t<L, R, E, Index>();
  }
  template <class L, class R, class E, class Index = int> SOFT_MEMBER auto get_right_input_cooperative_tensor() const {
    check_shared_input();
    check_elements<L, R, E>();
    return cooperative_tensor_right_input_t<L, R, E, Index>();
  }
  template <class L, class R, class E, class Index = int, class SE, class SX, class SL>
  auto get_left_input_cooperative_tensor(const cooperative_tensor<SE, SX, SL> &source) const {
    check_shared_input();
    return converted<cooperative_tensor_left_input_t<L, R, E, Index>>(source);
  }
  template <class L, class R, class E, class Index = int, class SE, class SX, class SL>
  auto get_right_input_cooperative_tensor(const cooperative_tensor<SE, SX, SL> &source) const {
    check_shared_input();
    return converted<cooperative_tensor_right_input_t<L, R, E, Index>>(source);
  }
  template <class L, class R, class E, class SE, class SX, class SL>
  bool is_compatible_as_left_input(const cooperative_tensor<SE, SX, SL> &) const {
    return metal::is_same_v<SL, typename cooperative_tensor_left_input_t<L, R, E>::layout>;
  }
  template <class L, class R, class E, class SE, class SX, class SL>
  bool is_compatible_as_right_input(const cooperative_tensor<SE, SX, SL> &) const {
    return metal::is_same_v<SL, typename cooperative_tensor_right_input_t<L, R, E>::layout>;
  }
  template <class L, class R, class E, class Index = int> SOFT_MEMBER auto get_destination_cooperative_tensor() const {
    soft::check_input<soft::bare<L>>();
    soft::check_input<soft::bare<R>>();
    check_elements<soft::operand_value_t<soft::bare<L>>, soft::operand_value_t<soft::bare<R>>, E>();
    return cooperative_tensor_destination_t<L, R, E, Index>();
  }
  template <class L, class R, class E, class Index = int>
  SOFT_MEMBER auto get_row_reduction_destination_cooperative_tensor() const {
    return cooperative_tensor_row_reduction_destination_t<L, R, E, Index>();
  }
  template <class L, class R, class E, class Index = int>
  SOFT_MEMBER auto get_column_reduction_destination_cooperative_tensor() const {
    return cooperative_tensor_column_reduction_destination_t<L, R, E, Index>();
  }

  template <class L, class R, class D> void run(L &left, R &right, D &destination) const {
    typedef soft::bare<L> left_t;
    typedef soft::bare<R> right_t;
    typedef soft::bare<D> destination_t;
    soft::check_input<left_t>();
    soft::check_input<right_t>();
    soft::check_destination<destination_t>();
    static_assert(!metal::is_const_v<metal::remove_addrspace_t<D>>, "matmul2d: the destination must not be const");
    check_elements<soft::operand_value_t<left_t>, soft::operand_value_t<right_t>,
                   soft::operand_value_t<destination_t>>();
    typedef soft::product<shape, left_t, right_t, destination_t> product;
    typename product::call mine = {(left_t *)&left, (right_t *)&right, &destination};
    soft::crew<Scope>::template together<product>(&mine);
  }
};

template <class E, class SX, class SL, class DX, class DL>
void reduce_rows(cooperative_tensor<E, SX, SL> &source, cooperative_tensor<E, DX, DL> &destination,
                 reduction_operation operation = reduction_operation::sum,
                 E identity = reduction_operation_identity<E>::sum_identity) {
  soft::reduce<1>(source, destination, operation, identity);
}
template <class E, class SX, class SL, class DX, class DL>
void reduce_columns(cooperative_tensor<E, SX, SL> &source, cooperative_tensor<E, DX, DL> &destination,
                    reduction_operation operation = reduction_operation::sum,
                    E identity = reduction_operation_identity<E>::sum_identity) {
  soft::reduce<0>(source, destination, operation, identity);
}
template <class SE, class SX, class SL, class DE, class DX, class DL>
bool is_iterator_compatible(const cooperative_tensor<SE, SX, SL> &,
                            const cooperative_tensor<DE, DX, DL> &) {
  return DL::template maps<SL>();
}
}  // namespace mpp::tensor_ops
