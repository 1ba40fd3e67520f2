// Tensors over memory: extents, inline tensors, and execution scopes.
#pragma once
#include "soft_array.h"

namespace metal {
// Element formats of four bits, two to a byte, the lower half first.
struct int4b_format {};
struct uint4b_format {};
}  // namespace metal

namespace soft::tensors {
using namespace metal;
constexpr SOFT_CONSTANT size_t dynamic_extent = ~size_t(0);

template <class Index, size_t... Static> struct extents {
  typedef Index index_type;
  typedef size_t rank_type;
  Index value[sizeof...(Static)];

  SOFT_MEMBER extents() : value{(Static == dynamic_extent ? Index(0) : Index(Static))...} {}
  template <class... V, class = enable_if_t<(sizeof...(V) > 0 && (is_convertible_v<V, Index> && ...))>>
  SOFT_MEMBER extents(V... given) : extents() {
    static_assert(sizeof...(V) == rank() || sizeof...(V) == rank_dynamic(),
                  "extents: give a value for each dimension, or for each dynamic one");
    const Index values[] = {Index(given)...};
    for (size_t r = 0, next = 0; r < rank(); ++r) {
      if (static_extent(r) == dynamic_extent) value[r] = values[sizeof...(V) == rank() ? r : next++];
    }
  }
  template <class I, size_t... S> SOFT_MEMBER extents(const extents<I, S...> &other) : extents() {
    static_assert(sizeof...(S) == sizeof...(Static), "extents: ranks differ");
    for (size_t r = 0; r < rank(); ++r) value[r] = Index(other.value[r]);
  }

  static SOFT_MEMBER size_t rank() { return sizeof...(Static); }
  static SOFT_MEMBER size_t rank_dynamic() { return ((Static == dynamic_extent ? 1 : 0) + ... + 0); }
  static SOFT_MEMBER size_t static_extent(size_t r) {
    const size_t all[] = {Static...};
    return all[r];
  }
  SOFT_MEMBER Index extent(size_t r) const { return value[r]; }
};
}  // namespace soft::tensors

namespace soft {
template <class Index, size_t Rank, size_t... Known> struct all_dynamic {
  typedef typename all_dynamic<Index, Rank - 1, Known..., tensors::dynamic_extent>::type type;
};
template <class Index, size_t... Known> struct all_dynamic<Index, 0, Known...> {
  typedef tensors::extents<Index, Known...> type;
};
template <class Extents, size_t... Slice> struct sliced {
  typedef tensors::extents<typename Extents::index_type, Slice...> type;
};
template <class Extents> struct sliced<Extents> {
  typedef typename all_dynamic<typename Extents::index_type, Extents::rank()>::type type;
};

// `t[i, j]` arrives as `t[soft::subscript(i, j)]`; one index stays what it is.
template <class I> SOFT_FN I subscript(I only) { return only; }
template <size_t Rank> struct subscripts {
  long at[Rank];
};
template <class A, class B, class... C> SOFT_FN subscripts<2 + sizeof...(C)> subscript(A a, B b, C... rest) {
  return {{long(a), long(b), long(rest)...}};
}
}  // namespace soft

namespace soft::tensors {
template <class Index, size_t Rank> using dextents = typename soft::all_dynamic<Index, Rank>::type;

struct tensor_inline {};
struct tensor_handle {};

// Tensors that the host binds (tensor_handle) have no counterpart among the objects of software Metal.
template <class Element, class Extents, class Descriptor = tensor_handle, class... Tags> struct tensor {
  static_assert(is_same_v<Descriptor, void>,
                "tensor: only inline tensors (tensor_inline) are supported by software Metal");
};
}  // namespace soft::tensors

namespace soft {
enum class space { of_thread, of_device, of_constant, of_threadgroup };
template <class T> struct space_of {
  static SOFT_MEMBER space get() { return space::of_thread; }
};
#define SOFT_SPACE(qualifier, name)                                                                           \
  template <class T> struct space_of<qualifier T> {                                                           \
    static SOFT_MEMBER space get() { return space::of_##name; }                                                \
  };
SOFT_SPACE(SOFT_DEVICE, device)
SOFT_SPACE(__global, constant)
SOFT_SPACE(__local, threadgroup)
#undef SOFT_SPACE
// Constant memory as a source of matmul2d and of cooperative tensors came later than the rest.
template <class Element> SOFT_FN void check_source() {
  static_assert(space_of<Element>::get() != space::of_constant,
                "tensors in the constant address space as inputs of matmul2d, or loaded into cooperative tensors, "
                "need a deployment target of 27.3 or later, which is not offered here");
}

// How the elements of a tensor are kept, read and written.
template <class Element> struct cells {
  typedef Element *pointer;
  typedef bare<Element> value;
  static SOFT_MEMBER Element &at(pointer p, long i) { return p[i]; }
  static SOFT_MEMBER value read(pointer p, long i) { return p[i]; }
};
template <class Pointer, bool Signed> struct nibbles {
  typedef Pointer pointer;
  typedef int8_t value;
  static SOFT_MEMBER value read(pointer p, long i) {
    int nibble = (p[i >> 1] >> ((i & 1) * 4)) & 15;
    return value(Signed && nibble > 7 ? nibble - 16 : nibble);
  }
};
#define SOFT_NIBBLES(qualifier)                                                                               \
  template <> struct cells<qualifier tensors::int4b_format> : nibbles<qualifier uchar *, true> {};              \
  template <> struct cells<qualifier tensors::uint4b_format> : nibbles<qualifier uchar *, false> {};
SOFT_NIBBLES(SOFT_DEVICE)
SOFT_NIBBLES(const SOFT_DEVICE)
SOFT_NIBBLES(const __global)
SOFT_NIBBLES(__local)
SOFT_NIBBLES(const __local)
SOFT_NIBBLES(__private)
#undef SOFT_NIBBLES

}  // namespace soft

namespace soft::tensors {
template <class Element, class Extents> struct tensor<Element, Extents, tensor_inline> {
  typedef Element element_type;
  typedef bare<Element> value_type;
  typedef Extents extents_type;
  typedef typename Extents::index_type index_type;
  typedef size_t rank_type;
  typedef typename cells<Element>::pointer data_handle_type;
  static_assert(Extents::rank() > 0 && Extents::rank() <= 16, "tensor: a rank is from 1 to 16");

  tensor() = default;
  SOFT_MEMBER tensor(data_handle_type data, Extents extents) : cell(data), origin(0), size(extents) {
    long packed = 1;
    for (size_t r = 0; r < Extents::rank(); ++r) {
      stride[r] = packed;
      packed *= extents.extent(r);
    }
  }
  template <class I>
  SOFT_MEMBER tensor(data_handle_type data, Extents extents, const array<I, Extents::rank()> &strides)
      : cell(data), origin(0), size(extents) {
    for (size_t r = 0; r < Extents::rank(); ++r) stride[r] = long(strides[r]);
  }

  static SOFT_MEMBER size_t get_rank() { return Extents::rank(); }
  static SOFT_MEMBER size_t get_static_extent(size_t r) { return Extents::static_extent(r); }
  SOFT_MEMBER index_type get_extent(size_t r) const { return size.extent(r); }

  template <class I, class = enable_if_t<is_convertible_v<I, index_type>>>
  SOFT_MEMBER Element &operator[](I i) const {
    static_assert(Extents::rank() == 1, "tensor: give one index for each dimension");
    return cells<Element>::at(cell, origin + long(i) * stride[0]);
  }
  SOFT_MEMBER Element &operator[](subscripts<Extents::rank()> i) const { return element(i.at); }
  template <class I> SOFT_MEMBER Element &operator[](array<I, Extents::rank()> i) const { return element(i); }

  // Dimensions without a given size keep what is left of them, so that edges are still known.
  template <size_t... Slice, class... I> SOFT_MEMBER auto slice(I... at) const {
    static_assert(sizeof...(I) == Extents::rank(), "slice: give one index for each dimension");
    static_assert(sizeof...(Slice) == 0 || sizeof...(Slice) == Extents::rank(),
                  "slice: give a size for each dimension, or for none");
    typedef typename sliced<Extents, Slice...>::type Sliced;
    const long start[] = {long(at)...};
    tensor<Element, Sliced, tensor_inline> part;
    part.cell = cell;
    part.origin = origin;
    part.size = Sliced();
    for (size_t r = 0; r < Extents::rank(); ++r) {
      part.origin += start[r] * stride[r];
      part.stride[r] = stride[r];
      if (Sliced::static_extent(r) == dynamic_extent) part.size.value[r] = index_type(size.extent(r) - start[r]);
    }
    return part;
  }

  SOFT_MEMBER data_handle_type soft_cells() const { return cell; }
  SOFT_MEMBER long soft_origin() const { return origin; }
  SOFT_MEMBER long soft_stride(size_t r) const { return stride[r]; }
  SOFT_MEMBER long soft_bound(size_t r) const { return size.extent(r); }

 private:
  template <class, class, class, class...> friend struct tensor;
  template <class A> SOFT_MEMBER Element &element(const A &at) const {
    long offset = origin;
    for (size_t r = 0; r < Extents::rank(); ++r) offset += long(at[r]) * stride[r];
    return cells<Element>::at(cell, offset);
  }
  data_handle_type cell;
  long origin;
  Extents size;
  long stride[Extents::rank()];
};

template <class Element, class Extents> tensor(Element *, Extents) -> tensor<Element, Extents, tensor_inline>;
template <class Element, class Extents, class Strides>
tensor(Element *, Extents, Strides) -> tensor<Element, Extents, tensor_inline>;

template <class T> struct is_tensor_inline : false_type {};
template <class E, class X> struct is_tensor_inline<tensor<E, X, tensor_inline>> : true_type {};
template <class T> constexpr SOFT_CONSTANT bool is_tensor_inline_v = is_tensor_inline<T>::value;

template <size_t Size> struct execution_simdgroups {
  static_assert(Size > 0, "execution_simdgroups: at least one");
  static SOFT_MEMBER uint size() { return uint(Size); }
};
template <size_t Size> struct execution_threads {
  static_assert(Size == 1, "execution_threads: only one thread is supported");
  static SOFT_MEMBER uint size() { return uint(Size); }
};
typedef execution_simdgroups<1> execution_simdgroup;
typedef execution_threads<1> execution_thread;
}  // namespace soft::tensors
