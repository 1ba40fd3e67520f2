// The one call from Python: dispatches in order, each over all cores.
#include "runtime.h"

static bool is_empty(const soft_launch &launch) {
  for (int i = 0; i < 3; i++)
    if (!launch.groups[i] || !launch.group[i]) return true;
  return false;
}

static void run_one(soft::Run &run, soft::Context &context, soft_u64 limit, soft_u64 *times) {
  const soft_launch &launch = *run.launch;
  run.next = 0;
  run.total = soft_u64(launch.groups[0]) * launch.groups[1] * launch.groups[2];
  times[0] = soft::now();
  if (limit) __atomic_store_n(&run.deadline, times[0] + limit, __ATOMIC_SEQ_CST);
  if (!is_empty(launch)) soft::run_launch(run, context);
  times[1] = soft::now();
  if (run.total > 1) soft::remember_time(run, (run.waiting_since ? run.waiting_since : times[1]) - times[0]);
}

// Fills start and end of each launch (CLOCK_MONOTONIC). Answers the kind of fault; `fault` tells more.
// Each launch may take `nanoseconds`; 0 = no limit.
// `threads` is how many may work on a launch; 0 = one for each core.
SOFT_EXPORT soft_u32 soft_run(const soft_launch *launches, soft_u32 count, soft_u32 threads, soft_u64 nanoseconds,
                              soft_u64 *times, soft_fault *fault) {
  soft::Run run = {};
  *fault = {};
  run.threads = threads ? threads : soft::core_count();
  run.fault = fault;
  run.deadline = nanoseconds ? soft::now() + nanoseconds : 0;
  soft::Context *context = soft::take_context();
  if (!context) return fault->kind = SOFT_FAULT_RUNTIME;
  bool covering = soft::watch_signals();
  soft::watch_deadline(run);
  for (soft_u32 i = 0; i < count && !__atomic_load_n(&run.stop, __ATOMIC_SEQ_CST); i++) {
    run.launch = launches + i;
    run.index = i;
    run_one(run, *context, nanoseconds, times + 2 * i);
  }
  soft::unwatch_deadline(run);
  soft::unwatch_signals(covering);
  soft::return_context(context);
  if (run.stop && fault->kind == SOFT_FAULT_NONE) {
    fault->kind = run.stop;
    fault->launch = run.index;
  }
  return fault->kind;
}

SOFT_EXPORT soft_u64 soft_sizeof_launch() { return sizeof(soft_launch); }
