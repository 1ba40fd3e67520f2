// How a fiber waits: it goes straight into the kernel code of the next one. Kernels call these with SOFT_WAITING's
// convention, so a fiber is its stack pointer and frame pointer.
#include "runtime.h"

#if defined(__x86_64__)

#define LANE_OFFSETS                                                                                             \
  [index] "i"(offsetof(soft::Lane, thread.index)), [inbox] "i"(offsetof(soft::Lane, thread.inbox)),              \
      [stack] "i"(offsetof(soft::Lane, stack)), [path] "i"(offsetof(soft::Lane, thread.path)),                   \
      [flags] "i"(offsetof(soft::Lane, flags)), [far] "i"(offsetof(soft::Lane, stack) + 2 * sizeof(soft::Lane)), \
      [runnable] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, runnable))),                                  \
      [live] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, live))),                                          \
      [barrier] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, barrier))),                                    \
      [active] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, active))),                                      \
      [places] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, places))),                                      \
      [combines] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, combines))),                                  \
      [functions] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, functions))),                                \
      [lanes] "i"(offset_in_simdgroup(offsetof(soft::Simdgroup, lanes)))

static constexpr long offset_in_simdgroup(long member) { return member - long(offsetof(soft::Simdgroup, inbox)); }

// The lane's number in ecx, its simdgroup (at the inbox) in rdx.
#define SELF                          \
  "movl %c[index](%%r12), %%ecx\n\t" \
  "movq %c[inbox](%%r12), %%rdx\n\t" \
  "andl $31, %%ecx\n\t"

// No longer runnable. The next runnable lane in ring order goes to rsi; if there is none, the engine finds one.
// Lanes mostly stand at different calls than those they resume at, so a jump is predicted better than a return.
#define GIVE_WAY                                          \
  "movl %c[runnable](%%rdx), %%eax\n\t"                   \
  "btrl %%ecx, %%eax\n\t"                                 \
  "movl %%eax, %c[runnable](%%rdx)\n\t"                   \
  "testl %%eax, %%eax\n\t"                                \
  "jz 2f\n\t"                                             \
  "movl $-1, %%esi\n\t"                                   \
  "shll %%cl, %%esi\n\t"                                  \
  "andl %%eax, %%esi\n\t"                                 \
  "cmovzl %%eax, %%esi\n\t"                               \
  "bsfl %%esi, %%esi\n\t"                                 \
  "shlq $6, %%rsi\n\t"                                    \
  "addq %c[lanes](%%rdx), %%rsi\n"                        \
  "1:\n\t"                                                \
  "movq %c[far](%%rsi), %%r9\n\t"                         \
  "pushq %%rbp\n\t"                                       \
  "movq %%rsp, %c[stack](%%r12)\n\t"                      \
  "movq _ZN4soft12current_laneE@gottpoff(%%rip), %%r8\n\t" \
  "movq %%rsi, %%fs:(%%r8)\n\t"                           \
  "movq %c[stack](%%rsi), %%rsp\n\t"                      \
  "movl %c[active](%%rdx), %%eax\n\t"                     \
  "prefetcht0 (%%r9)\n\t"                                 \
  "popq %%rbp\n\t"                                        \
  "popq %%rcx\n\t"                                        \
  "jmpq *%%rcx\n"                                         \
  "2:\n\t"                                                \
  "pushq %%rbp\n\t"                                       \
  "movq %%rsp, %c[stack](%%r12)\n\t"                      \
  "movq %%r12, %%rdi\n\t"                                 \
  "call soft_find_next\n\t"                               \
  "popq %%rbp\n\t"                                        \
  "movq %%rax, %%rsi\n\t"                                 \
  "movq %c[inbox](%%rsi), %%rdx\n\t"                      \
  "cmpq %%rsi, %%r12\n\t"                                 \
  "jne 1b\n\t"                                            \
  "movl %c[active](%%rdx), %%eax\n\t"                     \
  "ret"

// soft_meet(lane, combine, flags and position, function): answers which lanes of the simdgroup have met. The return
// address and the position tell which call in the kernel this is; the compiler may merge calls of two branches.
SOFT_EXPORT __attribute__((naked)) void soft_meet() {
  asm volatile(SELF
               "movq (%%rsp), %%rax\n\t"
               "xorq %c[path](%%r12), %%rax\n\t"
               "xorq %%r14, %%rax\n\t"
               "movq %%r13, %c[combines](%%rdx,%%rcx,8)\n\t"
               "movq %%r14, %c[flags](%%r12)\n\t"
               "movq %%r15, %c[functions](%%rdx,%%rcx,8)\n\t"
               "movq %%rax, %c[places](%%rdx,%%rcx,8)\n\t" GIVE_WAY ::LANE_OFFSETS);
}

// soft_barrier(lane, flags)
SOFT_EXPORT __attribute__((naked)) void soft_barrier() {
  asm volatile(SELF
               "movl %%r13d, %c[flags](%%r12)\n\t"
               "movl %c[barrier](%%rdx), %%eax\n\t"
               "btsl %%ecx, %%eax\n\t"
               "movl %%eax, %c[barrier](%%rdx)\n\t" GIVE_WAY ::LANE_OFFSETS);
}

// soft_end(lane): its thread has ended; comes back in the next group.
extern "C" __attribute__((naked)) void soft_end_lane() asm("soft_end");
extern "C" __attribute__((naked)) void soft_end_lane() {
  asm volatile(SELF
               "movl %c[live](%%rdx), %%eax\n\t"
               "btrl %%ecx, %%eax\n\t"
               "movl %%eax, %c[live](%%rdx)\n\t" GIVE_WAY ::LANE_OFFSETS);
}

extern "C" __attribute__((naked)) void soft_enter(soft::Lane *) {
  asm volatile(
      "movq %c[stack](%%rdi), %%rsp\n\t"
      "popq %%rbp\n\t"
      "popq %%rcx\n\t"
      "jmpq *%%rcx" ::LANE_OFFSETS);
}

#else

extern "C" SOFT_HIDDEN void soft_switch(void **save, void *load);

static inline soft::Lane *lane_of(soft_lane *thread) { return reinterpret_cast<soft::Lane *>(thread); }

static inline void give_way(soft::Lane *lane) {
  soft::Simdgroup *simdgroup = soft::simdgroup_of(lane);
  uint32_t bit = soft::bit_of(lane);
  uint32_t runnable = simdgroup->runnable &= ~bit;
  uint32_t above = runnable & -bit;
  soft::Lane *next = runnable ? simdgroup->lanes + __builtin_ctz(above ? above : runnable) : soft_find_next(lane);
  if (next == lane) return;
  soft::current_lane = &next->thread;
  soft_switch(&lane->stack, next->stack);
}

// The return address and the position tell which call in the kernel this is.
SOFT_EXPORT SOFT_WAITING soft_u32 soft_meet(soft_lane *thread, soft_combine combine, soft_u64 flags,
                                            soft_u64 function) {
  soft::Lane *lane = lane_of(thread);
  soft::Simdgroup *simdgroup = soft::simdgroup_of(lane);
  uint64_t call = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  simdgroup->places[thread->index % SOFT_WIDTH] = call ^ thread->path ^ flags;
  simdgroup->combines[thread->index % SOFT_WIDTH] = combine;
  simdgroup->functions[thread->index % SOFT_WIDTH] = function;
  lane->position = flags >> 32;
  lane->flags = flags;
  give_way(lane);
  return simdgroup->active;
}

SOFT_EXPORT SOFT_WAITING void soft_barrier(soft_lane *thread, soft_u32 flags) {
  soft::Lane *lane = lane_of(thread);
  lane->flags = flags;
  soft::simdgroup_of(lane)->barrier |= soft::bit_of(lane);
  give_way(lane);
}

SOFT_WAITING void soft_end(soft_lane *thread) {
  soft::Lane *lane = lane_of(thread);
  soft::simdgroup_of(lane)->live &= ~soft::bit_of(lane);
  give_way(lane);
}

void soft_enter(soft::Lane *first) {
  void *nowhere;
  soft_switch(&nowhere, first->stack);
}

#endif
