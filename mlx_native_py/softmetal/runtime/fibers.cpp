// The fiber engine: each thread of a threadgroup is a fiber; they take turns until all have met or ended.
#include "runtime.h"

namespace soft {

namespace {

inline Lane *lane_of(soft_lane *thread) { return reinterpret_cast<Lane *>(thread); }

// Which lane goes first. The ring ends at the lowest one, so that goes last: kernels made for GPUs, where lanes run in
// step, let it overwrite what the others still read. A checked run calls that a race, and reports the lowest first.
inline uint32_t first_of(const Context &context, uint32_t runnable) {
  uint32_t others = context.group.launch->check ? 0 : runnable & (runnable - 1);
  return __builtin_ctz(others ? others : runnable);
}

inline Lane *start(Context &context, Simdgroup &simdgroup) {
  uint32_t number = &simdgroup - context.simdgroups;
  if (number >= context.laid_out) lay_out(context, number);
  return simdgroup.lanes + first_of(context, simdgroup.runnable);
}

// All threads of the simdgroup wait. Those that the engine chooses are released together.
void meet(Simdgroup *simdgroup, uint32_t waiting) {
  uint32_t first = __builtin_ctz(waiting);
  uint64_t place = simdgroup->places[first];
  uint32_t together = 0;
  for (uint32_t i = 0; i < SOFT_WIDTH; i++) together |= uint32_t(simdgroup->places[i] == place) << i;
  together &= waiting;
  if (together != waiting) {
    together = choose_lanes(*simdgroup, waiting);
    first = __builtin_ctz(together);
  }
  simdgroup->active = together;
  simdgroup->runnable = together;
  if (simdgroup->context->group.launch->check) checker->simdgroup(simdgroup->index, simdgroup->lanes[first].flags);
  soft_combine combine = simdgroup->combines[first];
  if (combine) combine(simdgroup->inbox, simdgroup->outbox, together);
  if (simdgroup->context->group.launch->check)
    checker->exchange(simdgroup->index, simdgroup->inbox, simdgroup->outbox, combine, together);
}

// Every thread that is left stands at the threadgroup barrier: all go on, or the group has ended.
bool pass_barrier(Context &context) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < context.simdgroup_count; i++) {
    Simdgroup &simdgroup = context.simdgroups[i];
    simdgroup.runnable = simdgroup.live;
    simdgroup.barrier = 0;
    left |= simdgroup.live;
  }
  if (!left) return false;
  context.barriers++;
  if (context.group.launch->check) checker->barrier(context);
  return true;
}

// Moves on to the group that follows, if it is to run now and is not cut by the grid's edge.
bool next_whole(Context &context) {
  const soft_launch &launch = *context.group.launch;
  if (!context.following || __atomic_load_n(&context.run->stop, __ATOMIC_RELAXED)) return false;
  for (int i = 0; i < 3; i++) {
    uint64_t at = ++context.group.position[i];
    if (at < launch.groups[i]) {
      if ((at + 1) * launch.group[i] > launch.threads[i]) return false;
      break;
    }
    context.group.position[i] = 0;
  }
  context.following--;
  return true;
}

void run_flat() {
  do current_context->entry(&current_context->group, &current_context->flat.thread);
  while (next_whole(*current_context));
  leave_kernel();
}

}  // namespace

// What a kernel left in registers and on its stack is not trusted.
__attribute__((noinline)) void leave_kernel() { soft_leave(current_context->escape.stack); }

const Checker *checker;

// Nobody in the simdgroup can run. Finds the thread that goes on, `lane` itself if it may; at the end, the way out.
Lane *find_next(Lane *lane) {
  Simdgroup *simdgroup = simdgroup_of(lane);
  Context &context = *simdgroup->context;
  if (uint32_t waiting = simdgroup->live & ~simdgroup->barrier) {
    meet(simdgroup, waiting);
    return simdgroup->lanes + first_of(context, simdgroup->runnable);
  }
  Simdgroup *end = context.simdgroups + context.simdgroup_count;
  for (;;) {
    for (Simdgroup *s = simdgroup + 1; s < end; s++)
      if (s->runnable) return start(context, *s);
    if (!pass_barrier(context)) break;
    simdgroup = context.simdgroups - 1;
  }
  context.way_out.stack = static_cast<char *>(context.escape.stack) - ESCAPE_BELOW;
  return &context.way_out;
}

soft_lane *begin_fibers(Context &context, uint32_t count) {
  context.fibers = count;
  context.simdgroup_count = simdgroups_of(count);
  for (uint32_t i = 0; i < context.simdgroup_count; i++) {
    uint32_t here = count - i * SOFT_WIDTH;
    Simdgroup &simdgroup = context.simdgroups[i];
    simdgroup.live = simdgroup.runnable = here >= SOFT_WIDTH ? ~0u : (1u << here) - 1;
    simdgroup.barrier = 0;
  }
  return &start(context, context.simdgroups[0])->thread;
}

// Comes back through the context's escape when the last thread has ended.
void enter_fibers(soft_group *, soft_lane *first) { soft_enter(lane_of(first)); }

// A flat kernel has a stack apart from the thread's own, which is full of what others need.
void enter_flat(soft_group *, soft_lane *) {
  const Guarded &stack = current_context->flat_stack;
  soft_run_on(stack.start + stack.bytes - 64, run_flat);
}

}  // namespace soft

// A fiber outlives its thread: once the group has ended it waits here to become a thread, or a simdgroup, of the next.
void soft_fiber_main(soft::Lane *lane) {
  const soft::Context &context = *soft::simdgroup_of(lane)->context;
  for (;;) {
    if (context.engine == SOFT_LANES)
      reinterpret_cast<soft_simdgroup_entry>(context.entry)(lane->thread.group, &lane->thread, lane->thread.index);
    else
      context.entry(lane->thread.group, &lane->thread);
    soft_end(&lane->thread);
  }
}

soft::Lane *soft_find_next(soft::Lane *lane) { return soft::find_next(lane); }
