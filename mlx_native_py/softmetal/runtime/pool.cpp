// The worker threads, and how a launch's threadgroups are handed out to them.
#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t { WORTH_WAKING = 20000, WORTH_SHARING = 4000, SURE = 5000, CERTAIN = 10000000, IDLE_SPINS = 2000 };
enum : uint64_t { LOOKOUT = 30000, LONGEST_LOOKOUT = 150000 };  // for how long an idle worker looks for a run
enum { REMEMBERED = 256 };

Lock pool_lock;
Run *runs;
uint32_t published;                   // futex: changes when a run appears in the list
uint32_t sleepers;
uint32_t lookouts;                    // workers that have nothing to do and look for a run, before they sleep
uint32_t worker_count;                // started

// The cores are for the first workers only; who has more than these is not short of cores.
struct Worker {
  uint64_t number;                    // atomic: its thread; 0 until it runs
  uint32_t kept_off;                  // the core that it stays away from, counted from 1; 0 = none
};
enum { PLACED = 8 };
Worker workers[PLACED];

// What a threadgroup of a kernel took last time: a launch known to be long is shared from its first group on.
struct Cost {
  soft_entry entry;
  uint64_t nanoseconds;
};
Cost costs[REMEMBERED];

Cost &cost_of(const soft_launch &launch) {
  return costs[(reinterpret_cast<uint64_t>(launch.entry) * 0x9E3779B97F4A7C15ull) >> 56];
}

// For one threadgroup; 0 where nothing is known.
uint64_t known_time(const soft_launch &launch) {
  const Cost &cost = cost_of(launch);
  bool known = __atomic_load_n(&cost.entry, __ATOMIC_RELAXED) == launch.entry;
  return known ? __atomic_load_n(&cost.nanoseconds, __ATOMIC_RELAXED) : 0;
}

// Shrinking batches: large ones first so that handing out costs nothing, small ones last so that all end together.
bool grab(Run &run, uint64_t &first, uint64_t &last) {
  uint64_t at = __atomic_load_n(&run.next, __ATOMIC_RELAXED);
  for (;;) {
    if (at >= run.total || __atomic_load_n(&run.stop, __ATOMIC_RELAXED)) return false;
    uint64_t batch = (run.total - at) / (4 * (run.helpers + 1));
    uint64_t end = at + (batch ? batch : 1);
    if (__atomic_compare_exchange_n(&run.next, &at, end, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      first = at;
      last = end;
      return true;
    }
  }
}

bool wants_help(const Run &run) { return run.next < run.total && !run.stop && run.inside < run.helpers; }

void work_on(Run &run, Context &context) {
  uint64_t first, last;
  while (grab(run, first, last))
    while (first < last && !__atomic_load_n(&run.stop, __ATOMIC_RELAXED)) {
      uint64_t done = run_groups(context, run, first, last);
      if (!done) return;
      first += done;
    }
}

void check_stacks(Run &run, const Context &context) {
  if (has_fibers(*run.launch) && !stacks_intact(context)) fail(run, SOFT_FAULT_STACK);
}

void help(Run &run, Context &context) {
  uint64_t start = now();
  if (uint64_t missing = prepare(context, *run.launch)) return fail(run, SOFT_FAULT_RUNTIME, missing);
  work_on(run, context);
  check_stacks(run, context);
  __atomic_add_fetch(&run.busy, now() - start, __ATOMIC_RELAXED);
}

void join(Run &run) {
  if (Context *context = take_context()) {
    help(run, *context);
    return_context(context);
  }
  if (__atomic_sub_fetch(&run.inside, 1, __ATOMIC_SEQ_CST) == 0) futex_wake(&run.inside, 1);
}

Run *find_run() {
  Locked hold(pool_lock);
  for (Run *run = runs; run; run = run->following)
    if (wants_help(*run)) {
      __atomic_add_fetch(&run->inside, 1, __ATOMIC_SEQ_CST);
      return run;
    }
  return nullptr;
}

// Whether a run appears within so many nanoseconds.
bool looks_out(uint32_t seen, uint64_t nanoseconds) {
  uint64_t end = now() + nanoseconds;
  bool found = false;
  __atomic_add_fetch(&lookouts, 1, __ATOMIC_RELAXED);
  do {
    for (uint32_t i = 0; i < 16 && !found; i++) {
      relax();
      found = __atomic_load_n(&published, __ATOMIC_RELAXED) != seen;
    }
  } while (!found && now() < end);
  __atomic_sub_fetch(&lookouts, 1, __ATOMIC_RELAXED);
  return found;
}

// A worker looks out as long as runs come one after the other, so that each finds it awake; where the last one did not
// come that soon, it looks out only for a moment.
void *worker(void *place) {
  if (place) __atomic_store_n(&static_cast<Worker *>(place)->number, own_thread(), __ATOMIC_RELEASE);
  for (uint64_t patience = LOOKOUT;;) {
    uint32_t seen = __atomic_load_n(&published, __ATOMIC_SEQ_CST);
    if (Run *run = find_run()) {
      join(*run);
      continue;
    }
    uint64_t idle_since = now();
    if (!looks_out(seen, patience)) {
      __atomic_add_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
      futex_wait(&published, seen, 0);
      __atomic_sub_fetch(&sleepers, 1, __ATOMIC_SEQ_CST);
    }
    patience = now() - idle_since < LONGEST_LOOKOUT ? LONGEST_LOOKOUT : LOOKOUT;
  }
}

// Called with the lock held. Signals of the host program are not for these threads.
void start_workers(uint32_t wanted) {
  if (worker_count >= wanted) return;
  sigset_t blocked, old;
  keep_only_faults(blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, &old);
  for (; worker_count < wanted; worker_count++) {
    pthread_t thread;
    Worker *place = worker_count < PLACED ? workers + worker_count : nullptr;
    if (place) *place = {};
    if (pthread_create(&thread, nullptr, worker, place)) break;
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

// Called with the lock held. To the scheduler of a virtual machine a sleeping core may look taken: it would queue a worker
// up behind the thread that wakes it, and the two would take turns.
void make_way() {
  uint32_t core = current_core();
  for (uint32_t i = 0; i < worker_count && i < PLACED; i++) {
    uint64_t number = __atomic_load_n(&workers[i].number, __ATOMIC_ACQUIRE);
    if (!number || workers[i].kept_off == core + 1) continue;
    keep_off(number, core);
    workers[i].kept_off = core + 1;
  }
}

void publish(Run &run) {
  {
    Locked hold(pool_lock);
    start_workers(run.helpers);
    make_way();
    run.previous = nullptr;
    run.following = runs;
    if (runs) runs->previous = &run;
    runs = &run;
  }
  __atomic_add_fetch(&published, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) futex_wake(&published, run.helpers);
}

void withdraw(Run &run) {
  Locked hold(pool_lock);
  (run.previous ? run.previous->following : runs) = run.following;
  if (run.following) run.following->previous = run.previous;
}

void wait_for_workers(Run &run) {
  for (uint32_t spins = 0;; spins++) {
    uint32_t inside = __atomic_load_n(&run.inside, __ATOMIC_SEQ_CST);
    if (!inside) return;
    if (spins < IDLE_SPINS)
      relax();
    else
      futex_wait(&run.inside, inside, 0);
  }
}

// As many as have enough to do: a small launch disturbs few others or nobody. Those that are awake help with less.
uint32_t helpers_for(const Run &run, uint64_t nanoseconds) {
  uint64_t most = run.threads - 1, left = run.total - run.next, worth = nanoseconds / WORTH_WAKING;
  uint64_t awake = __atomic_load_n(&lookouts, __ATOMIC_RELAXED), shared = nanoseconds / WORTH_SHARING;
  if (awake > shared) awake = shared;
  if (worth < awake) worth = awake;
  if (most > left) most = left;
  return worth < most ? worth : most;
}

// The first groups, alone, until it is known how long the rest takes; answers how many could help with it. The very first
// is slow because nothing is at hand yet.
uint32_t begin_alone(Run &run, Context &context) {
  uint64_t start = now(), done = 0, known = known_time(*run.launch);
  for (uint64_t check = 1; run.next < run.total && !run.stop;) {
    uint64_t number = run.next++;
    if (!run_groups(context, run, number, number + 1)) return 0;
    if (++done < check) continue;
    uint64_t spent = now() - start, each = spent / done;
    // A thread that was held up looks like a kernel that is slow.
    if (known && each > 8 * known && spent < CERTAIN) each = 8 * known;
    uint32_t helpers = helpers_for(run, each * (run.total - run.next));
    if (helpers && spent > SURE) return helpers;
    check = done * 2;
  }
  return 0;
}

void forked() {
  pool_lock.word = 0;
  runs = nullptr;
  worker_count = 0;
  sleepers = 0;
  lookouts = 0;
  forget_contexts_in_use();
  reset_signals_after_fork();
  reset_faults_after_fork();
  reset_watchdog_after_fork();
  reset_log_after_fork();
}

__attribute__((constructor)) void register_fork_handler() { call_in_forked_child(forked); }

}  // namespace

// Asked once: what the process may use seldom changes.
uint32_t core_count() {
  static uint32_t known;
  if (uint32_t count = __atomic_load_n(&known, __ATOMIC_RELAXED)) return count;
  uint32_t count = count_cores();
  __atomic_store_n(&known, count, __ATOMIC_RELAXED);
  return count;
}

void Lock::take() {
  uint32_t expected = 0;
  if (__atomic_compare_exchange_n(&word, &expected, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  while (__atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE)) futex_wait(&word, 2, 0);
}

void Lock::release() {
  if (__atomic_exchange_n(&word, 0, __ATOMIC_RELEASE) == 2) futex_wake(&word, 1);
}

void fail(Run &run, uint32_t kind, uint64_t address) {
  uint32_t none = SOFT_FAULT_NONE;
  bool first = __atomic_compare_exchange_n(&run.fault->kind, &none, kind, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  if (first) run.fault->launch = run.index, run.fault->address = address;
  __atomic_store_n(&run.stop, kind, __ATOMIC_SEQ_CST);
}

void run_launch(Run &run, Context &context) {
  if (uint64_t missing = prepare(context, *run.launch)) return fail(run, SOFT_FAULT_RUNTIME, missing);
  run.helpers = 0;
  run.busy = run.waiting_since = 0;
  if (run.threads > 1 && run.total > 1) {
    run.helpers = helpers_for(run, known_time(*run.launch) * run.total / 2);
    if (!run.helpers) run.helpers = begin_alone(run, context);
  }
  bool shared = run.helpers;
  if (shared) publish(run);
  work_on(run, context);
  check_stacks(run, context);
  if (!shared) return;
  run.waiting_since = now();
  withdraw(run);
  wait_for_workers(run);
}

// Work is on its way: workers that sleep wake up and look out, since waking takes as long as preparing a launch.
SOFT_EXPORT void soft_rouse(soft_u32 wanted) {
  if (!__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST)) return;
  __atomic_add_fetch(&published, 1, __ATOMIC_SEQ_CST);
  futex_wake(&published, wanted);
}

// For a process that will not be able to start any later.
void start_all_workers() {
  Locked hold(pool_lock);
  start_workers(core_count() - 1);
}

// What was quicker than before is believed at once; what was slower may have been held up.
void remember_time(const Run &run, uint64_t nanoseconds) {
  Cost &cost = cost_of(*run.launch);
  uint64_t before = known_time(*run.launch), group = (nanoseconds + run.busy) / run.total + 1;
  uint64_t believed = before && group > 2 * before ? 2 * before : group;
  __atomic_store_n(&cost.nanoseconds, believed, __ATOMIC_RELAXED);
  __atomic_store_n(&cost.entry, run.launch->entry, __ATOMIC_RELAXED);
}

}  // namespace soft
