// Cooperative tensors: a matrix divided among the threads of an execution scope.
#pragma once
#include "soft_tensor_crew.h"

namespace soft {
// A matrix whose elements each belong to one thread. Whole tiles of 16 x 16 are dealt out to simdgroups, and a lane
// holds four neighbours in two rows of a tile, as kernels that address elements by lane expect; other shapes are
// dealt out one by one.
template <int Columns, int Rows, class Scope> struct matrix_shares {
  typedef Scope scope;
  static SOFT_MEMBER int rank() { return 2; }
  static SOFT_MEMBER int columns() { return Columns; }
  static SOFT_MEMBER int rows() { return Rows; }
  static SOFT_MEMBER int capacity() { return (Columns * Rows + crew<Scope>::size() - 1) / crew<Scope>::size(); }
  static SOFT_MEMBER bool tiled() {
    constexpr int simdgroups = crew<Scope>::size() / SOFT_WIDTH;
    if constexpr (simdgroups == 0) return false;
    else return Columns % 16 == 0 && Rows % 16 == 0 && (Columns / 16) * (Rows / 16) % simdgroups == 0;
  }
  static SOFT_MEMBER bool is_stored_by(int, int) { return true; }
  // Valid elements come first.
  static SOFT_MEMBER int count(int thread) {
    if constexpr (Columns * Rows % crew<Scope>::size() == 0) return capacity();
    else return (Columns * Rows - thread + crew<Scope>::size() - 1) / crew<Scope>::size();
  }
  static SOFT_MEMBER int column(int thread, int element) {
    if constexpr (!tiled()) return (element * crew<Scope>::size() + thread) % Columns;
    else return tile(thread, element) % (Columns / 16) * 16 + ((thread >> 2 & 2) | (thread & 1)) * 4 + (element & 3);
  }
  static SOFT_MEMBER int row(int thread, int element) {
    if constexpr (!tiled()) return (element * crew<Scope>::size() + thread) / Columns;
    else
      return tile(thread, element) / (Columns / 16) * 16 + ((thread >> 2 & 4) | (thread >> 1 & 3)) +
             (element >> 2 & 1) * 8;
  }
  static SOFT_MEMBER int index(int thread, int element, int dimension) {
    return dimension == 0 ? column(thread, element) : row(thread, element);
  }
  template <class Other> static SOFT_MEMBER bool maps() { return metal::is_same_v<Other, matrix_shares>; }
  template <class Other> static SOFT_MEMBER int map(int, int element) { return element; }

 private:
  static SOFT_MEMBER int tile(int thread, int element) { return thread / SOFT_WIDTH * (capacity() / 8) + element / 8; }
};

// One value for each row (Axis 1) or column (Axis 0) of a matrix; every thread has them all.
template <int Length, int Axis, class Scope> struct line_shares {
  typedef Scope scope;
  static SOFT_MEMBER int rank() { return 1; }
  static SOFT_MEMBER int axis() { return Axis; }
  static SOFT_MEMBER int capacity() { return Length; }
  static SOFT_MEMBER int count(int) { return Length; }
  static SOFT_MEMBER bool is_stored_by(int thread, int element) { return element % crew<Scope>::size() == thread; }
  static SOFT_MEMBER int index(int, int element, int) { return element; }
  template <class Other> static SOFT_MEMBER bool maps() {
    if constexpr (!metal::is_same_v<typename Other::scope, Scope>) return false;
    else if constexpr (Other::rank() == 1) return metal::is_same_v<Other, line_shares>;
    else return (Axis == 1 ? Other::rows() : Other::columns()) == Length;
  }
  template <class Other> static SOFT_MEMBER int map(int thread, int element) {
    if constexpr (Other::rank() == 1) return element;
    else return Other::index(thread, element, Axis);
  }
};

template <class Owner> struct share_iterator {
  Owner *owner;
  int at;
  SOFT_MEMBER auto &operator*() const { return (*owner)[at]; }
  SOFT_MEMBER __generic share_iterator &operator++() {
    ++at;
    return *this;
  }
  SOFT_MEMBER share_iterator operator++(int) {
    share_iterator before = *this;
    ++at;
    return before;
  }
  SOFT_MEMBER bool operator==(share_iterator other) const { return at == other.at; }
  SOFT_MEMBER bool operator!=(share_iterator other) const { return at != other.at; }
  auto get_multidimensional_index() const { return owner->get_multidimensional_index(at); }
};
}  // namespace soft

namespace soft::tensors {
template <class Element, class Extents, class Layout> struct cooperative_tensor {
  typedef Element element_type;
  typedef Element value_type;
  typedef Extents extents_type;
  typedef Layout layout;
  typedef typename Extents::index_type index_type;
  typedef uint16_t thread_index_type;
  typedef soft::share_iterator<SOFT_THREAD cooperative_tensor> iterator;
  typedef soft::share_iterator<const SOFT_THREAD cooperative_tensor> const_iterator;

  static SOFT_MEMBER size_t get_rank() { return Extents::rank(); }
  static SOFT_MEMBER size_t get_static_extent(size_t r) { return Extents::static_extent(r); }
  static SOFT_MEMBER index_type get_extent(size_t r) { return index_type(Extents::static_extent(r)); }
  static SOFT_MEMBER thread_index_type get_capacity() { return thread_index_type(Layout::capacity()); }
  bool is_valid_element(int i) const { return i >= 0 && i < Layout::count(soft::crew<typename Layout::scope>::self()); }
  bool get_mask(int i) const { return is_valid_element(i); }

  SOFT_MEMBER SOFT_THREAD Element &operator[](int i) { return ((SOFT_THREAD Element *)share)[checked(i)]; }
  SOFT_MEMBER const SOFT_THREAD Element &operator[](int i) const {
    return ((const SOFT_THREAD Element *)share)[checked(i)];
  }

  array<index_type, Extents::rank()> get_multidimensional_index(int i) const {
    array<index_type, Extents::rank()> place = {};
    int thread = soft::crew<typename Layout::scope>::self();
    for (int r = 0; r < Layout::rank(); ++r) place[r] = index_type(Layout::index(thread, checked(i), r));
    return place;
  }
  auto get_multidimensional_index(iterator it) const { return get_multidimensional_index(it.at); }
  auto get_multidimensional_index(const_iterator it) const { return get_multidimensional_index(it.at); }

  iterator begin() { return {(SOFT_THREAD cooperative_tensor *)this, 0}; }
  const_iterator begin() const { return {(const SOFT_THREAD cooperative_tensor *)this, 0}; }
  iterator end() { return {(SOFT_THREAD cooperative_tensor *)this, held()}; }
  const_iterator end() const { return {(const SOFT_THREAD cooperative_tensor *)this, held()}; }

  template <class Other> iterator map_iterator(Other it) {
    return {(SOFT_THREAD cooperative_tensor *)this, mapped(it)};
  }
  template <class Other> const_iterator map_iterator(Other it) const {
    return {(const SOFT_THREAD cooperative_tensor *)this, mapped(it)};
  }

  template <class Tensor> void load(const Tensor &from) {
    static_assert(soft::bare<Tensor>::get_rank() == Extents::rank(), "load: ranks differ");
    typedef soft::cells<typename soft::bare<Tensor>::element_type> source;
    soft::check_source<typename soft::bare<Tensor>::element_type>();
    static_assert(is_same_v<typename source::value, Element>, "load: element types differ");
    for (int i = 0; i < held(); ++i) {
      long cell = cell_of(from, i);
      share[i] = cell == outside() ? Element(0) : source::read(from.soft_cells(), cell);
    }
  }
  template <class Tensor> void store(const Tensor &to) const {
    static_assert(soft::bare<Tensor>::get_rank() == Extents::rank(), "store: ranks differ");
    typedef soft::cells<typename soft::bare<Tensor>::element_type> target;
    static_assert(is_same_v<typename target::value, Element>, "store: element types differ");
    for (int i = 0; i < held(); ++i) {
      long cell = cell_of(to, i);
      if (cell == outside() || !Layout::is_stored_by(soft::crew<typename Layout::scope>::self(), i)) continue;
      target::at(to.soft_cells(), cell) = share[i];
    }
  }

 private:
  static SOFT_MEMBER int checked(int i) {
    if (i < 0 || i >= Layout::capacity()) __builtin_trap();
    return i;
  }
  static SOFT_MEMBER long outside() { return ~(~0ul >> 1); }
  int held() const { return Layout::count(soft::crew<typename Layout::scope>::self()); }
  template <class Other> int mapped(Other it) const {
    typedef typename soft::bare<decltype(*it.owner)>::layout from;
    if (!Layout::template maps<from>()) __builtin_trap();
    return Layout::template map<from>(soft::crew<typename Layout::scope>::self(), it.at);
  }
  template <class Tensor> long cell_of(const Tensor &tensor, int i) const {
    int thread = soft::crew<typename Layout::scope>::self();
    long cell = tensor.soft_origin();
    for (int r = 0; r < Layout::rank(); ++r) {
      long at = Layout::index(thread, i, r);
      if (at >= tensor.soft_bound(r)) return outside();
      cell += at * tensor.soft_stride(r);
    }
    return cell;
  }

  // Kernels start an accumulation without clearing it first.
  Element share[Layout::capacity()] = {};
};

template <class T> struct is_cooperative_tensor : false_type {};
template <class E, class X, class L> struct is_cooperative_tensor<cooperative_tensor<E, X, L>> : true_type {};
template <class T> constexpr SOFT_CONSTANT bool is_cooperative_tensor_v = is_cooperative_tensor<T>::value;
}  // namespace soft::tensors
