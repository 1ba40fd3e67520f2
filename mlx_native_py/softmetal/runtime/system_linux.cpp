// Linux: futexes, thread numbers, signal frames of x86_64 and aarch64.
#if defined(__linux__)
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

namespace soft {

__thread soft_lane *current_lane;
__thread Context *current_context;

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

uint32_t count_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) ? 1 : CPU_COUNT(&cores);
}

void want_huge_pages(void *start, uint64_t bytes) { madvise(start, bytes, MADV_HUGEPAGE); }

// glibc's shared object has the first for every processor, other C libraries only the second.
extern "C" __attribute__((weak)) int __register_atfork(void (*)(), void (*)(), void (*)(), void *);
extern "C" __attribute__((weak)) int pthread_atfork(void (*)(), void (*)(), void (*)());
void call_in_forked_child(void (*function)()) {
  if (__register_atfork)
    __register_atfork(nullptr, nullptr, function, nullptr);
  else
    pthread_atfork(nullptr, nullptr, function);
}

void futex_wait(uint32_t *word, uint32_t seen, uint64_t nanoseconds) {
  timespec limit = {time_t(nanoseconds / 1000000000), long(nanoseconds % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, nanoseconds ? &limit : nullptr, nullptr, 0);
}

void futex_wake(uint32_t *word, int count) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0); }

uint64_t this_thread() { return syscall(SYS_gettid); }
void signal_thread(uint64_t number, int signal) { syscall(SYS_tgkill, getpid(), int(number), signal); }
int interrupt_signal() { return SIGRTMIN + 7; }

uint32_t current_core() { return sched_getcpu(); }
void keep_off(uint64_t thread, uint32_t core) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores)) return;
  CPU_CLR(core, &cores);
  if (CPU_COUNT(&cores)) sched_setaffinity(thread, sizeof cores, &cores);
}

bool was_sent(const siginfo_t &info) { return info.si_code <= 0; }

#if defined(__x86_64__)

void code_was_written(uint64_t, uint64_t) {}

uint64_t stack_pointer(const ucontext_t &machine) { return machine.uc_mcontext.gregs[REG_RSP]; }
uint64_t program_counter(const ucontext_t &machine) { return machine.uc_mcontext.gregs[REG_RIP]; }

void go_on_at(ucontext_t &machine, void (*code)(), void *stack) {
  machine.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(code);
  machine.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(stack);
}

static uint32_t processor_access(const ucontext_t &machine) {
  return machine.uc_mcontext.gregs[REG_ERR] & 2 ? SOFT_ACCESS_WRITE : SOFT_ACCESS_READ;
}

#else

// No line of a cache is smaller than the step; the compiler's own function for this is in a library of its own.
void code_was_written(uint64_t address, uint64_t bytes) {
  enum : uint64_t { STEP = 16 };
  uint64_t first = address & -STEP, end = address + bytes;
  for (uint64_t line = first; line < end; line += STEP) asm volatile("dc cvau, %0" ::"r"(line) : "memory");
  asm volatile("dsb ish" ::: "memory");
  for (uint64_t line = first; line < end; line += STEP) asm volatile("ic ivau, %0" ::"r"(line) : "memory");
  asm volatile("dsb ish\n\tisb" ::: "memory");
}

uint64_t stack_pointer(const ucontext_t &machine) { return machine.uc_mcontext.sp; }
uint64_t program_counter(const ucontext_t &machine) { return machine.uc_mcontext.pc; }

void go_on_at(ucontext_t &machine, void (*code)(), void *stack) {
  machine.uc_mcontext.pc = reinterpret_cast<uint64_t>(code);
  machine.uc_mcontext.sp = reinterpret_cast<uint64_t>(stack);
}

static uint32_t processor_access(const ucontext_t &machine) {
  enum : uint32_t { SYNDROME = 0x45535201 };
  enum : uint64_t { IS_WRITE = 1 << 6 };
  const char *record = reinterpret_cast<const char *>(machine.uc_mcontext.__reserved);
  for (const char *end = record + sizeof machine.uc_mcontext.__reserved; record < end;) {
    uint32_t head[2];  // what the record is, and its size
    __builtin_memcpy(head, record, sizeof head);
    if (!head[0] || !head[1]) break;
    uint64_t value;
    __builtin_memcpy(&value, record + sizeof head, sizeof value);
    if (head[0] == SYNDROME) return value & IS_WRITE ? SOFT_ACCESS_WRITE : SOFT_ACCESS_READ;
    record += head[1];
  }
  return SOFT_ACCESS_UNKNOWN;
}

#endif

uint32_t access_of(const siginfo_t &info, const ucontext_t &machine) {
  bool by_page = info.si_code == SEGV_MAPERR || info.si_code == SEGV_ACCERR;
  return by_page ? processor_access(machine) : uint32_t(SOFT_ACCESS_UNKNOWN);
}

}  // namespace soft

// Kernels find their lane through the thread pointer, which costs no call.
SOFT_EXPORT int64_t soft_lane_offset;
int64_t soft_lane_offset;
__attribute__((constructor)) static void publish_lane_offset() {
  soft_lane_offset = reinterpret_cast<char *>(&soft::current_lane) - static_cast<char *>(__builtin_thread_pointer());
}
#endif
