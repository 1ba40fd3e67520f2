// Signals raised by kernels: the group is abandoned and the fault recorded; all others go to whom they are meant for.
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "runtime.h"

namespace soft {
namespace {

enum { WATCHED = 5, FAULTS = 4 };
Lock signal_lock;
bool interruptible;
uint32_t watchers;
struct sigaction previous[WATCHED];
Lock registry_lock;
Context *registry;

int number_of(int i) {
  const int faults[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL};
  return i < FAULTS ? faults[i] : interrupt_signal();
}

uint64_t stack_pointer(const ucontext_t &machine) {
#if defined(__x86_64__)
  return machine.uc_mcontext.gregs[REG_RSP];
#else
  return machine.uc_mcontext.sp;
#endif
}

// Flat kernels run on the thread's own stack: what faults close to its end is the stack itself.
bool is_stack(const Context &context, uint64_t address, const ucontext_t &machine) {
  enum : uint64_t { NEAR = 64 << 10 };
  return is_stack_guard(context, address) || address - (stack_pointer(machine) - NEAR) < 2 * NEAR;
}

uint32_t kind_of(int number, const Context &context, uint64_t address, const ucontext_t &machine) {
  if (number == SIGFPE) return SOFT_FAULT_DIVISION;
  if (number == SIGILL) return SOFT_FAULT_INSTRUCTION;
  if (number == interrupt_signal()) return SOFT_FAULT_TIMEOUT;
  return is_stack(context, address, machine) ? SOFT_FAULT_STACK : SOFT_FAULT_ADDRESS;
}

// Makes the interrupted thread return from the kernel as soon as the handler has ended.
void divert(ucontext_t &machine, const Context &context) {
#if defined(__x86_64__)
  machine.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(soft_escape);
  machine.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(context.escape.stack);
#else
  machine.uc_mcontext.pc = reinterpret_cast<uint64_t>(soft_escape);
  machine.uc_mcontext.sp = reinterpret_cast<uint64_t>(context.escape.stack);
#endif
}

void pass_on(int number, siginfo_t *info, void *machine) {
  for (int i = 0; i < WATCHED; i++) {
    if (number_of(i) != number) continue;
    const struct sigaction &old = previous[i];
    if (old.sa_flags & SA_SIGINFO) return old.sa_sigaction(number, info, machine);
    if (old.sa_handler == SIG_IGN && info->si_code <= 0) return;
    if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return old.sa_handler(number);
    if (number == interrupt_signal()) return;
    // The instruction runs again and ends the process as it would have without us.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(number, &standard, nullptr);
    if (info->si_code <= 0) raise(number);
  }
}

void handle(int number, siginfo_t *info, void *machine) {
  Context *context = current_context;
  bool ours = context && context->in_kernel && context->escape.stack;
  if (number == interrupt_signal()) {
    if (!ours || context->in_kernel == IN_LIBRARY || __atomic_load_n(&context->run->stop, __ATOMIC_RELAXED) == SOFT_FAULT_NONE)
      return context ? void() : pass_on(number, info, machine);
  } else if (!ours || info->si_code <= 0) {
    return pass_on(number, info, machine);
  }
  uint64_t address = number == SIGSEGV || number == SIGBUS ? reinterpret_cast<uint64_t>(info->si_addr) : 0;
  context->fault = kind_of(number, *context, address, *static_cast<ucontext_t *>(machine));
  context->fault_address = address;
  bool known = context->engine == SOFT_FIBERS || context->one_lane;
  context->fault_lane = known ? reinterpret_cast<Lane *>(current_lane) : nullptr;
  context->in_kernel = 0;
  divert(*static_cast<ucontext_t *>(machine), *context);
}

}  // namespace

int interrupt_signal() { return SIGRTMIN + 7; }

void watch_signals() {
  Locked hold(signal_lock);
  if (watchers++) return;
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  // An interruption inside a fault's handler would leave the fault's signal blocked for ever.
  sigaddset(&action.sa_mask, interrupt_signal());
  for (int i = 0; i < FAULTS; i++) {
    struct sigaction old;
    sigaction(number_of(i), &action, &old);
    // Somebody who had covered our handler may have put it back.
    if (!((old.sa_flags & SA_SIGINFO) && old.sa_sigaction == handle)) previous[i] = old;
  }
  // An interruption may arrive late, so its handler stays.
  if (!interruptible) sigaction(interrupt_signal(), &action, &previous[FAULTS]);
  interruptible = true;
}

// A handler that somebody put over ours in the meantime stays.
void unwatch_signals() {
  Locked hold(signal_lock);
  if (--watchers) return;
  for (int i = 0; i < FAULTS; i++) {
    struct sigaction now;
    sigaction(number_of(i), nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle) sigaction(number_of(i), &previous[i], nullptr);
  }
}

void enter_signal_stack(Context &context) {
  stack_t none, ours = {};
  context.own_signal_stack = !sigaltstack(nullptr, &none) && (none.ss_flags & SS_DISABLE);
  if (!context.own_signal_stack) return;
  ours.ss_sp = context.signal_stack;
  ours.ss_size = context.signal_stack_bytes;
  sigaltstack(&ours, nullptr);
}

void leave_signal_stack(Context &context) {
  if (!context.own_signal_stack) return;
  stack_t none = {};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

void register_context(Context &context) {
  Locked hold(registry_lock);
  context.next_registered = registry;
  registry = &context;
}

// Sent again and again by the watchdog, since a thread may be between two groups when it arrives.
void interrupt(Run &run) {
  Locked hold(registry_lock);
  for (Context *context = registry; context; context = context->next_registered)
    if (context->in_kernel && context->run == &run) syscall(SYS_tgkill, getpid(), context->owner, interrupt_signal());
}

void reset_signals_after_fork() {
  registry_lock.word = 0;
  signal_lock.word = 0;
  if (!watchers) return;
  watchers = 1;
  unwatch_signals();
}

}  // namespace soft
