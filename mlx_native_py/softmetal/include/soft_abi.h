// What Python, the runtime and compiled kernels agree on. Plain data, valid in C++ and in OpenCL C++.
#pragma once

typedef unsigned int soft_u32;
typedef unsigned long soft_u64;

// Functions that may let other threads run: their caller keeps its own registers, and only those it needs. Each call
// stays a call of its own, since that tells where a thread waits.
#define SOFT_WAITING __attribute__((convergent, noinline, nomerge, preserve_none))

enum { SOFT_SLOTS = 31, SOFT_WIDTH = 32 };
enum { SOFT_FLAT = 0, SOFT_FIBERS = 1, SOFT_LANES = 2 };
enum { SOFT_SLOT_BYTES = 64, SOFT_OUTBOX = 4096 };  // what the last thread made of the inbox lies that far from it
enum { SOFT_KIND_BUFFER = 0, SOFT_KIND_THREADGROUP = 1 };
enum {
  SOFT_FAULT_NONE = 0,
  SOFT_FAULT_DIVISION = 1,
  SOFT_FAULT_ADDRESS = 2,
  SOFT_FAULT_STACK = 3,
  SOFT_FAULT_TIMEOUT = 4,
  SOFT_FAULT_INSTRUCTION = 5,
  SOFT_FAULT_RUNTIME = 6,
  SOFT_FAULT_CHECK = 7                // checked mode has a report
};

struct soft_group;
struct soft_lane;
struct soft_check;
enum { SOFT_BARRIER_MARK = 8 };        // bits of a barrier's flags; above them is which one it is

// Flat: runs a whole threadgroup. Fibers: runs one thread. Lanes: runs one simdgroup, for which `lane` stands.
typedef void (*soft_entry)(struct soft_group *group, struct soft_lane *lane);
typedef void (*soft_simdgroup_entry)(struct soft_group *group, struct soft_lane *lane, soft_u32 simdgroup);

// One dispatch. Filled by Python (engines/abi.py mirrors it), read by everybody.
struct soft_launch {
  void *buffers[SOFT_SLOTS];          // unbound slots point at a zero page
  soft_u64 lengths[SOFT_SLOTS];       // bytes from there to the end of the buffer; 0 = unbound
  soft_u32 tg_offsets[SOFT_SLOTS];    // of threadgroup argument i, inside threadgroup memory
  soft_u32 tg_bytes;                  // static variables first, then arguments
  soft_u32 threads[3];                // threads per grid
  soft_u32 groups[3];                 // threadgroups per grid
  soft_u32 group[3];                  // threads per threadgroup as asked; edge groups may be smaller
  soft_u32 engine;                    // SOFT_FLAT, SOFT_FIBERS or SOFT_LANES
  soft_u32 stack_bytes;               // a fiber's stack, of either entry
  soft_entry entry;
  soft_entry edge_entry;              // for groups that the grid's edge cuts; null where `entry` serves them too
  soft_u32 edge_engine;               // SOFT_FLAT or SOFT_FIBERS
  soft_u32 group_step;                // the n-th threadgroup to run is number n * step + start, modulo their count;
  soft_u32 group_start;               // a step of 0 is one of 1
  struct soft_check *check;           // null unless checked
};

// Checked mode: what stands in for a threadgroup variable, which begins SOFT_TG_SPREAD times as far into the
// threadgroup's memory as this does into its section. So each has addresses around it that are nobody's.
enum { SOFT_TG_PLACE = 128, SOFT_TG_SPREAD = 2816, SOFT_TG_ZONE = SOFT_TG_PLACE * SOFT_TG_SPREAD, SOFT_TG_ZONES = 256 };
struct soft_tg_place {
  soft_u32 bytes;
  soft_u32 alignment;
  char name[SOFT_TG_PLACE - 2 * sizeof(soft_u32)];
};

// One running threadgroup.
struct soft_group {
  const struct soft_launch *launch;
  char *tg;                           // threadgroup memory
  soft_u32 position[3];               // threadgroup_position_in_grid
  soft_u32 size[3];                   // threads in this group, per dimension
  soft_u32 count;                     // their product
  void *meeting[SOFT_WIDTH];          // a word for each simdgroup, for what all of them do together
};

// A loop that a thread is in, if threads wait for each other inside it; on the thread's own stack.
struct soft_loop {
  struct soft_loop *outer;
  soft_u64 function;                  // where it is: equal for places in one function
  soft_u32 position;                  // and where in it: grows in the order of the source
  soft_u32 round;
};

// One thread. The flat engine has a single one per worker, of which only `group` means something.
struct soft_lane {
  struct soft_group *group;
  soft_u32 position[3];               // thread_position_in_threadgroup
  soft_u32 index;                     // thread_index_in_threadgroup
  char *inbox;                        // of its simdgroup: SOFT_WIDTH slots for each size 1, 2, 4 ... SOFT_SLOT_BYTES
  struct soft_loop *loops;            // the innermost
  soft_u64 path;                      // a hash of the loops and their rounds
};

// Run once for a simdgroup, by the last of its threads to arrive; `active` has a bit for each thread that takes part.
typedef void (*soft_combine)(const char *inbox, char *outbox, soft_u32 active);

// Run once for a simdgroup, with the arguments of the first of its threads.
typedef void (*soft_once)(void *, void *, void *, void *, soft_u64);

// One bindable argument as the compiler saw it; a pointer's or reference's element, not the pointer itself.
struct soft_argument {
  soft_u32 index;
  soft_u32 kind;                      // SOFT_KIND_BUFFER or SOFT_KIND_THREADGROUP
  soft_u32 data_type;                 // MTLDataType
  soft_u32 size;
  soft_u32 alignment;
  soft_u32 is_pointer;                // else a reference
};

enum { SOFT_ACCESS_UNKNOWN, SOFT_ACCESS_READ, SOFT_ACCESS_WRITE };

// Why a launch was abandoned. `thread_known` is 0 where a flat loop was running.
struct soft_fault {
  soft_u32 kind;                      // SOFT_FAULT_*
  soft_u32 launch;
  soft_u32 group[3];
  soft_u32 thread[3];
  soft_u32 thread_known;
  soft_u32 access;                    // of a bad address: SOFT_ACCESS_*
  soft_u64 address;
};
