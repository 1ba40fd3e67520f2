// The worker threads, and how a launch's threadgroups are handed out to them.
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t { WORTH_WAKING = 20000, IDLE_SPINS = 2000 };

Lock pool_lock;
Run *runs;
uint32_t published;                   // futex: changes when a run appears in the list
uint32_t sleepers;
uint32_t worker_count;                // started

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

// Shrinking batches: large ones first so that handing out costs nothing, small ones last so that all end together.
bool grab(Run &run, uint64_t &first, uint64_t &last) {
  uint64_t at = __atomic_load_n(&run.next, __ATOMIC_RELAXED);
  for (;;) {
    if (at >= run.total || __atomic_load_n(&run.stop, __ATOMIC_RELAXED)) return false;
    uint64_t batch = (run.total - at) / (4 * run.threads);
    uint64_t end = at + (batch ? batch : 1);
    if (__atomic_compare_exchange_n(&run.next, &at, end, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      first = at;
      last = end;
      return true;
    }
  }
}

// The caller is one of a run's threads.
bool wants_help(const Run &run) { return run.next < run.total && !run.stop && run.inside + 1 < run.threads; }

void fail(Run &run, uint32_t kind) {
  uint32_t none = SOFT_FAULT_NONE;
  __atomic_compare_exchange_n(&run.fault->kind, &none, kind, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  run.fault->launch = run.index;
  __atomic_store_n(&run.stop, kind, __ATOMIC_SEQ_CST);
}

void work_on(Run &run, Context &context) {
  uint64_t first, last;
  while (grab(run, first, last))
    for (; first < last && !__atomic_load_n(&run.stop, __ATOMIC_RELAXED); first++)
      if (!run_group(context, run, first)) return;
}

// A context for one launch on this thread; null when memory is short.
struct Working {
  Context *context;
  Context *outer;
  explicit Working(Run &run) : context(take_context()), outer(current_context) {
    if (!context) {
      fail(run, SOFT_FAULT_RUNTIME);
      return;
    }
    current_context = context;
    enter_signal_stack(*context);
    if (has_fibers(*run.launch) && !prepare_fibers(*context, *run.launch)) fail(run, SOFT_FAULT_RUNTIME);
  }
  void finish(Run &run) {
    if (!context) return;
    if (has_fibers(*run.launch) && !stacks_intact(*context)) {
      context->lanes_ready = 0;
      fail(run, SOFT_FAULT_STACK);
    }
    leave_signal_stack(*context);
    current_context = outer;
    return_context(context);
  }
};

void join(Run &run) {
  Working working(run);
  if (working.context) work_on(run, *working.context);
  working.finish(run);
  if (__atomic_sub_fetch(&run.inside, 1, __ATOMIC_SEQ_CST) == 0) futex_wake(&run.inside, 1);
}

Run *find_run() {
  Locked hold(pool_lock);
  for (Run *run = runs; run; run = run->following)
    if (wants_help(*run)) {
      __atomic_add_fetch(&run->inside, 1, __ATOMIC_SEQ_CST);
      return run;
    }
  return nullptr;
}

void *worker(void *) {
  for (;;) {
    uint32_t seen = __atomic_load_n(&published, __ATOMIC_SEQ_CST);
    if (Run *run = find_run()) {
      join(*run);
      continue;
    }
    for (uint32_t i = 0; i < IDLE_SPINS && __atomic_load_n(&published, __ATOMIC_RELAXED) == seen; i++) relax();
    if (__atomic_load_n(&published, __ATOMIC_SEQ_CST) != seen) continue;
    __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
    futex_wait(&published, seen, 0);
    __atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
  }
}

// Called with the lock held. Signals of the host program are not for these threads.
void start_workers(uint32_t threads) {
  sigset_t all, old;
  sigfillset(&all);
  const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, interrupt_signal()};
  for (int number : kept) sigdelset(&all, number);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (; worker_count + 1 < threads; worker_count++) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, worker, nullptr)) break;
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void publish(Run &run) {
  {
    Locked hold(pool_lock);
    start_workers(run.threads);
    run.previous = nullptr;
    run.following = runs;
    if (runs) runs->previous = &run;
    runs = &run;
  }
  __atomic_add_fetch(&published, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) futex_wake(&published, 1 << 30);
}

void withdraw(Run &run) {
  Locked hold(pool_lock);
  (run.previous ? run.previous->following : runs) = run.following;
  if (run.following) run.following->previous = run.previous;
}

void wait_for_workers(Run &run) {
  for (uint32_t spins = 0;; spins++) {
    uint32_t inside = __atomic_load_n(&run.inside, __ATOMIC_SEQ_CST);
    if (!inside) return;
    if (spins < IDLE_SPINS)
      relax();
    else
      futex_wait(&run.inside, inside, 0);
  }
}

// The first groups, alone: a launch that is over soon wakes nobody. True when there is enough left to share.
bool begin_alone(Run &run, Context &context) {
  if (run.threads == 1) return false;
  uint64_t start = now(), done = 0;
  for (uint64_t check = 1; run.next < run.total && !run.stop;) {
    if (!run_group(context, run, run.next++)) return false;
    if (++done < check) continue;
    uint64_t spent = now() - start;
    if (spent / done * (run.total - run.next) > WORTH_WAKING) return true;
    check = done * 2;
  }
  return false;
}

void forked() {
  pool_lock.word = 0;
  runs = nullptr;
  worker_count = 0;
  sleepers = 0;
  forget_contexts_in_use();
  reset_signals_after_fork();
  reset_watchdog_after_fork();
}

__attribute__((constructor)) void register_fork_handler() { pthread_atfork(nullptr, nullptr, forked); }

}  // namespace

uint32_t core_count() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) ? 1 : CPU_COUNT(&cores);
}

uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return uint64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

void futex_wait(uint32_t *word, uint32_t seen, uint64_t nanoseconds) {
  timespec limit = {time_t(nanoseconds / 1000000000), long(nanoseconds % 1000000000)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, nanoseconds ? &limit : nullptr, nullptr, 0);
}

void futex_wake(uint32_t *word, int count) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0); }

void Lock::take() {
  uint32_t expected = 0;
  if (__atomic_compare_exchange_n(&word, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  while (__atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE)) futex_wait(&word, 2, 0);
}

void Lock::release() {
  if (__atomic_exchange_n(&word, 0, __ATOMIC_RELEASE) == 2) futex_wake(&word, 1);
}

void run_launch(Run &run) {
  Working working(run);
  bool shared = working.context && begin_alone(run, *working.context);
  if (shared) publish(run);
  if (working.context) work_on(run, *working.context);
  working.finish(run);
  if (!shared) return;
  withdraw(run);
  wait_for_workers(run);
}

}  // namespace soft
