// macOS on Apple silicon: the same, with what its C library and kernel offer.
#if defined(__APPLE__)
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

// As libc++ uses them.
extern "C" int __ulock_wait(uint32_t operation, void *address, uint64_t value, uint32_t microseconds);
extern "C" int __ulock_wake(uint32_t operation, void *address, uint64_t value);

namespace soft {
namespace {

enum : uint32_t { COMPARE_AND_WAIT = 1, WAKE_ALL = 0x100, NO_ERRNO = 0x1000000 };

int64_t new_slot() {
  pthread_key_t key;
  return pthread_key_create(&key, nullptr) ? 0 : int64_t(key * sizeof(void *));
}

}  // namespace

int64_t lane_offset;
int64_t context_offset;

uint64_t now() { return clock_gettime_nsec_np(CLOCK_UPTIME_RAW); }

uint32_t count_cores() {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? count : 1;
}

void want_huge_pages(void *, uint64_t) {}
void call_in_forked_child(void (*function)()) { pthread_atfork(nullptr, nullptr, function); }

// Limits of more than an hour wake up early.
void futex_wait(uint32_t *word, uint32_t seen, uint64_t nanoseconds) {
  uint64_t microseconds = (nanoseconds + 999) / 1000;
  __ulock_wait(COMPARE_AND_WAIT | NO_ERRNO, word, seen, microseconds < UINT32_MAX ? microseconds : UINT32_MAX);
}

void futex_wake(uint32_t *word, int count) {
  __ulock_wake(COMPARE_AND_WAIT | NO_ERRNO | (count > 1 ? WAKE_ALL : 0), word, 0);
}

uint64_t this_thread() { return reinterpret_cast<uint64_t>(pthread_self()); }
void signal_thread(uint64_t number, int signal) { pthread_kill(reinterpret_cast<pthread_t>(number), signal); }
int interrupt_signal() { return SIGEMT; }

uint32_t current_core() { return 0; }
void keep_off(uint64_t, uint32_t) {}

bool was_sent(const siginfo_t &info) { return info.si_code <= 0 || info.si_code >= SI_USER; }

uint64_t stack_pointer(const ucontext_t &machine) { return machine.uc_mcontext->__ss.__sp; }
uint64_t program_counter(const ucontext_t &machine) { return machine.uc_mcontext->__ss.__pc; }

void go_on_at(ucontext_t &machine, void (*code)(), void *stack) {
  machine.uc_mcontext->__ss.__pc = reinterpret_cast<uint64_t>(code);
  machine.uc_mcontext->__ss.__sp = reinterpret_cast<uint64_t>(stack);
}

uint32_t access_of(const siginfo_t &, const ucontext_t &machine) {
  enum : uint32_t { CLASS_SHIFT = 26, DATA_ABORT = 0x24, IS_WRITE = 1 << 6 };
  uint32_t syndrome = machine.uc_mcontext->__es.__esr;
  if (syndrome >> CLASS_SHIFT != DATA_ABORT) return SOFT_ACCESS_UNKNOWN;
  return syndrome & IS_WRITE ? SOFT_ACCESS_WRITE : SOFT_ACCESS_READ;
}

}  // namespace soft

SOFT_EXPORT int64_t soft_lane_offset;
int64_t soft_lane_offset;
__attribute__((constructor)) static void make_slots() {
  soft::context_offset = soft::new_slot();
  soft_lane_offset = soft::lane_offset = soft::new_slot();
}
#endif
