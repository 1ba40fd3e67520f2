// The wall around a helper: the few system calls that running kernels takes, and no other.
#if defined(__linux__)
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isolate.h"
#include "runtime.h"

namespace soft {
namespace {

#if defined(__x86_64__)
enum : uint32_t { MACHINE = AUDIT_ARCH_X86_64 };
#else
enum : uint32_t { MACHINE = AUDIT_ARCH_AARCH64 };
#endif

// Memory of its own, time, sleep, its own signals; nothing that names a file, another process or a network.
const uint32_t allowed[] = {
    SYS_futex,        SYS_mmap,         SYS_munmap,        SYS_mprotect,     SYS_mremap,       SYS_madvise,
    SYS_brk,          SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_gettid,       SYS_getpid,       SYS_sched_yield,
    SYS_sched_getaffinity, SYS_getrandom, SYS_sysinfo,     SYS_ppoll,        SYS_restart_syscall, SYS_exit,
    SYS_exit_group,   SYS_set_robust_list, SYS_rseq,      SYS_getcpu,
};
enum { ALLOWED = sizeof allowed / sizeof *allowed };

constexpr uint32_t low_half(uint32_t argument) { return offsetof(seccomp_data, args) + 8 * argument; }

struct Program {
  sock_filter lines[2 * ALLOWED + 40];
  uint16_t length;

  void add(sock_filter line) { lines[length++] = line; }
  void load(uint32_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void answer(uint32_t action) { add(BPF_STMT(BPF_RET | BPF_K, action)); }
  // Skips so many lines unless what was loaded is `value`.
  void unless(uint32_t value, uint8_t skipped) { add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped)); }
};

// Starting a thread fails, as it may anywhere; the workers are there already.
void refuse_threads(Program &program) {
  program.unless(SYS_clone, 1);
  program.answer(SECCOMP_RET_ERRNO | EAGAIN);
  program.unless(SYS_clone3, 1);
  program.answer(SECCOMP_RET_ERRNO | ENOSYS);
}

// Where threads run is not for kernels to say.
void refuse_placing(Program &program) {
  program.unless(SYS_sched_setaffinity, 1);
  program.answer(SECCOMP_RET_ERRNO | EPERM);
}

// A signal to one of its own threads, which is how the watchdog ends a kernel.
void allow_own_signals(Program &program) {
  program.unless(SYS_tgkill, 4);
  program.load(low_half(0));
  program.unless(getpid(), 1);
  program.answer(SECCOMP_RET_ALLOW);
  program.answer(SECCOMP_RET_KILL_PROCESS);
}

// Reading a limit of its own, without a new one.
void allow_reading_limits(Program &program) {
  program.unless(SYS_prlimit64, 6);
  program.load(low_half(2));
  program.unless(0, 3);
  program.load(low_half(2) + 4);
  program.unless(0, 1);
  program.answer(SECCOMP_RET_ALLOW);
  program.answer(SECCOMP_RET_KILL_PROCESS);
}

void write(Program &program) {
  program.load(offsetof(seccomp_data, arch));
  program.add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0));
  program.answer(SECCOMP_RET_KILL_PROCESS);
  program.load(offsetof(seccomp_data, nr));
  for (uint32_t number : allowed) {
    program.unless(number, 1);
    program.answer(SECCOMP_RET_ALLOW);
  }
  refuse_threads(program);
  refuse_placing(program);
  allow_own_signals(program);
  program.load(offsetof(seccomp_data, nr));
  allow_reading_limits(program);
  program.answer(SECCOMP_RET_KILL_PROCESS);
}

}  // namespace
}  // namespace soft

// Starts the threads that kernels need and closes the process, for all of them and for good; 0, or an error number.
SOFT_EXPORT int soft_close_process() {
  soft::start_all_workers();
  soft::start_watchdog();
  soft::take_short_turns();
  soft::Program program = {};
  soft::write(program);
  sock_fprog filter = {program.length, program.lines};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) ? errno : 0;
}
#endif
