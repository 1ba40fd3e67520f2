// What a process and its helper share: one request at a time, and its answer. isolation/channel.py mirrors it.
#pragma once
#include "../include/soft_abi.h"
#include "system.h"

// Run launches; call a function; let a slot of the table of imports stand for a function, or hold a value.
enum { SOFT_REQUEST_RUN, SOFT_REQUEST_CALL, SOFT_REQUEST_IMPORT, SOFT_REQUEST_IMPORT_DATA };
enum { SOFT_CHANNEL_LAUNCHES = 512, SOFT_CHANNEL_CHANGES = 512, SOFT_CHANNEL_LOG = 1 << 20 };
enum { SOFT_HELPER_GONE = 256, SOFT_OVERDUE = 257 };  // beside the faults of kernels

// Pages that the helper has to map, or to let go of, before it goes on.
struct soft_change {
  soft_u64 address;
  soft_u64 length;
  soft_u64 offset;                    // in the file of device memory
  soft_u64 is_open;
};

struct soft_channel {
  alignas(64) soft_u32 request;       // futex: number of the last request
  soft_u32 holder;                    // the helper's thread, until the system notes its end here
  alignas(64) soft_u32 answer;        // futex: number of the last request that was answered
  soft_u32 helper_core;               // the only one that it may run on, plus one; 0 = it may move
  alignas(64) soft_u32 kind;          // SOFT_REQUEST_*
  soft_u32 changed;                   // how many of `changes` count
  soft_u32 count;                     // how many launches
  soft_u32 threads;
  soft_u64 nanoseconds;               // that each of them may take
  soft_u64 function;                  // to be called, without arguments; or the slot of an import, named in `log`
  soft_u64 result;
  soft_u64 log_size, log_lost;
  soft_fault fault;
  soft_change changes[SOFT_CHANNEL_CHANGES];
  soft_u64 times[2 * SOFT_CHANNEL_LAUNCHES];
  soft_launch launches[SOFT_CHANNEL_LAUNCHES];
  char log[SOFT_CHANNEL_LOG];
};

namespace soft {
SOFT_HIDDEN void take_short_turns();
}
