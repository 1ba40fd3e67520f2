// The names that headers shared with the CPU's code use; the types are Metal's own.
#pragma once
#define SOFT_SIMD_VECTORS(T)                                        \
  typedef metal::T##2 vector_##T##2;                                \
  typedef metal::T##3 vector_##T##3;                                \
  typedef metal::T##4 vector_##T##4;                                \
  typedef metal::T##2 simd_##T##2;                                  \
  typedef metal::T##3 simd_##T##3;                                  \
  typedef metal::T##4 simd_##T##4;                                  \
  namespace simd {                                                  \
  using metal::T##2;                                                \
  using metal::T##3;                                                \
  using metal::T##4;                                                \
  }
#define SOFT_SIMD_MATRIX(T)                                         \
  typedef metal::T matrix_##T;                                      \
  typedef metal::T simd_##T;                                        \
  namespace simd {                                                  \
  using metal::T;                                                   \
  }
#define SOFT_SIMD_MATRICES(T)                                                        \
  SOFT_SIMD_MATRIX(T##2x2) SOFT_SIMD_MATRIX(T##2x3) SOFT_SIMD_MATRIX(T##2x4)         \
  SOFT_SIMD_MATRIX(T##3x2) SOFT_SIMD_MATRIX(T##3x3) SOFT_SIMD_MATRIX(T##3x4)         \
  SOFT_SIMD_MATRIX(T##4x2) SOFT_SIMD_MATRIX(T##4x3) SOFT_SIMD_MATRIX(T##4x4)
SOFT_SIMD_VECTORS(char)
SOFT_SIMD_VECTORS(uchar)
SOFT_SIMD_VECTORS(short)
SOFT_SIMD_VECTORS(ushort)
SOFT_SIMD_VECTORS(int)
SOFT_SIMD_VECTORS(uint)
SOFT_SIMD_VECTORS(long)
SOFT_SIMD_VECTORS(ulong)
SOFT_SIMD_VECTORS(half)
SOFT_SIMD_VECTORS(float)
SOFT_SIMD_MATRICES(half)
SOFT_SIMD_MATRICES(float)
