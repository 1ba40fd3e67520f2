// Who gets a signal: our handler stays installed once it is; whoever covers it is covered only while kernels run.
#include <sys/mman.h>

#include "runtime.h"

namespace soft {
namespace {

enum { FAULTS = 5 };
enum : uint64_t { SIGNAL_STACK_BYTES = 64 << 10 };
const int fault_signals[FAULTS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

Lock signal_lock;
bool installed;
uint32_t generation;                  // atomic; odd while handlers of others are covered
uint32_t coverers;                    // runs that need it so
bool handed_back[FAULTS];             // the covered handler has been put in place, for a fault of the host
struct sigaction before[FAULTS];      // what was there when we came
struct sigaction covered[FAULTS];
struct sigaction before_interrupt;

// What belongs to an OS thread that runs kernels: its number, and the stack that its handlers run on.
struct Thread {
  uint64_t number;
  char *signal_stack;
};
__thread __attribute__((tls_model("initial-exec"))) Thread thread;
pthread_key_t thread_key;

bool is_ours(const struct sigaction &action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == handle_signal;
}

struct sigaction our_action() {
  struct sigaction action = {};
  action.sa_sigaction = handle_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  // An interruption inside a fault's handler would leave the fault's signal blocked for ever.
  sigaddset(&action.sa_mask, interrupt_signal());
  return action;
}

void install(struct sigaction *old) {
  struct sigaction action = our_action();
  for (int i = 0; i < FAULTS; i++) sigaction(fault_signals[i], &action, &old[i]);
}

void cover() {
  if (coverers++) return;
  install(covered);
  for (bool &each : handed_back) each = false;
  __atomic_add_fetch(&generation, 1, __ATOMIC_SEQ_CST);
}

// A handler that somebody put over ours in the meantime stays.
void uncover() {
  if (--coverers) return;
  for (int i = 0; i < FAULTS; i++) {
    struct sigaction now;
    sigaction(fault_signals[i], nullptr, &now);
    if (is_ours(now) && !is_ours(covered[i])) sigaction(fault_signals[i], &covered[i], nullptr);
  }
  __atomic_add_fetch(&generation, 1, __ATOMIC_SEQ_CST);
}

void call(const struct sigaction &action, int number, siginfo_t *info, void *machine) {
  if (action.sa_flags & SA_SIGINFO) return action.sa_sigaction(number, info, machine);
  if (action.sa_handler == SIG_IGN && was_sent(*info)) return;
  if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN) return action.sa_handler(number);
  // The instruction runs again and ends the process as it would have without us.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(number, &standard, nullptr);
  if (was_sent(*info)) raise(number);
}

void end_thread(void *) {
  stack_t now, none = {};
  none.ss_flags = SS_DISABLE;
  if (!sigaltstack(nullptr, &now) && now.ss_sp == thread.signal_stack) sigaltstack(&none, nullptr);
  munmap(thread.signal_stack, SIGNAL_STACK_BYTES);
}

// A stack that overflowed cannot run its own handler. A thread that has a signal stack already keeps it.
void give_signal_stack() {
  stack_t now, ours = {};
  if (thread.signal_stack || sigaltstack(nullptr, &now) || !(now.ss_flags & SS_DISABLE)) return;
  void *memory = mmap(nullptr, SIGNAL_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  thread.signal_stack = static_cast<char *>(memory);
  ours.ss_sp = memory;
  ours.ss_size = SIGNAL_STACK_BYTES;
  sigaltstack(&ours, nullptr);
  pthread_setspecific(thread_key, memory);
}

__attribute__((constructor)) void make_key() { pthread_key_create(&thread_key, end_thread); }

}  // namespace

uint64_t own_thread() {
  if (thread.number) return thread.number;
  give_signal_stack();
  return thread.number = this_thread();
}

void keep_only_faults(sigset_t &blocked) {
  sigfillset(&blocked);
  for (int number : fault_signals) sigdelset(&blocked, number);
  sigdelset(&blocked, interrupt_signal());
}

// One look at one signal is all that a run mostly costs: who covers one of them covers SIGSEGV.
bool watch_signals() {
  struct sigaction now;
  uint32_t seen = __atomic_load_n(&generation, __ATOMIC_SEQ_CST);
  bool alone = !(seen & 1) && !sigaction(SIGSEGV, nullptr, &now) && is_ours(now);
  if (alone && __atomic_load_n(&generation, __ATOMIC_SEQ_CST) == seen) return false;
  Locked hold(signal_lock);
  if (installed) {
    cover();
    return true;
  }
  install(before);
  struct sigaction action = our_action();
  sigaction(interrupt_signal(), &action, &before_interrupt);
  installed = true;
  return false;
}

void unwatch_signals(bool covering) {
  if (!covering) return;
  Locked hold(signal_lock);
  uncover();
}

// A covered handler comes first; it gets its place back, since many put back what they found there, which was ours.
void pass_on(int number, siginfo_t *info, void *machine) {
  if (number == interrupt_signal()) {
    if (before_interrupt.sa_handler != SIG_DFL) call(before_interrupt, number, info, machine);
    return;
  }
  for (int i = 0; i < FAULTS; i++) {
    if (fault_signals[i] != number) continue;
    bool first = (generation & 1) && !handed_back[i] && !is_ours(covered[i]);
    if (!first) return call(before[i], number, info, machine);
    handed_back[i] = true;
    sigaction(number, &covered[i], nullptr);
    return call(covered[i], number, info, machine);
  }
}

void reset_signals_after_fork() {
  signal_lock.word = 0;
  thread.number = 0;
  if (!(generation & 1)) return;
  coverers = 1;
  uncover();
}

}  // namespace soft
