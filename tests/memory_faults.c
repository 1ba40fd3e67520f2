// Loaded before the C library: the n-th call of its kind fails, or with `lasting` all from there on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MALLOC, MMAP, MPROTECT, THREAD, KINDS };
static long seen[KINDS], nth[KINDS];
static int lasting;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

void faults_set(int kind, long which, int all_behind) {
  lasting = all_behind;
  __atomic_store_n(&seen[kind], 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&nth[kind], which, __ATOMIC_SEQ_CST);
}

long faults_seen(int kind) { return __atomic_load_n(&seen[kind], __ATOMIC_SEQ_CST); }

static int is_due(int kind) {
  long number = __atomic_add_fetch(&seen[kind], 1, __ATOMIC_SEQ_CST);
  long which = __atomic_load_n(&nth[kind], __ATOMIC_SEQ_CST);
  if (!which || (lasting ? number < which : number != which)) return 0;
  errno = kind == THREAD ? EAGAIN : ENOMEM;
  return 1;
}

void *malloc(size_t size) { return is_due(MALLOC) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_due(MALLOC) ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return is_due(MALLOC) ? NULL : __libc_realloc(old, size); }

void *mmap(void *address, size_t length, int access, int flags, int file, off_t offset) {
  if (is_due(MMAP)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, address, length, access, flags, file, offset);
}

int mprotect(void *address, size_t length, int access) {
  return is_due(MPROTECT) ? -1 : (int)syscall(SYS_mprotect, address, length, access);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
  if (is_due(THREAD)) return EAGAIN;
  int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
  return next(thread, how, run, with);
}
