// Memory between pages that fault, and the stacks that kernels run on: laid out anew for every launch.
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t {
  WIDE_GUARD = 4ull << 30,            // an index gone astray seldom goes further
  NARROW_GUARD = 64 << 10,            // where addresses are few; larger than most frames
  HUGE_PAGE = 2 << 20,
  FLAT_STACK = 256 << 10,             // at least, so that most kernels find it ready
  STACK_MARGIN = 14 << 10,            // for the runtime and the C library below the kernel's own frames
  STACK_SKEW = 320,                   // strides that are powers of two would share cache sets
  LARGE_STACK = 128 << 10,            // from here on each stack ends in pages that fault
  LANE_GUARD = 16 << 10,
  KEPT_STACKS = 32 << 20,             // more than this is given back after a run
  LEAST_LIMIT = 256 << 20,
};
const uint64_t MARK = 0x5f7374616b5f656eull;
const uint64_t PAGE = sysconf(_SC_PAGESIZE);

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Whether the process may have as many addresses as it likes.
bool addresses_are_many() {
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

// What the stacks of one worker may take: all workers together stay below a quarter of the machine's memory.
uint64_t stacks_limit() {
  static const uint64_t memory = uint64_t(sysconf(_SC_PHYS_PAGES)) * PAGE;
  uint64_t share = memory / 4 / core_count();
  return share < LEAST_LIMIT ? uint64_t(LEAST_LIMIT) : share;
}

uint64_t stride_for(const soft_launch &launch) {
  uint64_t wanted = uint64_t(launch.stack_bytes) + STACK_MARGIN;
  uint64_t guard = wanted > LARGE_STACK - PAGE ? LANE_GUARD + PAGE : 0;
  return round_up(wanted + guard, PAGE) + STACK_SKEW;
}

uint32_t fibers_of(const soft_launch &launch) {
  uint32_t threads = launch.group[0] * launch.group[1] * launch.group[2];
  return launch.engine == SOFT_FIBERS || has_edge_fibers(launch) ? threads : simdgroups_of(threads);
}

// The upper end of a fiber's stack, in one cache line: what it begins with, its lane, and marks that it must not reach.
// Whoever overflows the stack above overwrites them as well.
struct Top {
  void *saved[SAVED_BYTES / sizeof(void *)];
  Lane *lane;
  uint64_t marks[3];
};

Top &top_of(const Context &context, uint32_t index) {
  return reinterpret_cast<Top *>(context.stacks.start + context.stride * (index + 1))[-1];
}

// Kernels that call themselves have large stacks, and nobody knows how large is enough.
void guard_large_stacks(Context &context, uint32_t count) {
  if (context.stride <= LARGE_STACK) return;
  for (; context.guarded < count; context.guarded++) {
    uint64_t bottom = reinterpret_cast<uint64_t>(context.stacks.start + context.stride * context.guarded);
    mprotect(reinterpret_cast<void *>(round_up(bottom, PAGE)), LANE_GUARD, PROT_NONE);
  }
}

bool fit_stacks(Context &context, uint64_t stride, uint32_t count) {
  bool fits = context.stacks.bytes >= stride * count;
  if (!fits || (context.guarded && context.stride != stride)) {
    unmap_guarded(context.stacks);
    context.guarded = 0;
    if (!map_guarded(context.stacks, round_up(stride * count, HUGE_PAGE))) return false;
    if (stride <= LARGE_STACK) want_huge_pages(context.stacks.start, context.stacks.bytes);
  }
  context.stride = stride;
  return true;
}

void lay_out_simdgroup(Context &context, uint32_t index) {
  Simdgroup &simdgroup = context.simdgroups[index];
  simdgroup.context = &context;
  simdgroup.index = index;
  simdgroup.lanes = context.lanes + index * SOFT_WIDTH;
}

inline void lay_out_lane(Context &context, uint32_t index) {
  Lane &lane = context.lanes[index];
  lane.thread.group = &context.group;
  lane.thread.index = index;
  lane.thread.inbox = context.simdgroups[index / SOFT_WIDTH].inbox;
  lane.thread.loops = nullptr;
  lane.thread.path = 0;
}

// A new fiber looks like one that waits: the address where it starts, then its lane.
inline void lay_out_stack(Context &context, uint32_t index) {
  Top &top = top_of(context, index);
  for (void *&saved : top.saved) saved = nullptr;
  top.saved[SAVED_RETURN] = reinterpret_cast<void *>(soft_fiber_start);
  top.lane = &context.lanes[index];
  top.marks[1] = top.marks[2] = MARK;
  top.lane->stack = top.saved;
}

void tell_checker(const Context &context) {
  checker->private_memory(context.stacks.start, context.stacks.bytes);
  checker->private_memory(&context, sizeof(Context));
  checker->private_memory(context.simdgroups, sizeof(Simdgroup) * MAX_SIMDGROUPS + sizeof(Lane) * MAX_THREADS);
}

}  // namespace

bool map_guarded(Guarded &memory, uint64_t bytes) {
  for (uint64_t guard = addresses_are_many() ? WIDE_GUARD : NARROW_GUARD; guard >= NARROW_GUARD; guard /= 64) {
    uint64_t wanted = round_up(bytes, PAGE), whole = wanted + 2 * guard + HUGE_PAGE;
    void *mapping = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) continue;
    uint64_t start = round_up(reinterpret_cast<uint64_t>(mapping) + guard, HUGE_PAGE);
    if (mprotect(reinterpret_cast<void *>(start), wanted, PROT_READ | PROT_WRITE)) {
      munmap(mapping, whole);
      return false;
    }
    memory = {reinterpret_cast<char *>(start), wanted, static_cast<char *>(mapping), whole};
    return true;
  }
  return false;
}

void unmap_guarded(Guarded &memory) {
  if (memory.mapping) munmap(memory.mapping, memory.mapped);
  memory = {};
}

// Whatever an earlier kernel did to lanes and stacks, this one finds them as they should be.
uint64_t prepare(Context &context, const soft_launch &launch) {
  for (int i = 0; i < 3; i++) context.shape[i] = 0;
  context.laid_out = 0;
  context.flat.thread.group = &context.group;
  context.way_out.thread.inbox = context.simdgroups[0].inbox;
  uint64_t flat = round_up(uint64_t(launch.stack_bytes) + STACK_MARGIN, PAGE);
  if (flat > stacks_limit()) return flat;
  if (context.flat_stack.bytes < flat) {
    unmap_guarded(context.flat_stack);
    if (!map_guarded(context.flat_stack, flat < FLAT_STACK ? uint64_t(FLAT_STACK) : flat)) return flat;
  }
  if (!has_fibers(launch)) return 0;
  uint64_t stride = stride_for(launch);
  uint32_t count = fibers_of(launch);
  if (stride * count > stacks_limit() || !fit_stacks(context, stride, count)) return stride * count;
  guard_large_stacks(context, count);
  uint32_t simdgroups = launch.check ? uint32_t(MAX_SIMDGROUPS) : simdgroups_of(count);
  for (uint32_t i = 0; i < simdgroups; i++) lay_out_simdgroup(context, i);
  for (uint32_t i = 0; i < MAX_THREADS && launch.check; i++) lay_out_lane(context, i);
  if (launch.check) tell_checker(context);
  context.stack_count = count;
  return 0;
}

// One simdgroup after the other, just before it runs, while its memory is at hand.
void lay_out(Context &context, uint32_t simdgroup) {
  for (; context.laid_out <= simdgroup; context.laid_out++)
    for (uint32_t k = 0, i = context.laid_out * SOFT_WIDTH; k < SOFT_WIDTH && i < context.stack_count; k++, i++)
      lay_out_lane(context, i), lay_out_stack(context, i);
}

bool stacks_intact(const Context &context) {
  for (uint32_t i = 0; i < context.laid_out * SOFT_WIDTH && i < context.stack_count; i++) {
    const Top &top = top_of(context, i);
    if (top.marks[1] != MARK || top.marks[2] != MARK) return false;
  }
  return true;
}

void give_back_stacks(Context &context) {
  if (context.flat_stack.bytes > KEPT_STACKS) unmap_guarded(context.flat_stack);
  if (context.stacks.bytes <= KEPT_STACKS) return;
  unmap_guarded(context.stacks);
  context.guarded = 0;
}

// Close below a stack, in the pages that end a large one, or where the stack itself has left its memory.
bool is_stack_end(const Context &context, uint64_t address, uint64_t stack_pointer) {
  const Guarded &stack = context.engine == SOFT_FLAT ? context.flat_stack : context.stacks;
  uint64_t start = reinterpret_cast<uint64_t>(stack.start);
  if (stack_pointer < start && stack_pointer >= reinterpret_cast<uint64_t>(stack.mapping)) return true;
  if (address - start < stack.bytes && context.engine != SOFT_FLAT && context.guarded)
    return (address - start) % context.stride < LANE_GUARD + PAGE;
  return address < start && address >= start - NARROW_GUARD;
}

}  // namespace soft
