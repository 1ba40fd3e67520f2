// Signals raised by kernels: the group is abandoned and the fault recorded; all others go to whom they are meant for.
#include "runtime.h"

namespace soft {
namespace {

Lock registry_lock;
Context *registry;

// What faults close to the stack pointer is the stack itself.
bool is_stack(const Context &context, uint64_t address, uint64_t stack) {
  enum : uint64_t { NEAR = 64 << 10 };
  return is_stack_end(context, address, stack) || address - (stack - NEAR) < NEAR;
}

// Where processors do not stop at a division by zero, kernels are compiled with a check that ends in this instruction.
bool is_division(int number, const ucontext_t &machine) {
#if defined(__aarch64__)
  enum : uint32_t { DIVISION_CHECK = 0xd4200000 | 0x5503 << 5 };  // brk, with LLVM's number of that check
  return number == SIGTRAP && *reinterpret_cast<const uint32_t *>(program_counter(machine)) == DIVISION_CHECK;
#else
  return number == SIGFPE;
#endif
}

uint32_t kind_of(int number, const Context &context, uint64_t address, const ucontext_t &machine) {
  if (is_division(number, machine)) return SOFT_FAULT_DIVISION;
  if (number == SIGILL || number == SIGTRAP) return SOFT_FAULT_INSTRUCTION;
  if (number == interrupt_signal()) return SOFT_FAULT_TIMEOUT;
  return is_stack(context, address, stack_pointer(machine)) ? SOFT_FAULT_STACK : SOFT_FAULT_ADDRESS;
}

}  // namespace

void handle_signal(int number, siginfo_t *info, void *machine) {
  Context *context = current_context;
  bool ours = context && context->in_kernel && context->escape.stack;
  if (number == interrupt_signal()) {
    if (!ours || context->in_kernel == IN_LIBRARY || __atomic_load_n(&context->run->stop, __ATOMIC_RELAXED) == SOFT_FAULT_NONE)
      return context ? void() : pass_on(number, info, machine);
  } else if (!ours || was_sent(*info)) {
    return pass_on(number, info, machine);
  }
  uint64_t address = number == SIGSEGV || number == SIGBUS ? reinterpret_cast<uint64_t>(info->si_addr) : 0;
  context->fault = kind_of(number, *context, address, *static_cast<ucontext_t *>(machine));
  context->fault_address = address;
  context->fault_access = address ? access_of(*info, *static_cast<ucontext_t *>(machine)) : SOFT_ACCESS_UNKNOWN;
  bool known = context->engine == SOFT_FIBERS;
  context->fault_lane = known ? reinterpret_cast<Lane *>(current_lane) : nullptr;
  context->in_kernel = 0;
  go_on_at(*static_cast<ucontext_t *>(machine), soft_escape, context->escape.stack);  // returns from the kernel
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
    if (context->in_kernel && context->run == &run) signal_thread(context->owner, interrupt_signal());
}

// Of all threads only this one is left.
void reset_faults_after_fork() {
  registry_lock.word = 0;
  for (Context *context = registry; context; context = context->next_registered) context->in_kernel = 0;
  if (current_context) current_context->owner = own_thread();
}

}  // namespace soft
