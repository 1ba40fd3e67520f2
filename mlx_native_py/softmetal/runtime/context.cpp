// Contexts: the stacks, lanes and memory with which one OS thread runs threadgroups.
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t {
  PAGE = 4096,
  GUARD = 64 << 10,                   // below the stacks; larger than most frames
  HUGE_PAGE = 2 << 20,
  THREADGROUP_BYTES = 64 << 10,
  SIGNAL_STACK_BYTES = 64 << 10,
  STACK_MARGIN = 14 << 10,            // for the runtime and the C library below the kernel's own frames
  STACK_SKEW = 320,                   // strides that are powers of two would share cache sets
  LARGE_STACK = 128 << 10,            // from here on each stack ends in pages that fault
  LANE_GUARD = 16 << 10,
};
const uint64_t CANARY = 0x5f7374616b5f656eull;

Lock free_lock;
Context *free_contexts;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

char *map(uint64_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char *>(memory);
}

Context *new_context() {
  uint64_t lanes = sizeof(Lane) * (MAX_THREADS + 2), simdgroups = sizeof(Simdgroup) * MAX_SIMDGROUPS;
  uint64_t self = round_up(sizeof(Context), PAGE);
  char *memory = map(self + round_up(lanes + simdgroups, PAGE) + THREADGROUP_BYTES + SIGNAL_STACK_BYTES);
  if (!memory) return nullptr;
  Context *context = reinterpret_cast<Context *>(memory);
  context->simdgroups = reinterpret_cast<Simdgroup *>(memory + self);
  context->lanes = reinterpret_cast<Lane *>(memory + self + simdgroups);
  context->threadgroup_memory = memory + self + round_up(lanes + simdgroups, PAGE);
  context->signal_stack = context->threadgroup_memory + THREADGROUP_BYTES;
  for (uint32_t i = 0; i < MAX_SIMDGROUPS; i++) {
    Simdgroup &simdgroup = context->simdgroups[i];
    simdgroup.context = context;
    simdgroup.index = i;
    simdgroup.lanes = context->lanes + i * SOFT_WIDTH;
  }
  for (uint32_t i = 0; i < MAX_THREADS; i++) {
    Lane &lane = context->lanes[i];
    Simdgroup &simdgroup = context->simdgroups[i / SOFT_WIDTH];
    lane.thread.group = &context->group;
    lane.thread.index = i;
    lane.thread.inbox = simdgroup.inbox;
  }
  context->signal_stack_bytes = SIGNAL_STACK_BYTES;
  context->flat.thread.group = &context->group;
  context->way_out.thread.inbox = context->simdgroups[0].inbox;
  register_context(*context);
  return context;
}

// One mapping for all stacks, on huge pages, with a guard below.
bool map_stacks(Context &context, uint64_t bytes) {
  if (bytes <= context.stacks_bytes) return true;
  if (context.stacks) munmap(context.stacks - GUARD, context.stacks_bytes + GUARD);
  context.stacks = nullptr;
  context.stacks_bytes = 0;
  context.guarded = false;
  uint64_t wanted = round_up(bytes, HUGE_PAGE);
  char *memory = map(wanted + 2 * HUGE_PAGE);
  if (!memory) return false;
  char *stacks = reinterpret_cast<char *>(round_up(reinterpret_cast<uint64_t>(memory) + GUARD, HUGE_PAGE));
  munmap(memory, stacks - GUARD - memory);
  munmap(stacks + wanted, memory + wanted + 2 * HUGE_PAGE - (stacks + wanted));
  mprotect(stacks - GUARD, GUARD, PROT_NONE);
  madvise(stacks, wanted, MADV_HUGEPAGE);
  context.stacks = stacks;
  context.stacks_bytes = wanted;
  return true;
}

// Kernels that call themselves have large stacks, and nobody knows how large is enough.
void guard_lane(Context &context, const char *bottom) {
  uint64_t first = round_up(reinterpret_cast<uint64_t>(bottom) + 64, PAGE);
  mprotect(reinterpret_cast<void *>(first), LANE_GUARD, PROT_NONE);
  context.guarded = true;
}

void open_guards(Context &context) {
  if (context.guarded) mprotect(context.stacks, context.stacks_bytes, PROT_READ | PROT_WRITE);
  context.guarded = false;
}

// A new fiber looks like one that waits: the address where it starts, then its lane.
void lay_out(Context &context, uint32_t index) {
  Lane &lane = context.lanes[index];
  char *bottom = context.stacks + context.stride * index;
  char *top = bottom + context.stride - 64;
  for (int i = 0; i < 4; i++) reinterpret_cast<uint64_t *>(bottom)[i] = CANARY;
  if (context.stride > LARGE_STACK) guard_lane(context, bottom);
  void **frame = reinterpret_cast<void **>(top - SAVED_BYTES);
  memset(frame, 0, SAVED_BYTES);
  frame[SAVED_RETURN] = reinterpret_cast<void *>(soft_fiber_start);
  *reinterpret_cast<Lane **>(top) = &lane;
  lane.stack = frame;
  lane.thread.loops = nullptr;
  lane.thread.path = 0;
}

}  // namespace

Context *take_context() {
  Context *context = nullptr;
  {
    Locked hold(free_lock);
    context = free_contexts;
    if (context) free_contexts = context->next_free;
  }
  if (!context) context = new_context();
  if (!context) return nullptr;
  context->owner = syscall(SYS_gettid);
  context->in_kernel = 0;
  context->fault = SOFT_FAULT_NONE;
  return context;
}

void return_context(Context *context) {
  Locked hold(free_lock);
  context->next_free = free_contexts;
  free_contexts = context;
}

void forget_contexts_in_use() { free_lock.word = 0; }

static uint32_t fibers_of(const soft_launch &launch) {
  uint32_t threads = launch.group[0] * launch.group[1] * launch.group[2];
  return launch.engine == SOFT_FIBERS || has_edge_fibers(launch) ? threads : simdgroups_of(threads);
}

bool prepare_fibers(Context &context, const soft_launch &launch) {
  uint64_t wanted = launch.stack_bytes + STACK_MARGIN;
  uint64_t guard = wanted > LARGE_STACK - PAGE ? LANE_GUARD + PAGE : 0;
  uint64_t stride = round_up(wanted + guard, PAGE) + STACK_SKEW;
  uint32_t count = fibers_of(launch);
  if (count > MAX_THREADS) return false;
  bool moved = context.stacks_bytes < stride * count;
  if (!map_stacks(context, stride * count)) return false;
  if (moved || context.stride != stride) {
    context.lanes_ready = 0;
    open_guards(context);
  }
  context.stride = stride;
  for (; context.lanes_ready < count; context.lanes_ready++) lay_out(context, context.lanes_ready);
  if (launch.check) check_private_memory(context.stacks, context.stacks_bytes);
  if (launch.check) check_private_memory(&context, sizeof(Context));
  uint64_t shared = sizeof(Simdgroup) * MAX_SIMDGROUPS + sizeof(Lane) * MAX_THREADS;
  if (launch.check) check_private_memory(context.simdgroups, shared);
  return true;
}

bool stacks_intact(const Context &context) {
  for (uint32_t i = 0; i < context.lanes_ready; i++) {
    const uint64_t *bottom = reinterpret_cast<const uint64_t *>(context.stacks + context.stride * i);
    if (bottom[0] != CANARY || bottom[3] != CANARY) return false;
  }
  return true;
}

bool is_stack_guard(const Context &context, uint64_t address) {
  uint64_t start = reinterpret_cast<uint64_t>(context.stacks);
  return start && address < start && address >= start - GUARD;
}

}  // namespace soft
