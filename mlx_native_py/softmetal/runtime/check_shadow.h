// What one worker remembers of the group it runs: who touched which byte, and when.
//
// A slice is a stretch in which one thread runs without meeting others; slices are numbered in the order they begin.
// On lanes the threads of a simdgroup take turns at every access, and each goes on with its slice.
// Each cell holds slice numbers. Numbers below `base` come from before the last barrier (or from another group), so a
// cell needs no clearing. Two readers are kept, of different simdgroups if possible: whoever writes later without
// order conflicts with one of them if it conflicts with any.
#pragma once
#include <stdlib.h>

#include "check.h"
#include "runtime.h"

namespace soft {

using u8 = unsigned char;
using u32 = soft_u32;
using u64 = soft_u64;

constexpr u64 ZONE_BYTES = (u64)SOFT_ZONES << SOFT_ZONE_SHIFT;
constexpr u32 BLOCK = SOFT_BLOCK, WORDS = BLOCK / 64, CELLS = BLOCK / 4, TG_BLOCKS = 64;

struct Cell {
  u32 writer, reader, reader2;
  u32 written_at, read_at, read2_at;  // sites: where in the kernel's image
};

// Atomic accesses, per byte; only blocks that see one have it.
struct AtomicCell {
  u32 writer, writer2, reader, reader2;
  u32 written_at, written2_at, read_at, read2_at;
};

struct Atomics {
  u64 reads[WORDS], writes[WORDS];
  AtomicCell cells[BLOCK];
};

struct Block {
  u64 key;                 // address / BLOCK
  u32 serial;              // group that the bits belong to
  u32 low, high;           // bytes of the block that are known to allow `access`; others are looked up
  bool foreign;            // memory of the runtime
  u8 access;
  u8 space;
  u8 shift;                // 2: a cell for 4 bytes, 0: a cell for each byte
  bool read_only;          // nobody may write here, so no order matters
  u32 area;
  Atomics *atomics;
  u64 reads[WORDS], writes[WORDS];
  const u64 *fresh;        // a bit for each byte that nobody had written before the group; null where all have been
  Cell *cells;
};

struct Slice {
  u32 lane;
  u32 epoch[2];            // of its simdgroup, for each memory space
};

// An index outside its array, as the compiler reported it, and whose it was.
struct Outside {
  u64 array, index;
  const soft_lane *lane;
};

struct Worker {
  const soft_lane *lane;   // whose slice is running; null asks for a new one
  u32 slice;               // its number
  u32 newest;              // the highest number so far
  u32 own[MAX_THREADS];    // each thread's last slice
  u32 base[2];             // first slice after the last barrier, for each memory space
  u32 first;               // slice number of slices[0]
  u32 serial;              // of the group
  Slice *slices;
  u32 slice_capacity;
  u32 simd_epoch[32][2];

  soft_group *group;       // null between groups
  Outside outside;         // of the access that comes next
  soft_check *check;
  u64 stacks, stack_bytes; // of the fibers
  u64 check_serial;        // dispatch that the blocks belong to
  const void *entry;       // of the running group
  u64 state, state_bytes;  // of the running context: lanes and simdgroups
  u64 image_start, image_end;  // the kernel's shared object, whose constants may be read
  char *tg;                // start of threadgroup memory, inside a reserved range
  Block tg_blocks[TG_BLOCKS];
  u64 zones;               // start of the arguments' zones; beyond all addresses where there are none
  Block *argument_blocks[SOFT_ZONES];  // that each argument touched last
  bool partly_written;     // of a copy: some of its bytes have been written, so that others may be padding

  Block **table;           // open addressing by key
  u32 table_size, block_count;
  Block **touched;
  u32 touched_count, touched_capacity;
  Block **spare;           // to use again
  u32 spare_count, spare_capacity;
  bool fenced;             // the group used atomic_thread_fence
};

extern __thread Worker *check_worker __attribute__((tls_model("initial-exec")));

// The watchdog must not pull a thread out of here: memory or a lock would be lost.
struct Undisturbed {
  u32 before = current_context->in_kernel;
  Undisturbed() {
    current_context->in_kernel = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~Undisturbed() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    current_context->in_kernel = before;
  }
};

// Memory (check_memory.cpp)
Block *make_block(Worker &, u64 key);
void refresh(Worker &, Block &);
void split_cells(Block &);
Atomics &atomics_of(Block &);
bool allowed(const Worker &, u64 address, u64 bytes, unsigned access);
bool runtime_memory(const Worker &, u64 address, u64 bytes);
void reset_blocks(Worker &);
constexpr u64 TG_RESERVED = 64u << 20, TG_BEFORE = 16u << 20;

// Findings (check_report.cpp)
void lock(soft_check &);
void unlock(soft_check &);
struct Finding {
  u64 address, bytes, site;
  unsigned access, other_access;
  u32 argument, other_site;
};
[[noreturn]] void out_of_bounds(Worker &, const Finding &);
[[noreturn]] void outside_private_array(Worker &, const Outside &);
void outside_array(Worker &, const Finding &);  // comes back where nothing is outside of threadgroup memory
void race_in_group(Worker &, const Finding &, u32 other_slice);
void uninitialised(Worker &, const Finding &);
void misaligned(Worker &, Finding, unsigned alignment);
void divergent_barrier(Worker &, u32 lane, u64 site, u32 other_lane, u64 other_site);
void race_between_groups(Worker &, const Finding &, u32 lane, u32 other_group);

// Slow ways of an access (check_access.cpp)
void begin_slice(Worker &);
void access_bytes(u64 address, u64 bytes, unsigned access, u64 site);
void touch_pieces(Worker &, u64 address, u64 bytes, unsigned access, u64 site, u32 argument);
void atomic_access(u64 address, unsigned bytes, unsigned access, u64 site);

inline unsigned simdgroup_of(u32 lane) { return lane / SOFT_WIDTH; }

// Whether the slice came before the one that runs now, by a meeting of their simdgroup or because it is the same thread.
inline bool ordered(const Worker &w, u32 slice, unsigned space) {
  const Slice &then = w.slices[slice - w.first], &now = w.slices[w.slice - w.first];
  if (then.lane == now.lane) return true;
  return simdgroup_of(then.lane) == simdgroup_of(now.lane) && then.epoch[space] < now.epoch[space];
}

inline bool conflicts(const Worker &w, u32 slice, unsigned space) {
  return slice >= w.base[space] && slice != w.slice && !ordered(w, slice, space);
}

// Slices of two accesses, and where they were made.
struct Pair {
  u32 &one, &two, &one_at, &two_at;
};

// Keeps the running slice in a pair of slices so that a later conflict with any is one with either.
inline void remember(const Worker &w, Pair pair, unsigned space, u32 site) {
  u32 base = w.base[space], one = pair.one, two = pair.two;
  if (one < base) {
    pair.one = w.slice, pair.one_at = site, pair.two = 0;
  } else if (one == w.slice || ordered(w, one, space)) {
    pair.one = w.slice, pair.one_at = site;
  } else if (two < base || two == w.slice || ordered(w, two, space)) {
    pair.two = w.slice, pair.two_at = site;
  } else {
    u32 group1 = simdgroup_of(w.slices[one - w.first].lane), group2 = simdgroup_of(w.slices[two - w.first].lane);
    bool third = group1 == group2 && simdgroup_of(w.slices[w.slice - w.first].lane) != group1;
    if (third) pair.two = w.slice, pair.two_at = site;
  }
}

}  // namespace soft
