// The Walsh-Hadamard transform of n values in threadgroup memory, n a power of two, without a factor.
// The values are to be behind a barrier when it begins, and are so when it ends.

// The sums and differences of R values that lie h apart, for all such sets of R.
template <uint R>
inline void butterflies(threadgroup float *x, uint n, uint h, uint thread_number, uint threads) {
  for (uint i = thread_number; i < n / R; i += threads) {
    threadgroup float *first = x + i / h * h * R + i % h;
    float v[R];
    for (uint j = 0; j < R; j++) {
      v[j] = first[j * h];
    }
    for (uint step = 1; step < R; step *= 2) {
      for (uint j = 0; j < R; j++) {
        if ((j & step) == 0) {
          const float a = v[j], b = v[j + step];
          v[j] = a + b;
          v[j + step] = a - b;
        }
      }
    }
    for (uint j = 0; j < R; j++) {
      first[j * h] = v[j];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

inline void hadamard(threadgroup float *x, uint n, uint thread_number, uint threads) {
  uint h = 1;
  for (; n / h >= 8; h *= 8) {
    butterflies<8>(x, n, h, thread_number, threads);
  }
  if (n / h == 4) {
    butterflies<4>(x, n, h, thread_number, threads);
  } else if (n / h == 2) {
    butterflies<2>(x, n, h, thread_number, threads);
  }
}

// `value`, or its negative where bit i of `signs` is set.
inline float with_sign(float value, constant uint *signs, uint i) {
  return ((signs[i / 32] >> (i % 32)) & 1) != 0 ? -value : value;
}
