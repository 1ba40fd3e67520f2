// The way of every load and store: bounds, then order. Short ways are inline in each callback; the others are calls.
#pragma once
#include "check_shadow.h"

// What instrumented kernels call, and where in them the call stands.
#define CALLBACK extern "C" __attribute__((visibility("default")))
#define SITE ((soft::u64)__builtin_return_address(0))
#define SOFT_INLINE inline __attribute__((always_inline))
#define SOFT_APART __attribute__((noinline))

namespace soft {

inline Block &block_at(Worker &w, u64 address) {
  u64 offset = address - (u64)w.tg;
  if (offset < TG_SPAN) return w.tg_blocks[offset / BLOCK];
  u64 key = address / BLOCK;
  u32 mask = w.table_size - 1, i = (u32)((key * 0x9E3779B97F4A7C15ull) >> 40) & mask;
  for (Block *block; (block = w.table[i]); i = (i + 1) & mask) {
    if (block->key != key) continue;
    if (block->serial != w.serial) refresh(w, *block);
    return *block;
  }
  return *make_block(w, key);
}

// The block that an argument touches, which is mostly one of those that it touched last.
SOFT_INLINE Block &argument_block(Worker &w, u32 slot, u64 address) {
  u64 key = address / BLOCK;
  Block *&near = w.argument_blocks[slot][key % NEAR_BLOCKS];
  if (__builtin_expect(near && near->key == key && near->serial == w.serial, 1)) return *near;
  return *(near = &block_at(w, address));
}

// Answers false where the runtime's own memory is touched, which is nobody's business. Does not return from a bad access.
inline bool enter(Worker &w, const Block &block, u64 address, u64 bytes, unsigned access, u64 site) {
  u64 offset = address % BLOCK;
  bool known = offset >= block.low && offset + bytes <= block.high && !(access & (SOFT_READ | SOFT_WRITE) & ~block.access);
  if (__builtin_expect(known, 1)) return true;
  if (block.foreign) return false;
  if (allowed(w, address, bytes, access)) return true;
  if (runtime_memory(w, address, bytes)) return false;
  out_of_bounds(w, {address, bytes, site, access, 0, 0, 0});
}

SOFT_INLINE bool inside(const soft_argument_zone &own, u64 offset, u64 bytes, unsigned access) {
  return offset < own.length && own.length - offset >= bytes && !(access & (SOFT_READ | SOFT_WRITE) & ~own.access);
}

// Notes a read where nobody can write.
template <unsigned BYTES> SOFT_INLINE void see(const soft_argument_zone &own, u64 offset) {
  if (BYTES >= 4 && __builtin_expect(!(offset % 4), 1)) __builtin_memset(own.seen_words + offset / 4, 1, BYTES / 4);
  else __builtin_memset(own.seen + offset, 1, BYTES);
}

// The argument that the address is of, if any; then it becomes that of the memory. So does one that another dispatch
// has stored. Does not return from a bad access.
inline const soft_argument_zone *through_argument(Worker &w, u64 &address, u64 bytes, unsigned access, u64 site) {
  u64 zone = address - w.all_zones;
  if (zone >= ZONE_BYTES) return nullptr;
  const soft_argument_zone &own = w.arguments[zone >> SOFT_ZONE_SHIFT];
  u64 offset = address - own.start;
  address += own.delta;
  if (!own.argument) return nullptr;
  if (!inside(own, offset, bytes, access)) out_of_bounds(w, {address, bytes, site, access, 0, own.argument, 0});
  if (own.seen && !(access & SOFT_WRITE)) __builtin_memset(own.seen + offset, 1, bytes);
  return &own;
}

// An access that came before, of another thread, without order.
struct Conflict {
  Moment moment;
  u32 access;
};

inline void check_atomics(Worker &w, Block &block, unsigned offset, unsigned bytes, unsigned access, Finding finding) {
  for (unsigned i = offset; i < offset + bytes; i++) {
    const AtomicCell &cell = block.atomics->cells[i];
    const Moment moments[4] = {cell.writer, cell.writer2, cell.reader, cell.reader2};
    for (unsigned k = 0; k < (access & SOFT_WRITE ? 4u : 2u); k++) {
      if (!conflicts(w, moments[k], block.space)) continue;
      finding.other_access = SOFT_ATOMIC | (k < 2 ? SOFT_WRITE : SOFT_READ);
      finding.other_site = site_of(moments[k]);
      return race_in_group(w, finding, moments[k]);
    }
  }
}

// Looks at one cell and leaves this moment in it.
template <unsigned ACCESS>
SOFT_INLINE void visit(Moment base, Moment now, const Cells &cells, unsigned i, Conflict &conflict) {
  auto clashes = [=](Moment then) { return then >= base && !ordered(then, now); };
  Moment &writer = cells.writers[i], &reader = cells.readers[i], &reader2 = cells.readers2[i];
  if (clashes(writer)) conflict = {writer, SOFT_WRITE};
  if (ACCESS == SOFT_READ) return remember(base, now, reader, reader2);
  if (!conflict.moment && clashes(reader)) conflict = {reader, SOFT_READ};
  if (!conflict.moment && clashes(reader2)) conflict = {reader2, SOFT_READ};
  writer = now, reader = reader2 = 0;
}

// Of the bytes, as bits, whether four that belong together, or all if they are fewer, are set.
template <unsigned BYTES> inline bool whole_word(u64 bits) {
  if (BYTES <= 4) return bits == (1u << BYTES) - 1;
  u64 all = bits & bits >> 1 & bits >> 2 & bits >> 3;
  return all & 0x1111;
}

// Whether a read adds nothing to what is known, since two other threads have read there, of different simdgroups, or of
// this one since it last met: then the write before has been held against one of them, and the next one will be.
SOFT_INLINE bool settled_by_others(Moment reader, Moment reader2, Moment base, Moment now) {
  u64 differs = reader ^ now;
  if (reader < base) return false;
  if (reader & SHARED && !(differs >> SIMDGROUP_SHIFT)) return true;
  if (reader2 < base) return false;
  if ((reader ^ reader2) >> SIMDGROUP_SHIFT & (MAX_SIMDGROUPS - 1)) return true;
  return !((differs | (reader2 ^ now)) >> SIMDGROUP_SHIFT);
}

// The same, or since this thread has read there since the last write, which forgets readers; if it has met others since,
// its moment is renewed.
SOFT_INLINE bool settled(Moment &reader, Moment reader2, Moment base, Moment now) {
  u64 differs = reader ^ now;
  if (!(differs >> SITE_BITS)) return true;
  if (reader < base || differs >> SITE_BITS & (MAX_THREADS - 1)) return settled_by_others(reader, reader2, base, now);
  return reader = now | site_of(reader), true;
}

// Only of the thread whose turn has begun.
template <unsigned BYTES, unsigned SPACE> SOFT_INLINE bool read_settled(const Worker &w, Moment *readers, u64 address) {
  if (__builtin_expect(current_lane != w.lane, 0)) return false;
  readers += address % BLOCK / 4;
  for (unsigned i = 0; i < BYTES / 4; i++) {
    if (!settled(readers[i], readers[CELLS + i], w.base[SPACE], w.now[SPACE])) return false;
  }
  return true;
}

// Whether all cells have the stamp of the thread that is running, or of its simdgroup.
template <unsigned BYTES> SOFT_INLINE bool stamped(const Worker &w, u64 offset) {
  constexpr u64 MASK = BYTES < 16 ? (1ull << BYTES * 4 % 64) - 1 : ~0ull;
  u64 found = 0;
  __builtin_memcpy(&found, stamps_at(w, offset), BYTES / 2);
  return found == (w.stamp & MASK) || found == (w.own_stamp & MASK);
}

template <unsigned BYTES> SOFT_INLINE void put_stamps(Worker &w, u64 offset, u16 stamp) {
  for (unsigned i = 0; i < (BYTES + 3) / 4; i++) stamps_at(w, offset)[i] = stamp;
}

// Has this thread pass quickly when it comes again, or all of the simdgroup where two of them, or others, have been.
template <unsigned BYTES> SOFT_INLINE void stamp_settled(Worker &w, const Moment *readers, u64 offset) {
  Moment base = w.base[SOFT_THREADGROUP], now = w.now[SOFT_THREADGROUP];
  readers += offset % BLOCK / 4;
  for (unsigned i = 0; i < BYTES / 4; i++) {
    bool by_others = settled_by_others(readers[i], readers[CELLS + i], base, now);
    stamps_at(w, offset)[i] = (u16)(by_others ? w.stamp : w.own_stamp);
  }
}

// The bytes lie in one word of 64, and words of 4 are whole.
template <unsigned BYTES, unsigned ACCESS, unsigned SPACE>
SOFT_INLINE void touch(Worker &w, Block &block, u64 address, u64 site, u32 argument) {
  unsigned offset = address % BLOCK, word = offset / 64;
  u64 mask = ((1ull << BYTES) - 1) << (offset % 64);
  if (ACCESS == SOFT_READ) block.reads[word] |= mask;
  if (current_lane != w.lane) begin_turn(w);
  if (BYTES < 4 && block.shift && !block.read_only) split_cells(w, block);
  if (ACCESS == SOFT_READ) {
    u64 fresh = block.fresh ? block.fresh[word] & ~block.writes[word] & mask : 0;
    if (__builtin_expect(fresh && whole_word<BYTES>(fresh >> (offset % 64)), 0))
      uninitialised(w, {address, BYTES, site, ACCESS, 0, argument, 0});
    if (block.read_only) return;
  } else {
    block.writes[word] |= mask;
    if (SPACE == SOFT_THREADGROUP) put_stamps<BYTES>(w, address - (u64)w.tg, 0);
  }
  Conflict conflict = {0, 0};
  Moment now = w.now[SPACE] | place_in_code(w, site);
  unsigned first = offset >> block.shift, end = first + (block.shift ? (BYTES + 3) / 4 : BYTES);
  for (unsigned i = first; i < end; i++) visit<ACCESS>(w.base[SPACE], now, block.cells, i, conflict);
  if (__builtin_expect(!conflict.moment && !block.atomics, 1)) return;
  Finding finding = {address, BYTES, site, ACCESS, conflict.access, argument, site_of(conflict.moment)};
  if (conflict.moment) race_in_group(w, finding, conflict.moment);
  if (block.atomics) check_atomics(w, block, offset, BYTES, ACCESS, finding);
}

template <unsigned BYTES> SOFT_INLINE bool in_one_word(u64 address) {
  return !(address % (BYTES < 4 ? BYTES : 4)) && (BYTES <= 4 || address % 64 <= 64 - BYTES);
}

template <unsigned BYTES, unsigned ACCESS, unsigned SPACE>
SOFT_APART void touch_apart(Worker &w, Block &block, u64 address, u64 site, u32 argument) {
  touch<BYTES, ACCESS, SPACE>(w, block, address, site, argument);
}

template <unsigned BYTES, unsigned ACCESS> SOFT_APART void touch_argument(Worker &w, u64 address, u64 site, u32 argument) {
  if (__builtin_expect(!in_one_word<BYTES>(address), 0)) return touch_pieces(w, address, BYTES, ACCESS, site, argument);
  Block &block = argument_block(w, argument - 1, address);
  bool plain = BYTES >= 4 && block.shift && !block.atomics && !block.read_only;
  if (ACCESS == SOFT_READ && plain && read_settled<BYTES, SOFT_DEVICE>(w, block.cells.readers, address)) {
    block.reads[address % BLOCK / 64] |= ((1ull << BYTES) - 1) << (address % 64);
    return;
  }
  touch_apart<BYTES, ACCESS, SOFT_DEVICE>(w, block, address, site, argument);
}

// Memory of the runtime, resident buffers, and whatever is wrong.
template <unsigned BYTES, unsigned ACCESS> SOFT_APART void access_elsewhere(Worker &w, u64 address, u64 site) {
  if (!w.group) return;
  if (address - w.stacks < w.stack_bytes) return access_private(w, address, BYTES, ACCESS, site);
  if (w.outside.array) outside_array(w, {address, BYTES, site, ACCESS, 0, 0, 0});
  if (address - w.state < w.state_bytes || address - (u64)w.group->launch < sizeof(soft_launch)) return;
  if (auto *own = through_argument(w, address, BYTES, ACCESS, site)) return touch_argument<BYTES, ACCESS>(w, address, site, own->argument);
  if (!in_one_word<BYTES>(address)) return access_bytes(address, BYTES, ACCESS, site);
  Block &block = block_at(w, address);
  if (!enter(w, block, address, BYTES, ACCESS, site)) return;
  if (block.space == SOFT_THREADGROUP) return touch<BYTES, ACCESS, SOFT_THREADGROUP>(w, block, address, site, 0);
  touch<BYTES, ACCESS, SOFT_DEVICE>(w, block, address, site, 0);
}

template <unsigned BYTES, unsigned ACCESS> SOFT_APART void access_argument(Worker &w, u64 address, u64 site) {
  const soft_argument_zone &own = w.arguments[(address - w.zones) >> SOFT_ZONE_SHIFT];
  u64 offset = address - own.start;
  if (__builtin_expect(!inside(own, offset, BYTES, ACCESS), 0)) return access_elsewhere<BYTES, ACCESS>(w, address, site);
  if (ACCESS == SOFT_READ && own.seen) return see<BYTES>(own, offset);
  touch_argument<BYTES, ACCESS>(w, address + own.delta, site, own.argument);
}

// A variable begins where a block does, and what is behind its end has no stamps and no readers.
template <unsigned BYTES, unsigned ACCESS> SOFT_APART void touch_variable(Worker &w, u64 address, u64 site) {
  Block &block = w.tg_blocks[(address - (u64)w.tg) / BLOCK];
  if (__builtin_expect(address % BLOCK + BYTES > block.high, 0)) return access_elsewhere<BYTES, ACCESS>(w, address, site);
  touch<BYTES, ACCESS, SOFT_THREADGROUP>(w, block, address, site, 0);
}

template <unsigned BYTES> SOFT_APART void read_shared(Worker &w, u64 address, u64 site) {
  u64 offset = address - (u64)w.tg;
  Moment *readers = w.tg_readers[offset / BLOCK];
  if (__builtin_expect(readers && read_settled<BYTES, SOFT_THREADGROUP>(w, readers, address), 1))
    return stamp_settled<BYTES>(w, readers, offset);
  touch_variable<BYTES, SOFT_READ>(w, address, site);
}

// Threadgroup memory, or elsewhere.
template <unsigned BYTES, unsigned ACCESS> SOFT_APART void access_shared(Worker &w, u64 address, u64 site) {
  u64 offset = address - (u64)w.tg;
  bool ready = offset < w.tg_ready && in_one_word<BYTES>(address);
  if (__builtin_expect(!ready, 0)) return access_elsewhere<BYTES, ACCESS>(w, address, site);
  if (ACCESS == SOFT_READ && BYTES >= 4) {
    if (__builtin_expect(current_lane == w.lane && stamped<BYTES>(w, offset), 1)) return;
    return read_shared<BYTES>(w, address, site);
  }
  touch_variable<BYTES, ACCESS>(w, address, site);
}

template <unsigned BYTES, unsigned ACCESS> SOFT_INLINE void access(const volatile void *pointer, u64 site) {
  Worker &w = *check_worker;
  u64 address = (u64)pointer, zone = address - w.zones;
  if (__builtin_expect(zone >= ZONE_BYTES, 0)) return access_shared<BYTES, ACCESS>(w, address, site);
  const soft_argument_zone &own = w.arguments[zone >> SOFT_ZONE_SHIFT];
  u64 offset = address - own.start;
  bool ready = ACCESS == SOFT_READ && (BYTES == 4 ? offset < own.ready_words && !(offset % 4)
                                                  : offset < own.ready && own.ready - offset >= BYTES);
  if (__builtin_expect(!ready, 0)) return access_argument<BYTES, ACCESS>(w, address, site);
  see<BYTES>(own, offset);
}

}  // namespace soft
