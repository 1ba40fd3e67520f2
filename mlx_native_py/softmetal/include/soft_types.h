// Scalar names, address spaces and the attributes every other header uses.
#pragma once

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION __cl_clang_function_pointers : enable
#pragma OPENCL EXTENSION __cl_clang_bitfields : enable
#pragma OPENCL EXTENSION __cl_clang_variadic_functions : enable

#define SOFT_DEVICE __attribute__((opencl_global_device))
#define SOFT_CONSTANT const __global
#define SOFT_THREADGROUP __local
#define SOFT_THREAD __private

#define SOFT_FN static __attribute__((always_inline)) constexpr
#define SOFT_MEMBER constexpr

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
typedef ulong size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef ulong uintptr_t;

namespace metal {
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using ::uchar;
using ::uint;
using ::ulong;
using ::ushort;
typedef decltype(nullptr) nullptr_t;

template <class T, int N> struct vec;
template <class T, int N> struct packed_vec;
template <class T, int C, int R> struct matrix;
struct bfloat;
}  // namespace metal

namespace soft {
// What a vector's element is kept as, and the compiler's own vector of it.
template <class T> struct store {
  typedef T type;
};
template <> struct store<bool> {
  typedef uchar type;
};
template <> struct store<metal::bfloat> {
  typedef ushort type;
};
template <class T, int N> struct ext {
  typedef T type __attribute__((ext_vector_type(N)));
};
template <class T, int N> using ext_t = typename ext<T, N>::type;
struct raw_tag {};
}  // namespace soft
