// The checker, a library of its own (check*.cpp) that is loaded before the first dispatch that is checked: what the
// engines tell it, on the worker that runs the group, and only when launch.check is set.
#pragma once
#include "../include/soft_check.h"
#include "system.h"

namespace soft {

struct Checker {
  // Memory that kernels may touch although it belongs to the runtime: fibers' stacks, lanes, exchange slots.
  void (*private_memory)(const void *start, soft_u64 bytes);
  // Gives the group its own guarded threadgroup memory.
  void (*group_begin)(soft_group &group);
  // Merges what the group touched into the dispatch; also after a fault.
  void (*group_end)(soft_group &group);
  // All threads of the group that are left have arrived at a threadgroup_barrier.
  void (*barrier)(const Context &context);
  // The threads of one simdgroup have met, in a simdgroup_barrier (bit 0 device, bit 1 threadgroup) or, without flags, in
  // a simdgroup function, which orders them as well.
  void (*simdgroup)(unsigned simdgroup, unsigned flags);
  // A simdgroup function has made an outbox of what the threads in `active` left in the inbox.
  void (*exchange)(unsigned simdgroup, const char *inbox, const char *outbox, soft_combine combine, unsigned active);
};

extern SOFT_SHARED const Checker *checker;  // set by its library

}  // namespace soft
