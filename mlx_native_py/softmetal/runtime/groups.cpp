// One threadgroup on the calling thread, whatever its engine, with a way out for faults.
#include "runtime.h"

namespace soft {
namespace {

void place(soft_group &group, const soft_launch &launch, uint64_t number) {
  group.launch = &launch;
  uint64_t rest = number;
  group.count = 1;
  for (int i = 0; i < 3; i++) {
    // Most grids are lines, and a division costs as much as a small group.
    uint64_t beyond = rest < launch.groups[i] ? 0 : rest / launch.groups[i];
    uint32_t position = rest - beyond * launch.groups[i];
    rest = beyond;
    uint64_t left = launch.threads[i] - uint64_t(position) * launch.group[i];
    group.position[i] = position;
    group.size[i] = left < launch.group[i] ? left : launch.group[i];
    group.count *= group.size[i];
  }
}

// Positions stay as they are from group to group as long as the shape does.
void place_lanes(Context &context) {
  const uint32_t *size = context.group.size;
  if (context.shape[0] == size[0] && context.shape[1] == size[1] && context.shape[2] == size[2]) return;
  Lane *lane = context.lanes;
  for (uint32_t z = 0; z < size[2]; z++)
    for (uint32_t y = 0; y < size[1]; y++)
      for (uint32_t x = 0; x < size[0]; x++, lane++) {
        lane->thread.position[0] = x;
        lane->thread.position[1] = y;
        lane->thread.position[2] = z;
      }
  for (int i = 0; i < 3; i++) context.shape[i] = size[i];
}

// A stray write may have changed what is known of the running thread.
const Lane *faulty_lane(const Context &context) {
  const Lane *lane = context.fault_lane;
  return lane >= context.lanes && lane < context.lanes + MAX_THREADS ? lane : nullptr;
}

// The first fault of a run is the one that is told.
void record(Context &context, Run &run) {
  soft_fault &fault = *run.fault;
  uint32_t none = SOFT_FAULT_NONE;
  bool first = __atomic_compare_exchange_n(&fault.kind, &none, context.fault, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST);
  __atomic_store_n(&run.stop, context.fault, __ATOMIC_SEQ_CST);
  if (!first) return;
  fault.launch = run.index;
  fault.address = context.fault_address;
  fault.access = context.fault_access;
  const Lane *lane = faulty_lane(context);
  fault.thread_known = lane != nullptr;
  for (int i = 0; i < 3; i++) {
    fault.group[i] = context.group.position[i];
    fault.thread[i] = lane ? lane->thread.position[i] : 0;
  }
}

// Chooses the entry; positions of threads are needed where one thread can be told from another.
soft_lane *begin(Context &context, const soft_launch &launch) {
  const uint32_t *size = context.group.size;
  bool edge = launch.edge_entry &&
              (size[0] != launch.group[0] || size[1] != launch.group[1] || size[2] != launch.group[2]);
  context.engine = edge ? launch.edge_engine : launch.engine;
  context.entry = edge ? launch.edge_entry : launch.entry;
  if (context.engine == SOFT_FLAT) return &context.flat.thread;
  if (context.engine == SOFT_FIBERS) place_lanes(context);
  uint32_t threads = context.group.count;
  return begin_fibers(context, context.engine == SOFT_LANES ? simdgroups_of(threads) : threads);
}

// Whole groups of a flat kernel follow each other without leaving it: most are so small that this would be half the work.
bool goes_on(const Context &context, const soft_launch &launch) {
  const uint32_t *size = context.group.size, *whole = launch.group;
  return context.engine == SOFT_FLAT && !launch.group_step && size[0] == whole[0] &&
         size[1] == whole[1] && size[2] == whole[2];
}

}  // namespace

// Whether some groups run on fibers only because the grid's edge cuts them.
bool has_edge_fibers(const soft_launch &launch) {
  if (!launch.edge_entry || launch.edge_engine != SOFT_FIBERS) return false;
  for (int i = 0; i < 3; i++)
    if (launch.threads[i] % launch.group[i]) return true;
  return false;
}

bool has_fibers(const soft_launch &launch) { return launch.engine != SOFT_FLAT || has_edge_fibers(launch); }

uint64_t run_groups(Context &context, Run &run, uint64_t first, uint64_t last) {
  const soft_launch &launch = *run.launch;
  uint64_t number = first;
  if (launch.group_step) number = (number * launch.group_step + launch.group_start) % run.total;
  place(context.group, launch, number);
  context.group.tg = threadgroup_memory(context, launch.tg_bytes);
  context.barriers = 0;
  context.run = &run;
  context.escape.stack = nullptr;
  soft_lane *lane = begin(context, launch);
  current_lane = lane;
  uint64_t following = goes_on(context, launch) ? last - first - 1 : 0;
  context.following = following;
  if (launch.check) checker->group_begin(context.group);
  context.in_kernel = IN_KERNEL;
  soft_entry entry = context.engine == SOFT_FLAT ? enter_flat : enter_fibers;
  soft_call_escapable(entry, &context.group, lane, &context.escape.stack);
  context.in_kernel = 0;
  if (launch.check) checker->group_end(context.group);
  if (context.fault == SOFT_FAULT_NONE) return following - context.following + 1;
  record(context, run);
  context.fault = SOFT_FAULT_NONE;
  return 0;
}

}  // namespace soft
