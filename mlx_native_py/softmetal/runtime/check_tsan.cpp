// The callbacks that the compiler plants before every load and store of a kernel (-fsanitize=thread).
#include "check_access.h"

using soft::access;
using soft::access_bytes;
using soft::u64;

#define PLAIN(bytes)                                                                                   \
  CALLBACK void __tsan_read##bytes(void *p) { access<bytes, SOFT_READ>(p, SITE); }                     \
  CALLBACK void __tsan_write##bytes(void *p) { access<bytes, SOFT_WRITE>(p, SITE); }                   \
  CALLBACK void __tsan_volatile_read##bytes(void *p) { access<bytes, SOFT_READ>(p, SITE); }            \
  CALLBACK void __tsan_volatile_write##bytes(void *p) { access<bytes, SOFT_WRITE>(p, SITE); }          \
  CALLBACK void __tsan_read_write##bytes(void *p) {                                                    \
    access<bytes, SOFT_READ>(p, SITE);                                                                 \
    access<bytes, SOFT_WRITE>(p, SITE);                                                                \
  }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define UNALIGNED(bytes)                                                                                              \
  CALLBACK void __tsan_unaligned_read##bytes(void *p) { access<bytes, SOFT_READ>(p, SITE); }                          \
  CALLBACK void __tsan_unaligned_write##bytes(void *p) { access<bytes, SOFT_WRITE>(p, SITE); }                        \
  CALLBACK void __tsan_unaligned_volatile_read##bytes(void *p) { access<bytes, SOFT_READ>(p, SITE); }                 \
  CALLBACK void __tsan_unaligned_volatile_write##bytes(void *p) { access<bytes, SOFT_WRITE>(p, SITE); }               \
  CALLBACK void __tsan_unaligned_read_write##bytes(void *p) {                                                         \
    access<bytes, SOFT_READ>(p, SITE);                                                                                \
    access<bytes, SOFT_WRITE>(p, SITE);                                                                               \
  }
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

CALLBACK void __tsan_read_range(void *p, u64 bytes) { access_bytes((u64)p, bytes, SOFT_READ, SITE); }
CALLBACK void __tsan_write_range(void *p, u64 bytes) { access_bytes((u64)p, bytes, SOFT_WRITE, SITE); }

CALLBACK void *__tsan_memcpy(void *to, const void *from, u64 bytes) {
  access_bytes((u64)from, bytes, SOFT_READ, SITE);
  access_bytes((u64)to, bytes, SOFT_WRITE, SITE);
  return __builtin_memmove(to, from, bytes);
}
CALLBACK void *__tsan_memmove(void *to, const void *from, u64 bytes) {
  access_bytes((u64)from, bytes, SOFT_READ, SITE);
  access_bytes((u64)to, bytes, SOFT_WRITE, SITE);
  return __builtin_memmove(to, from, bytes);
}
CALLBACK void *__tsan_memset(void *to, int value, u64 bytes) {
  access_bytes((u64)to, bytes, SOFT_WRITE, SITE);
  return __builtin_memset(to, value, bytes);
}

CALLBACK void __tsan_vptr_read(void **p) { access<8, SOFT_READ>(p, SITE); }
CALLBACK void __tsan_vptr_update(void **p, void *) { access<8, SOFT_WRITE>(p, SITE); }
CALLBACK void __tsan_init(void) {}
CALLBACK void __tsan_func_entry(void *) {}
CALLBACK void __tsan_func_exit(void) {}
CALLBACK void __tsan_ignore_thread_begin(void) {}
CALLBACK void __tsan_ignore_thread_end(void) {}
