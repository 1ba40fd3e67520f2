// What one worker remembers of the group it runs: who touched which byte, and when.
//
// A moment is a thread, the tick at which it last met others, and a place in the code. Each cell holds moments. Those
// below `base` come from before the last barrier (or from another group), so a cell needs no clearing. Two readers are
// kept, of different simdgroups if possible: whoever writes later without order conflicts with one of them if it
// conflicts with any.
#pragma once
#include <stdlib.h>

#include "check.h"
#include "runtime.h"

namespace soft {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = soft_u32;
using u64 = soft_u64;

constexpr u64 ZONE_BYTES = (u64)SOFT_ZONES << SOFT_ZONE_SHIFT;
constexpr u32 BLOCK = SOFT_BLOCK, WORDS = BLOCK / 64, CELLS = BLOCK / 4, NEAR_BLOCKS = 16;
constexpr u64 TG_ZONE = SOFT_TG_ZONE, TG_SPAN = SOFT_TG_ZONES * TG_ZONE;
constexpr u32 LAST_STAMP = 0xFFFF;
constexpr u64 FOUR_TIMES = 0x0001000100010001ull;

// From the top: 30 bits of the tick, 10 of the thread, one of a first reader, set where the second one is of the same
// simdgroup and tick, and 23 of the place, which is an offset in the kernel's image.
using Moment = u64;
constexpr unsigned SITE_BITS = 24, SIMDGROUP_SHIFT = SITE_BITS + 5, TICK_SHIFT = SITE_BITS + 10;
constexpr Moment ONE_TICK = 1ull << TICK_SHIFT, SHARED = 1ull << (SITE_BITS - 1), SITE_MASK = SHARED - 1;

inline u32 lane_of(Moment moment) { return moment >> SITE_BITS & (MAX_THREADS - 1); }
inline u32 site_of(Moment moment) { return moment & SITE_MASK; }

// Who touched some bytes last. They are kept apart, since most accesses need look at the first reader only.
struct Cells {
  Moment *readers, *readers2, *writers;
};

// Atomic accesses, per byte; only blocks that see one have it.
struct AtomicCell {
  Moment writer, writer2, reader, reader2;
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
  u32 room;                // for so many cells of each kind
  Atomics *atomics;        // null unless there were atomic accesses in this dispatch
  Atomics *atomic_room;
  u64 reads[WORDS], writes[WORDS];
  const u64 *fresh;        // a bit for each byte that nobody had written before the group; null where all have been
  Cells cells;             // CELLS of each, or BLOCK where they are split; all in one piece of memory
};

// An index outside its array, as the compiler reported it, and whose it was.
struct Outside {
  u64 array, index;
  const soft_lane *lane;
};

struct alignas(64) Worker {
  // What every access looks at is one cache line.
  u64 zones;               // start of the arguments' zones; beyond all addresses where short ways are shut
  const soft_argument_zone *arguments;
  char *tg;                // start of threadgroup memory, inside a reserved range; stamps follow, TG_STAMPS from here
  u64 tg_ready;            // where it may be accessed without another look; 0 where short ways are shut
  const soft_lane *lane;   // who is running; null where that, or the time, has to be looked up
  u64 stamp, own_stamp;    // of the simdgroup that is running, and of the thread, four times
  u64 all_zones;           // as `zones`, always; beyond all addresses where there are none

  Moment now[2];           // of the thread that is running, for each memory space, without a place
  Moment base[2];          // the last barrier, for each memory space
  Outside outside;         // of the access that comes next
  Moment **tg_readers;     // of blocks of threadgroup memory without split cells and atomics
  Moment begin, tick;      // of the group, and the newest
  Moment met[MAX_SIMDGROUPS][2];  // when the threads of each simdgroup last met
  u16 stamps[MAX_SIMDGROUPS];  // a number for the time since then, in threadgroup memory; its threads' follow
  u32 last_stamp;
  u64 image_start, image_end;  // the kernel's shared object, whose constants may be read
  u32 serial;              // of the group

  soft_group *group;       // null between groups
  soft_check *check;
  u64 stacks, stack_bytes; // of the fibers
  u64 check_serial;        // dispatch that the blocks belong to
  u64 split_areas;         // of that dispatch, as bits: those in which a block had to be split
  const void *entry;       // of the running group
  u64 state, state_bytes;  // of the running context: lanes and simdgroups
  Block *tg_blocks;        // of all threadgroup memory; few of them are used
  u32 *tg_used;            // the numbers of those that hold a variable of this dispatch
  u32 tg_used_count, tg_used_capacity;
  u32 *tg_known;           // and of those that ever did, which have cells
  u32 tg_known_count, tg_known_capacity;
  Block *argument_blocks[SOFT_SLOTS][NEAR_BLOCKS];  // that each argument touched last
  bool partly_written;     // of what is read now, nobody minds bytes that are unwritten, such as padding in a copy

  Block **table;           // open addressing by key
  u32 table_size, block_count;
  u32 *places;             // of the blocks in it
  Block **touched;
  u32 touched_count, touched_capacity;
  Block **spare;           // to use again
  u32 spare_count, spare_capacity;
  u32 ended_at[MAX_THREADS];  // where in the code threads returned early, of those that did
  bool any_ended;
  struct Watched *watched;  // private variables that are watched by address
  u32 watched_count, watched_capacity;
  struct Boxes *boxes;     // of simdgroups, once a value without one was given to others
  u32 sent, received;      // a bit for each simdgroup with such a value in its inbox, or in its outbox
  bool fenced;             // the group used atomic_thread_fence
};

extern Worker no_worker;   // of threads that run no checked group: nothing is in its memory
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

template <class T> inline void push(T *&list, u32 &count, u32 &capacity, T item) {
  if (count == capacity) {
    capacity = 2 * capacity + 64;
    list = (T *)realloc(list, capacity * sizeof(T));
    if (!list) __builtin_trap();
  }
  list[count++] = item;
}

// Hooks (check.h)
void check_private_memory(const void *start, u64 bytes);
void check_exchange(unsigned simdgroup, const char *inbox, const char *outbox, soft_combine combine, unsigned active);

// Memory (check_memory.cpp)
Block *make_block(Worker &, u64 key);
void refresh(Worker &, Block &);
void lay_out_cells(Block &, u32 count);
void begin_dispatch(Worker &);
void split_cells(Worker &, Block &);
Atomics &atomics_of(Worker &, Block &);
void free_cells(Block &);
bool allowed(const Worker &, u64 address, u64 bytes, unsigned access);
bool runtime_memory(const Worker &, u64 address, u64 bytes);
void reset_blocks(Worker &);
constexpr u64 TG_BEFORE = 16u << 20, TG_RESERVED = TG_BEFORE + TG_SPAN + (16u << 20), TG_STAMPS = TG_RESERVED - TG_BEFORE;

// For each 4 bytes, of simdgroups and threads that need not tell of reading there any more; or 0.
inline u16 *stamps_at(const Worker &w, u64 offset) { return (u16 *)(w.tg + TG_STAMPS + offset / 4 * sizeof(u16)); }

// Threadgroup memory (check_threadgroup.cpp)
void reserve_threadgroup_memory(Worker &);
void lay_out_threadgroup_memory(Worker &);
void begin_threadgroup_memory(Worker &);
void forget_threadgroup_memory(Worker &);
void clear_stamps(Worker &);

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
[[noreturn]] void outside_variable(Worker &, u64 site, const char *name = nullptr);
[[noreturn]] void constant_variable(Worker &, const Finding &, const char *name);
void outside_array(Worker &, const Finding &);  // comes back where nothing is outside of threadgroup memory
void race_in_group(Worker &, const Finding &, Moment other);
void uninitialised(Worker &, const Finding &);
void undefined_variable(Worker &, u64 site, u32 use, const char *variables);
[[noreturn]] void no_result(Worker &, u64 site, u64 function);
void misaligned(Worker &, Finding, unsigned alignment);
struct Absent {
  u32 lane, where;         // SOFT_AT_ANOTHER and so on
  u64 site;                // 0 where it is not known
};
void divergent_barrier(Worker &, u32 lane, u64 site, const Absent &);
void race_between_groups(Worker &, const Finding &, u32 lane, u32 other_group);

// Private variables that are watched by address (check_private.cpp)
void forget_watched(Worker &);
void access_private(Worker &, u64 address, u64 bytes, unsigned access, u64 site);

// Values that threads of a simdgroup exchange (check_exchange.cpp)
bool leave_in_box(Worker &, u64 address, const u8 *shadow, u64 bytes);  // whether it was the inbox
const u8 *marks_of_received(const Worker &, u64 address);  // null where all have values

// Short ways of an access are open while a group runs and no index outside of an array waits for its access.
void open_ways(Worker &);
void shut_ways(Worker &);

// Slow ways of an access (check_access.cpp)
void access_bytes(u64 address, u64 bytes, unsigned access, u64 site);
void touch_pieces(Worker &, u64 address, u64 bytes, unsigned access, u64 site, u32 argument);
void atomic_access(u64 address, unsigned bytes, unsigned access, u64 site);

// Looks up who is running, and since when.
inline __attribute__((always_inline)) void begin_turn(Worker &w) {
  w.lane = current_lane;
  u32 index = w.lane->index;
  w.stamp = w.stamps[index / SOFT_WIDTH % MAX_SIMDGROUPS] * FOUR_TIMES;
  w.own_stamp = w.stamp + (1 + index % SOFT_WIDTH) * FOUR_TIMES;
  for (unsigned space = 0; space < 2; space++) {
    Moment met = w.met[index / SOFT_WIDTH % MAX_SIMDGROUPS][space];
    w.now[space] = (met > w.base[space] ? met : w.base[space]) | (Moment)index << SITE_BITS;
  }
}

inline Moment place_in_code(const Worker &w, u64 site) {
  u64 offset = site - w.image_start;
  return offset > SITE_MASK ? 0 : offset;
}

// Whether a moment came before this one, because it is the same thread's or by a meeting of their simdgroup.
inline bool ordered(Moment then, Moment now) {
  u64 differs = then ^ now;
  if (!(differs >> SITE_BITS & (MAX_THREADS - 1))) return true;
  return !(differs >> SIMDGROUP_SHIFT & (MAX_SIMDGROUPS - 1)) && then >> TICK_SHIFT < now >> TICK_SHIFT;
}

inline bool conflicts(const Worker &w, Moment then, unsigned space) {
  return then >= w.base[space] && !ordered(then, w.now[space]);
}

// Keeps this moment in a pair of them so that a later conflict with any is one with either.
inline void remember(Moment base, Moment now, Moment &one, Moment &two) {
  if (one < base) {
    one = now, two = 0;
  } else if (ordered(one, now)) {
    one = now;
  } else if (two < base || ordered(two, now)) {
    two = now;
    if (!((one ^ now) >> SIMDGROUP_SHIFT)) one |= SHARED;
  } else {
    constexpr u32 MASK = MAX_SIMDGROUPS - 1;
    bool third = !((one ^ two) >> SIMDGROUP_SHIFT & MASK) && ((one ^ now) >> SIMDGROUP_SHIFT & MASK);
    if (third) two = now, one &= ~SHARED;
  }
}

}  // namespace soft
