// The type traits of metal_type_traits, with address spaces understood.
#pragma once
#include "soft_types.h"

namespace metal {
template <class T, T V> struct integral_constant {
  static constexpr SOFT_CONSTANT T value = V;
  typedef T value_type;
  typedef integral_constant type;
  SOFT_MEMBER operator T() const { return V; }
  SOFT_MEMBER T operator()() const { return V; }
};
template <bool B> using bool_constant = integral_constant<bool, B>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;

template <class T, T... I> struct integer_sequence {
  typedef T value_type;
  static SOFT_MEMBER ulong size() { return sizeof...(I); }
};
template <ulong... I> using index_sequence = integer_sequence<ulong, I...>;
template <class T, T N> using make_integer_sequence = __make_integer_seq<integer_sequence, T, N>;
template <ulong N> using make_index_sequence = make_integer_sequence<ulong, N>;
template <class... T> using index_sequence_for = make_index_sequence<sizeof...(T)>;

template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> {
  typedef T type;
};
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <bool B, class T, class F> struct conditional {
  typedef T type;
};
template <class T, class F> struct conditional<false, T, F> {
  typedef F type;
};
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;

#define SOFT_TRANSFORM(name)                                                                                  \
  template <class T> using name##_t = typename name<T>::type;
#define SOFT_PREDICATE(name)                                                                                  \
  template <class T> constexpr SOFT_CONSTANT bool name##_v = name<T>::value;
#define SOFT_BUILTIN_PREDICATE(name)                                                                          \
  template <class T> struct name : bool_constant<__##name(T)> {};                                             \
  SOFT_PREDICATE(name)
#define SOFT_BUILTIN_PREDICATE2(name)                                                                         \
  template <class A, class B> struct name : bool_constant<__##name(A, B)> {};                                 \
  template <class A, class B> constexpr SOFT_CONSTANT bool name##_v = name<A, B>::value;

template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_volatile { typedef T type; };
template <class T> struct remove_volatile<volatile T> { typedef T type; };
template <class T> struct remove_cv { typedef typename remove_const<typename remove_volatile<T>::type>::type type; };
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T &> { typedef T type; };
template <class T> struct remove_reference<T &&> { typedef T type; };
template <class T> struct remove_reference<__private T &> { typedef T type; };
template <class T> struct remove_reference<__private T &&> { typedef T type; };
template <class T> struct remove_addrspace { typedef T type; };
template <class T> struct remove_addrspace<SOFT_DEVICE T> { typedef T type; };
template <class T> struct remove_addrspace<__global T> { typedef T type; };
template <class T> struct remove_addrspace<__local T> { typedef T type; };
template <class T> struct remove_addrspace<__private T> { typedef T type; };
template <class T> struct remove_addrspace<__generic T> { typedef T type; };
template <class T> struct remove_pointer { typedef T type; };
template <class T> struct remove_pointer<T *> { typedef T type; };
template <class T> struct remove_pointer<T *const> { typedef T type; };
template <class T> struct remove_pointer<__private T *> { typedef T type; };
template <class T> struct remove_pointer<__private T *const> { typedef T type; };
template <class T> struct remove_extent { typedef T type; };
template <class T> struct remove_extent<T[]> { typedef T type; };
template <class T, size_t N> struct remove_extent<T[N]> { typedef T type; };
template <class T> struct remove_all_extents { typedef T type; };
template <class T> struct remove_all_extents<T[]> { typedef typename remove_all_extents<T>::type type; };
template <class T, size_t N> struct remove_all_extents<T[N]> { typedef typename remove_all_extents<T>::type type; };
template <class T> struct remove_cvref {
  typedef typename remove_cv<typename remove_addrspace<typename remove_reference<T>::type>::type>::type type;
};
template <class T> struct add_const { typedef const T type; };
template <class T> struct add_volatile { typedef volatile T type; };
template <class T> struct add_cv { typedef const volatile T type; };
template <class T> struct add_pointer { typedef typename remove_reference<T>::type *type; };
template <class T> struct add_lvalue_reference { typedef T &type; };
template <class T> struct add_rvalue_reference { typedef T &&type; };
template <> struct add_lvalue_reference<void> { typedef void type; };
template <> struct add_rvalue_reference<void> { typedef void type; };
template <class T> struct decay { typedef typename remove_cvref<T>::type type; };
template <class T> struct decay<T[]> { typedef T *type; };
template <class T, size_t N> struct decay<T[N]> { typedef T *type; };
template <class T> struct type_identity { typedef T type; };
template <class T> struct underlying_type { typedef __underlying_type(T) type; };
SOFT_TRANSFORM(remove_const)
SOFT_TRANSFORM(remove_volatile)
SOFT_TRANSFORM(remove_cv)
SOFT_TRANSFORM(remove_reference)
SOFT_TRANSFORM(remove_addrspace)
SOFT_TRANSFORM(remove_pointer)
SOFT_TRANSFORM(remove_extent)
SOFT_TRANSFORM(remove_all_extents)
SOFT_TRANSFORM(remove_cvref)
SOFT_TRANSFORM(add_const)
SOFT_TRANSFORM(add_volatile)
SOFT_TRANSFORM(add_cv)
SOFT_TRANSFORM(add_pointer)
SOFT_TRANSFORM(add_lvalue_reference)
SOFT_TRANSFORM(add_rvalue_reference)
SOFT_TRANSFORM(decay)
SOFT_TRANSFORM(type_identity)
SOFT_TRANSFORM(underlying_type)

template <class T> typename add_rvalue_reference<T>::type declval();

template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr SOFT_CONSTANT bool is_same_v = is_same<A, B>::value;
}  // namespace metal

namespace soft {
template <class T> using bare = metal::remove_cvref_t<T>;
template <class T> struct integral : metal::false_type {};
template <class T> struct floating : metal::false_type {};
#define SOFT_IS(kind, T)                                                                                      \
  template <> struct kind<T> : metal::true_type {};
SOFT_IS(integral, bool)
SOFT_IS(integral, char)
SOFT_IS(integral, signed char)
SOFT_IS(integral, uchar)
SOFT_IS(integral, short)
SOFT_IS(integral, ushort)
SOFT_IS(integral, int)
SOFT_IS(integral, uint)
SOFT_IS(integral, long)
SOFT_IS(integral, ulong)
SOFT_IS(integral, long long)
SOFT_IS(integral, unsigned long long)
SOFT_IS(floating, half)
SOFT_IS(floating, float)
SOFT_IS(floating, metal::bfloat)
#undef SOFT_IS
template <class T> constexpr SOFT_CONSTANT bool whole_number = integral<bare<T>>::value;
template <class T> struct pointer : metal::false_type {};
template <class T> struct pointer<T *> : metal::true_type {};
template <class T> struct vector : metal::false_type {};
template <class T, int N> struct vector<metal::vec<T, N>> : metal::true_type {};
template <class T, int N> struct vector<metal::packed_vec<T, N>> : metal::true_type {};
template <class T> struct element_of {
  typedef T type;
};
template <class T, int N> struct element_of<metal::vec<T, N>> {
  typedef T type;
};
template <class T, int N> struct element_of<metal::packed_vec<T, N>> {
  typedef T type;
};
template <class T> struct elements : metal::integral_constant<uint, 0> {};
template <class T, int N> struct elements<metal::vec<T, N>> : metal::integral_constant<uint, N> {};
template <class T, int N> struct elements<metal::packed_vec<T, N>> : metal::integral_constant<uint, N> {};
}  // namespace soft

namespace metal {
template <class T> struct vec_elements : soft::elements<soft::bare<T>> {};
#define SOFT_BARE_PREDICATE(name, ...)                                                                        \
  template <class T> struct name : bool_constant<(__VA_ARGS__)> {};                                           \
  SOFT_PREDICATE(name)
// A vector of integers is integral, as Metal has it.
SOFT_BARE_PREDICATE(is_integral, soft::integral<typename soft::element_of<soft::bare<T>>::type>::value)
SOFT_BARE_PREDICATE(is_floating_point, soft::floating<soft::bare<T>>::value)
SOFT_BARE_PREDICATE(is_arithmetic, soft::integral<soft::bare<T>>::value || is_floating_point<T>::value)
SOFT_BARE_PREDICATE(is_signed, is_floating_point<T>::value ||
                                   (soft::integral<soft::bare<T>>::value && __is_signed(soft::bare<T>)))
SOFT_BARE_PREDICATE(is_unsigned, soft::integral<soft::bare<T>>::value && !__is_signed(soft::bare<T>))
SOFT_BARE_PREDICATE(is_pointer, soft::pointer<soft::bare<T>>::value)
SOFT_BARE_PREDICATE(is_void, is_same<void, soft::bare<T>>::value)
SOFT_BARE_PREDICATE(is_null_pointer, is_same<nullptr_t, soft::bare<T>>::value)
SOFT_BARE_PREDICATE(is_fundamental, is_arithmetic<T>::value || is_void<T>::value || is_null_pointer<T>::value)
SOFT_BARE_PREDICATE(is_scalar, is_arithmetic<T>::value || is_pointer<T>::value || __is_enum(T) ||
                                   is_null_pointer<T>::value)
SOFT_BARE_PREDICATE(is_vector, soft::vector<soft::bare<T>>::value)
SOFT_BARE_PREDICATE(is_reference, __is_lvalue_reference(T) || __is_rvalue_reference(T))
SOFT_BARE_PREDICATE(is_compound, !is_fundamental<T>::value)
SOFT_BARE_PREDICATE(is_object, !is_reference<T>::value && !is_void<T>::value && !__is_function(T))
SOFT_BUILTIN_PREDICATE(is_lvalue_reference)
SOFT_BUILTIN_PREDICATE(is_rvalue_reference)
SOFT_BUILTIN_PREDICATE(is_function)
SOFT_BUILTIN_PREDICATE(is_enum)
SOFT_BUILTIN_PREDICATE(is_class)
SOFT_BUILTIN_PREDICATE(is_union)
SOFT_BUILTIN_PREDICATE(is_trivial)
SOFT_BUILTIN_PREDICATE(is_trivially_copyable)
SOFT_BUILTIN_PREDICATE(is_standard_layout)
SOFT_BUILTIN_PREDICATE(is_pod)
SOFT_BUILTIN_PREDICATE(is_literal_type)
SOFT_BUILTIN_PREDICATE(is_polymorphic)
SOFT_BUILTIN_PREDICATE(is_abstract)
SOFT_BUILTIN_PREDICATE(is_final)
SOFT_BUILTIN_PREDICATE2(is_base_of)
SOFT_BUILTIN_PREDICATE2(is_convertible)
SOFT_BUILTIN_PREDICATE2(is_assignable)
SOFT_BUILTIN_PREDICATE2(is_trivially_assignable)

template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_volatile : false_type {};
template <class T> struct is_volatile<volatile T> : true_type {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, size_t N> struct is_array<T[N]> : true_type {};
SOFT_PREDICATE(is_const)
SOFT_PREDICATE(is_volatile)
SOFT_PREDICATE(is_array)
template <class T, class... A> struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T, class... A> constexpr SOFT_CONSTANT bool is_constructible_v = is_constructible<T, A...>::value;
template <class T> struct is_default_constructible : bool_constant<__is_constructible(T)> {};
template <class T> struct is_copy_constructible : bool_constant<__is_constructible(T, const T &)> {};
template <class T> struct is_move_constructible : bool_constant<__is_constructible(T, T &&)> {};
SOFT_PREDICATE(is_default_constructible)
SOFT_PREDICATE(is_copy_constructible)
SOFT_PREDICATE(is_move_constructible)
template <class T> struct alignment_of : integral_constant<size_t, alignof(T)> {};
template <class T> constexpr SOFT_CONSTANT size_t alignment_of_v = alignof(T);
template <class T> struct rank : integral_constant<size_t, 0> {};
template <class T> struct rank<T[]> : integral_constant<size_t, rank<T>::value + 1> {};
template <class T, size_t N> struct rank<T[N]> : integral_constant<size_t, rank<T>::value + 1> {};
template <class T> constexpr SOFT_CONSTANT size_t rank_v = rank<T>::value;
template <class T, unsigned I = 0> struct extent : integral_constant<size_t, 0> {};
template <class T, size_t N> struct extent<T[N], 0> : integral_constant<size_t, N> {};
template <class T, size_t N, unsigned I> struct extent<T[N], I> : extent<T, I - 1> {};
template <class T, unsigned I = 0> constexpr SOFT_CONSTANT size_t extent_v = extent<T, I>::value;

template <class...> struct conjunction : true_type {};
template <class A> struct conjunction<A> : A {};
template <class A, class... B> struct conjunction<A, B...> : conditional_t<bool(A::value), conjunction<B...>, A> {};
template <class...> struct disjunction : false_type {};
template <class A> struct disjunction<A> : A {};
template <class A, class... B> struct disjunction<A, B...> : conditional_t<bool(A::value), A, disjunction<B...>> {};
template <class A> struct negation : bool_constant<!bool(A::value)> {};
template <class... A> constexpr SOFT_CONSTANT bool conjunction_v = conjunction<A...>::value;
template <class... A> constexpr SOFT_CONSTANT bool disjunction_v = disjunction<A...>::value;
template <class A> constexpr SOFT_CONSTANT bool negation_v = negation<A>::value;
template <class... A> using _conjunction = conjunction<A...>;
template <class... A> using _disjunction = disjunction<A...>;
template <class A> using _negation = negation<A>;
}  // namespace metal

namespace soft {
template <class T> struct signs;
#define SOFT_SIGNS(S, U)                                                                                      \
  template <> struct signs<S> {                                                                               \
    typedef S with;                                                                                           \
    typedef U without;                                                                                        \
  };                                                                                                          \
  template <> struct signs<U> : signs<S> {};
SOFT_SIGNS(char, uchar)
SOFT_SIGNS(short, ushort)
SOFT_SIGNS(int, uint)
SOFT_SIGNS(long, ulong)
SOFT_SIGNS(long long, unsigned long long)
template <> struct signs<signed char> : signs<char> {};
#undef SOFT_SIGNS
}  // namespace soft

namespace metal {
template <class T> struct make_signed {
  typedef typename soft::signs<T>::with type;
};
template <class T> struct make_unsigned {
  typedef typename soft::signs<T>::without type;
};
template <class T, int N> struct make_signed<vec<T, N>> {
  typedef vec<typename make_signed<T>::type, N> type;
};
template <class T, int N> struct make_unsigned<vec<T, N>> {
  typedef vec<typename make_unsigned<T>::type, N> type;
};
template <class T> struct make_scalar {
  typedef T type;
};
template <class T, int N> struct make_scalar<vec<T, N>> : make_scalar<T> {};
template <class T, int N> struct make_scalar<packed_vec<T, N>> : make_scalar<T> {};
SOFT_TRANSFORM(make_signed)
SOFT_TRANSFORM(make_unsigned)
SOFT_TRANSFORM(make_scalar)

template <class... T> struct common_type;
template <class T> struct common_type<T> {
  typedef decay_t<T> type;
};
template <class A, class B> struct common_type<A, B> {
  typedef decay_t<decltype(true ? declval<A>() : declval<B>())> type;
};
template <class A, class B, class... C> struct common_type<A, B, C...> {
  typedef typename common_type<typename common_type<A, B>::type, C...>::type type;
};
template <class... T> using common_type_t = typename common_type<T...>::type;
}  // namespace metal
#undef SOFT_BUILTIN_PREDICATE
#undef SOFT_BUILTIN_PREDICATE2
#undef SOFT_BARE_PREDICATE
