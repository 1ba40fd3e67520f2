// The checker's hooks: what the engines tell it while a checked dispatch runs on fibers.
#pragma once
#include "../include/soft_check.h"

namespace soft {

struct Context;

// All are called on the worker that runs the group, and only when launch.check is set.
// Memory that kernels may touch although it belongs to the runtime: fibers' stacks, lanes, exchange slots.
void check_private_memory(const void *start, soft_u64 bytes);
// Gives the group its own guarded threadgroup memory.
void check_group_begin(soft_group &group);
// Merges what the group touched into the dispatch; also after a fault.
void check_group_end(soft_group &group);
// All threads of the group that are left have arrived at a threadgroup_barrier.
void check_barrier(const Context &context);
// The threads of one simdgroup have met, in a simdgroup_barrier (bit 0 device, bit 1 threadgroup) or, without flags, in a
// simdgroup function, which orders them as well.
void check_simdgroup(unsigned simdgroup, unsigned flags);

// A simdgroup function has made an outbox of what the threads in `active` left in the inbox.
void check_exchange(unsigned simdgroup, const char *inbox, const char *outbox, soft_combine combine, unsigned active);

}  // namespace soft
