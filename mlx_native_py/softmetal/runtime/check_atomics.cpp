// The callbacks that replace a kernel's atomic operations; they check, and then do them.
#include "check_access.h"

using soft::atomic_access;
using soft::u64;

#define CHECK(bits, access) atomic_access((u64)p, bits / 8, access, SITE)

typedef unsigned char u8t;
typedef unsigned short u16t;
typedef unsigned int u32t;
typedef unsigned long u64t;

#define UPDATE(bits, type, name)                                                           \
  CALLBACK type __tsan_atomic##bits##_##name(volatile type *p, type value, int) {          \
    CHECK(bits, SOFT_READ | SOFT_WRITE);                                                   \
    return __atomic_##name(p, value, __ATOMIC_SEQ_CST);                                    \
  }

#define COMPARE(bits, type, name)                                                                            \
  CALLBACK int __tsan_atomic##bits##_compare_exchange_##name(volatile type *p, type *expected, type value, int, int) { \
    CHECK(bits, SOFT_READ | SOFT_WRITE);                                                                     \
    return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
  }

#define ATOMICS(bits, type)                                                                                  \
  CALLBACK type __tsan_atomic##bits##_load(const volatile type *p, int) {                                    \
    CHECK(bits, SOFT_READ);                                                                                  \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                          \
  CALLBACK void __tsan_atomic##bits##_store(volatile type *p, type value, int) {                             \
    CHECK(bits, SOFT_WRITE);                                                                                 \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                          \
  CALLBACK type __tsan_atomic##bits##_exchange(volatile type *p, type value, int) {                          \
    CHECK(bits, SOFT_READ | SOFT_WRITE);                                                                     \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                          \
  CALLBACK type __tsan_atomic##bits##_compare_exchange_val(volatile type *p, type expected, type value, int, int) { \
    CHECK(bits, SOFT_READ | SOFT_WRITE);                                                                     \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
    return expected;                                                                                         \
  }                                                                                                          \
  COMPARE(bits, type, strong)                                                                                \
  COMPARE(bits, type, weak)                                                                                  \
  UPDATE(bits, type, fetch_add)                                                                              \
  UPDATE(bits, type, fetch_sub)                                                                              \
  UPDATE(bits, type, fetch_and)                                                                              \
  UPDATE(bits, type, fetch_or)                                                                               \
  UPDATE(bits, type, fetch_xor)                                                                              \
  UPDATE(bits, type, fetch_nand)
ATOMICS(8, u8t)
ATOMICS(16, u16t)
ATOMICS(32, u32t)
ATOMICS(64, u64t)

// A group that fences may hand data to another one; who got it cannot be told from here, so that order is trusted.
CALLBACK void __tsan_atomic_thread_fence(int) {
  soft::check_worker->fenced = true;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
CALLBACK void __tsan_atomic_signal_fence(int) {}
