// Signals raised by kernels: the group is abandoned and the fault recorded; all others go to whom they are meant for.
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "runtime.h"

namespace soft {
namespace {

Lock registry_lock;
Context *registry;

uint64_t stack_pointer(const ucontext_t &machine) {
#if defined(__x86_64__)
  return machine.uc_mcontext.gregs[REG_RSP];
#else
  return machine.uc_mcontext.sp;
#endif
}

// Whether an access was a read or a write, as the processor says it.
uint32_t access_of(const siginfo_t &info, const ucontext_t &machine) {
  if (info.si_code != SEGV_MAPERR && info.si_code != SEGV_ACCERR) return SOFT_ACCESS_UNKNOWN;
#if defined(__x86_64__)
  return machine.uc_mcontext.gregs[REG_ERR] & 2 ? SOFT_ACCESS_WRITE : SOFT_ACCESS_READ;
#else
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
#endif
}

// What faults close to the stack pointer is the stack itself.
bool is_stack(const Context &context, uint64_t address, uint64_t stack) {
  enum : uint64_t { NEAR = 64 << 10 };
  return is_stack_end(context, address, stack) || address - (stack - NEAR) < NEAR;
}

uint32_t kind_of(int number, const Context &context, uint64_t address, const ucontext_t &machine) {
  if (number == SIGFPE) return SOFT_FAULT_DIVISION;
  if (number == SIGILL || number == SIGTRAP) return SOFT_FAULT_INSTRUCTION;
  if (number == interrupt_signal()) return SOFT_FAULT_TIMEOUT;
  return is_stack(context, address, stack_pointer(machine)) ? SOFT_FAULT_STACK : SOFT_FAULT_ADDRESS;
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

}  // namespace

void handle_signal(int number, siginfo_t *info, void *machine) {
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
  context->fault_access = address ? access_of(*info, *static_cast<ucontext_t *>(machine)) : SOFT_ACCESS_UNKNOWN;
  bool known = context->engine == SOFT_FIBERS || context->one_lane;
  context->fault_lane = known ? reinterpret_cast<Lane *>(current_lane) : nullptr;
  context->in_kernel = 0;
  divert(*static_cast<ucontext_t *>(machine), *context);
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

// Of all threads only this one is left.
void reset_faults_after_fork() {
  registry_lock.word = 0;
  for (Context *context = registry; context; context = context->next_registered) context->in_kernel = 0;
  if (current_context) current_context->owner = own_thread();
}

}  // namespace soft
