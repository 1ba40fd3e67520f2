// What the parts of the runtime share: lanes, simdgroups, a worker's context, a running launch.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "../include/soft_abi.h"
#include "check.h"
#include "system.h"

#define SOFT_EXPORT extern "C" __attribute__((visibility("default")))

namespace soft {

enum { MAX_THREADS = 1024, MAX_SIMDGROUPS = MAX_THREADS / SOFT_WIDTH };
enum { INBOX_BYTES = SOFT_WIDTH * (2 * SOFT_SLOT_BYTES - 1), OUTBOX_BYTES = SOFT_WIDTH * SOFT_SLOT_BYTES };
static_assert(INBOX_BYTES <= SOFT_OUTBOX, "the outbox follows the inbox");

// A waiting fiber's stack begins with what it saved, the return address among it.
#if defined(__x86_64__)
enum { SAVED_BYTES = 16, SAVED_RETURN = 1, ESCAPE_BELOW = 16 };
#else
enum { SAVED_BYTES = 160, SAVED_RETURN = 11, ESCAPE_BELOW = 0 };
#endif

struct Context;
struct Run;

enum : uint32_t { IN_KERNEL = 1, IN_LIBRARY = 2 };

// A fiber. The public part is what kernels see.
struct alignas(64) Lane {
  soft_lane thread;
  void *stack;                        // its saved stack pointer
  uint32_t flags;                     // memory flags of its barrier
  uint32_t position;                  // of the call in its function
};
static_assert(sizeof(Lane) == 64, "a lane is one cache line");

// A simdgroup. Its threads are runnable, at a barrier, or waiting for each other.
struct alignas(64) Simdgroup {
  uint32_t runnable;
  uint32_t live;
  uint32_t barrier;
  uint32_t active;                    // the threads that were released together last
  uint32_t index;
  Lane *lanes;
  Context *context;
  alignas(64) uint64_t places[SOFT_WIDTH];      // of waiting threads: call in the kernel, mixed with the path to it
  alignas(64) soft_combine combines[SOFT_WIDTH];  // what they wait for, may be null
  alignas(64) uint64_t functions[SOFT_WIDTH];  // the functions that they wait in
  alignas(64) char inbox[SOFT_OUTBOX];
  alignas(64) char outbox[OUTBOX_BYTES];
};

inline uint32_t bit_of(const Lane *lane) { return 1u << lane->thread.index % SOFT_WIDTH; }
inline Simdgroup *simdgroup_of(const Lane *lane) {
  return reinterpret_cast<Simdgroup *>(lane->thread.inbox - offsetof(Simdgroup, inbox));
}

// Where the kernel's thread of control can be called back to: stack pointer of the caller of the kernel.
struct Escape {
  void *stack;
};

// Writable memory with pages around it that fault.
struct Guarded {
  char *start;
  uint64_t bytes;
  char *mapping;
  uint64_t mapped;
};

// What one OS thread needs to run threadgroups. Taken from a free list for the time of a run.
struct alignas(64) Context {
  Context *next_free;
  Context *next_registered;
  Lane *lanes;
  Simdgroup *simdgroups;
  Guarded stacks;                     // of fibers
  uint64_t stride;                    // from one to the next
  uint32_t guarded;                   // how many end in pages that fault
  uint32_t stack_count;               // that the launch has
  uint32_t laid_out;                  // simdgroups that have theirs
  Guarded flat_stack;
  uint32_t shape[3];
  char *threadgroup_end;
  Lane flat;
  Lane way_out;                       // stands for the caller of the group

  soft_group group;
  uint32_t engine;                    // of the group; edge groups may differ from the others
  soft_entry entry;
  uint64_t following;                 // flat: groups that may follow before the kernel is left
  uint32_t fibers;                    // that the group has: its threads, or its simdgroups
  uint32_t simdgroup_count;           // of those fibers
  uint32_t barriers;                  // threadgroup barriers that the group has passed
  Escape escape;
  volatile uint32_t in_kernel;        // IN_KERNEL, or IN_LIBRARY where only a fault may end it
  uint64_t owner;                     // thread id
  Run *run;
  uint32_t fault;                     // set by the signal handler together with the next three
  uint32_t fault_access;
  uint64_t fault_address;
  Lane *fault_lane;
};

// The dispatches of one soft_run, one at a time; lives on the stack of the thread that called soft_run.
struct Run {
  const soft_launch *launch;
  uint32_t index;
  uint32_t threads;                   // that may work on it, with the caller
  uint32_t helpers;                   // of them, workers that are wanted
  uint64_t total;
  uint64_t next;                      // atomic: first group not handed out yet
  uint32_t inside;                    // atomic, futex: workers that are still in it
  uint32_t stop;                      // atomic: a SOFT_FAULT_*; no more groups are begun
  uint64_t busy;                      // atomic: ns that workers spent in it
  uint64_t waiting_since;             // when the caller had nothing left to do but to wait for them
  soft_fault *fault;
  uint64_t deadline;                  // absolute ns, 0 = none
  Run *previous, *following;          // in the pool's list
  Run *watched_previous, *watched_next;
};

// context.cpp
SOFT_HIDDEN Context *take_context();
SOFT_HIDDEN void return_context(Context *);
SOFT_HIDDEN void forget_contexts_in_use();
SOFT_HIDDEN char *threadgroup_memory(const Context &, uint32_t bytes);

// stacks.cpp
SOFT_HIDDEN bool map_guarded(Guarded &, uint64_t bytes);
SOFT_HIDDEN void unmap_guarded(Guarded &);
SOFT_HIDDEN uint64_t prepare(Context &, const soft_launch &);  // bytes that there are not, else 0
SOFT_HIDDEN void lay_out(Context &, uint32_t simdgroup);
SOFT_HIDDEN bool stacks_intact(const Context &);
SOFT_HIDDEN void give_back_stacks(Context &);
SOFT_HIDDEN bool is_stack_end(const Context &, uint64_t address, uint64_t stack_pointer);

// order.cpp
SOFT_HIDDEN uint32_t choose_lanes(Simdgroup &, uint32_t waiting);

// fibers.cpp
SOFT_HIDDEN soft_lane *begin_fibers(Context &, uint32_t count);
SOFT_HIDDEN void enter_fibers(soft_group *, soft_lane *first);
SOFT_HIDDEN void enter_flat(soft_group *, soft_lane *);
[[noreturn]] SOFT_SHARED void leave_kernel();

// lanes.cpp
inline uint32_t simdgroups_of(uint32_t threads) { return (threads + SOFT_WIDTH - 1) / SOFT_WIDTH; }

// groups.cpp
SOFT_HIDDEN bool has_edge_fibers(const soft_launch &);
SOFT_HIDDEN bool has_fibers(const soft_launch &);
SOFT_HIDDEN uint64_t run_groups(Context &, Run &, uint64_t first, uint64_t last);  // how many; 0 when one was abandoned

// pool.cpp
SOFT_HIDDEN void run_launch(Run &, Context &);
SOFT_HIDDEN void start_all_workers();
SOFT_HIDDEN void remember_time(const Run &, uint64_t nanoseconds);
SOFT_HIDDEN void fail(Run &, uint32_t kind, uint64_t address = 0);
SOFT_HIDDEN uint32_t core_count();

// A lock that sleeps; safe to reset in a forked child.
struct Lock {
  uint32_t word;
  void take();
  void release();
};
struct Locked {
  Lock &lock;
  explicit Locked(Lock &l) : lock(l) { lock.take(); }
  ~Locked() { lock.release(); }
};

// signals.cpp
SOFT_HIDDEN bool watch_signals();     // whether others' handlers are covered, which unwatch_signals must know
SOFT_HIDDEN void unwatch_signals(bool covering);
SOFT_HIDDEN uint64_t own_thread();    // its number; the first call makes it ready for signals
SOFT_HIDDEN void keep_only_faults(sigset_t &blocked);
SOFT_HIDDEN void pass_on(int number, siginfo_t *, void *machine);
SOFT_HIDDEN void reset_signals_after_fork();

// faults.cpp
SOFT_HIDDEN void handle_signal(int number, siginfo_t *, void *machine);
SOFT_HIDDEN void interrupt(Run &);
SOFT_HIDDEN void register_context(Context &);
SOFT_HIDDEN void reset_faults_after_fork();

// watchdog.cpp
SOFT_HIDDEN void watch_deadline(Run &);
SOFT_HIDDEN void start_watchdog();
SOFT_HIDDEN void unwatch_deadline(Run &);
SOFT_HIDDEN void reset_watchdog_after_fork();

// logging.cpp
SOFT_HIDDEN void reset_log_after_fork();

}  // namespace soft

// switch.cpp
extern "C" {
SOFT_HIDDEN void soft_call_escapable(soft_entry entry, soft_group *, soft_lane *, void **save);
SOFT_HIDDEN void soft_escape();
SOFT_HIDDEN __attribute__((noreturn)) void soft_leave(void *escape);
SOFT_HIDDEN void soft_fiber_start();
SOFT_HIDDEN __attribute__((noreturn)) void soft_run_on(void *stack, void (*function)());

// waiting.cpp
SOFT_HIDDEN void soft_enter(soft::Lane *first);
SOFT_HIDDEN SOFT_WAITING void soft_end(soft_lane *);

// fibers.cpp
SOFT_HIDDEN void soft_fiber_main(soft::Lane *);
SOFT_HIDDEN soft::Lane *soft_find_next(soft::Lane *);
}
