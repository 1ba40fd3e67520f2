// The way of every load and store: bounds, then order. Kept inline; only trouble and odd sizes leave it.
#pragma once
#include "check_shadow.h"

namespace soft {

inline Block &block_at(Worker &w, u64 address) {
  u64 offset = address - (u64)w.tg;
  if (offset < TG_BLOCKS * BLOCK) return w.tg_blocks[offset / BLOCK];
  u64 key = address / BLOCK;
  u32 mask = w.table_size - 1, i = (u32)((key * 0x9E3779B97F4A7C15ull) >> 40) & mask;
  for (Block *block; (block = w.table[i]); i = (i + 1) & mask) {
    if (block->key != key) continue;
    if (block->serial != w.serial) refresh(w, *block);
    return *block;
  }
  return *make_block(w, key);
}

// The block that an argument touches, which is mostly the one that it touched last.
inline Block &argument_block(Worker &w, u32 slot, u64 address) {
  Block *last = w.argument_blocks[slot];
  if (__builtin_expect(last && last->key == address / BLOCK && last->serial == w.serial, 1)) return *last;
  return *(w.argument_blocks[slot] = &block_at(w, address));
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

// Whether the address is an argument's; then it becomes that of the memory. Does not return from a bad access.
inline bool through_argument(Worker &w, u64 &address, u64 bytes, unsigned access, u64 site, u32 &slot) {
  u64 zone = address - w.zones;
  if (zone >= ZONE_BYTES) return false;
  slot = (u32)(zone >> SOFT_ZONE_SHIFT);
  const soft_argument_zone &own = w.check->zones[slot];
  u64 offset = address - own.start;
  bool inside = offset <= own.length && own.length - offset >= bytes;
  address += own.delta;
  if (__builtin_expect(inside && !(access & (SOFT_READ | SOFT_WRITE) & ~own.access), 1)) return true;
  out_of_bounds(w, {address, bytes, site, access, 0, slot + 1, 0});
}

inline void check_atomics(Worker &w, Block &block, unsigned offset, unsigned bytes, unsigned access, const Finding &found) {
  Finding finding = found;
  for (unsigned i = offset; i < offset + bytes; i++) {
    const AtomicCell &cell = block.atomics->cells[i];
    const u32 slices[4] = {cell.writer, cell.writer2, cell.reader, cell.reader2};
    const u32 sites[4] = {cell.written_at, cell.written2_at, cell.read_at, cell.read2_at};
    for (unsigned k = 0; k < (access & SOFT_WRITE ? 4u : 2u); k++) {
      if (!conflicts(w, slices[k], block.space)) continue;
      finding.other_access = SOFT_ATOMIC | (k < 2 ? SOFT_WRITE : SOFT_READ);
      finding.other_site = sites[k];
      return race_in_group(w, finding, slices[k]);
    }
  }
}

// An access that came before, of another thread, without order.
struct Conflict {
  u32 slice, access, site;
};

// Looks at one cell and leaves the running slice in it.
template <unsigned ACCESS> inline void visit(const Worker &w, Cell &cell, unsigned space, u32 site, Conflict &conflict) {
  if (conflicts(w, cell.writer, space)) conflict = {cell.writer, SOFT_WRITE, cell.written_at};
  if (ACCESS == SOFT_READ) {
    if (cell.reader != w.slice) remember(w, {cell.reader, cell.reader2, cell.read_at, cell.read2_at}, space, site);
    return;
  }
  if (!conflict.slice && conflicts(w, cell.reader, space)) conflict = {cell.reader, SOFT_READ, cell.read_at};
  if (!conflict.slice && conflicts(w, cell.reader2, space)) conflict = {cell.reader2, SOFT_READ, cell.read2_at};
  cell.writer = w.slice, cell.reader = cell.reader2 = 0;
  cell.written_at = site;
}

// Of the bytes, as bits, whether four that belong together, or all if they are fewer, are set.
template <unsigned BYTES> inline bool whole_word(u64 bits) {
  if (BYTES <= 4) return bits == (1u << BYTES) - 1;
  u64 all = bits & bits >> 1 & bits >> 2 & bits >> 3;
  return all & 0x1111;
}

template <unsigned BYTES, unsigned ACCESS>
inline void touch(Worker &w, Block &block, u64 address, u64 site, u32 argument) {
  unsigned offset = address % BLOCK, word = offset / 64;
  u64 mask = ((1ull << BYTES) - 1) << (offset % 64);
  if (ACCESS == SOFT_READ) {
    if (block.fresh && __builtin_expect(whole_word<BYTES>((block.fresh[word] & ~block.writes[word] & mask) >> (offset % 64)), 0))
      uninitialised(w, {address, BYTES, site, ACCESS, 0, argument, 0});
    block.reads[word] |= mask;
  } else {
    block.writes[word] |= mask;
  }
  if (block.read_only) return;
  if (current_lane != w.lane) begin_slice(w);
  if (BYTES < 4 && block.shift) split_cells(block);
  Cell *cells = block.cells + (offset >> block.shift);
  unsigned count = block.shift ? (BYTES + 3) / 4 : BYTES;
  Conflict conflict = {0, 0, 0};
  for (unsigned i = 0; i < count; i++) visit<ACCESS>(w, cells[i], block.space, (u32)(site - w.image_start), conflict);
  Finding finding = {address, BYTES, site, ACCESS, conflict.access, argument, conflict.site};
  if (__builtin_expect(conflict.slice != 0, 0)) race_in_group(w, finding, conflict.slice);
  if (__builtin_expect(block.atomics != nullptr, 0)) check_atomics(w, block, offset, BYTES, ACCESS, finding);
}

template <unsigned BYTES, unsigned ACCESS> inline void access(const volatile void *pointer, u64 site) {
  Worker *w = check_worker;
  u64 address = (u64)pointer;
  if (!w || !w->group || address - w->stacks < w->stack_bytes) return;
  if (__builtin_expect(w->outside.array != 0, 0)) outside_array(*w, {address, BYTES, site, ACCESS, 0, 0, 0});
  u32 slot = 0;
  if (through_argument(*w, address, BYTES, ACCESS, site, slot)) {
    if (__builtin_expect(address % BYTES, 0)) return touch_pieces(*w, address, BYTES, ACCESS, site, slot + 1);
    return touch<BYTES, ACCESS>(*w, argument_block(*w, slot, address), address, site, slot + 1);
  }
  if (ACCESS == SOFT_READ && (address - w->state < w->state_bytes || address - (u64)w->group->launch < sizeof(soft_launch))) return;
  if (address % BYTES) return access_bytes(address, BYTES, ACCESS, site);
  Block &block = block_at(*w, address);
  if (enter(*w, block, address, BYTES, ACCESS, site)) touch<BYTES, ACCESS>(*w, block, address, site, 0);
}

}  // namespace soft
