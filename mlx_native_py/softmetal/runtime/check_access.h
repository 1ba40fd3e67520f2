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

// Answers false where the runtime's own memory is touched, which is nobody's business. Does not return from a bad access.
inline bool enter(Worker &w, const Block &block, u64 address, u64 bytes, unsigned access, u64 site) {
  u64 offset = address % BLOCK;
  bool known = offset >= block.low && offset + bytes <= block.high && !(access & (SOFT_READ | SOFT_WRITE) & ~block.access);
  if (__builtin_expect(known, 1)) return true;
  if (block.foreign) return false;
  if (allowed(w, address, bytes, access)) return true;
  if (runtime_memory(w, address, bytes)) return false;
  out_of_bounds(w, {address, bytes, site, access, 0});
}

inline void check_atomics(Worker &w, Block &block, unsigned offset, unsigned bytes, unsigned access, const Finding &found) {
  Finding finding = found;
  for (unsigned i = offset; i < offset + bytes; i++) {
    const AtomicCell &cell = block.atomics->cells[i];
    const u32 slices[4] = {cell.writer, cell.writer2, cell.reader, cell.reader2};
    for (unsigned k = 0; k < (access & SOFT_WRITE ? 4u : 2u); k++) {
      if (!conflicts(w, slices[k], block.space)) continue;
      finding.other_access = SOFT_ATOMIC | (k < 2 ? SOFT_WRITE : SOFT_READ);
      return race_in_group(w, finding, slices[k], block.space);
    }
  }
}

// Looks at one cell and leaves the running slice in it; the slice in conflict, or 0.
template <unsigned ACCESS> inline u32 visit(const Worker &w, Cell &cell, unsigned space, unsigned &other) {
  u32 conflict = 0;
  other = SOFT_WRITE;
  if (conflicts(w, cell.writer, space)) conflict = cell.writer;
  if (ACCESS == SOFT_READ) {
    if (cell.reader != w.slice) remember(w, cell.reader, cell.reader2, space);
    return conflict;
  }
  const u32 readers[2] = {cell.reader, cell.reader2};
  for (u32 reader : readers) {
    if (!conflict && conflicts(w, reader, space)) conflict = reader, other = SOFT_READ;
  }
  cell = {w.slice, 0, 0};
  return conflict;
}

template <unsigned BYTES, unsigned ACCESS> inline void touch(Worker &w, Block &block, u64 address, u64 site) {
  unsigned offset = address % BLOCK;
  u64 *bits = ACCESS == SOFT_READ ? block.reads : block.writes;
  bits[offset / 64] |= ((1ull << BYTES) - 1) << (offset % 64);
  if (block.read_only) return;
  if (current_lane != w.lane) begin_slice(w);
  if (BYTES < 4 && block.shift) split_cells(block);
  Cell *cells = block.cells + (offset >> block.shift);
  unsigned count = block.shift ? (BYTES + 3) / 4 : BYTES, other = 0;
  u32 conflict = 0;
  for (unsigned i = 0; i < count; i++) {
    unsigned kind;
    if (u32 found = visit<ACCESS>(w, cells[i], block.space, kind)) conflict = found, other = kind;
  }
  Finding finding = {address, BYTES, site, ACCESS, other};
  if (__builtin_expect(conflict != 0, 0)) race_in_group(w, finding, conflict, block.space);
  if (__builtin_expect(block.atomics != nullptr, 0)) check_atomics(w, block, offset, BYTES, ACCESS, finding);
}

template <unsigned BYTES, unsigned ACCESS> inline void access(const volatile void *pointer, u64 site) {
  Worker *w = check_worker;
  u64 address = (u64)pointer;
  if (!w || !w->group || address - w->stacks < w->stack_bytes) return;
  if (__builtin_expect(w->outside.array != 0, 0)) outside_array(*w, {address, BYTES, site, ACCESS, 0});
  if (address % BYTES) return access_bytes(address, BYTES, ACCESS, site);
  Block &block = block_at(*w, address);
  if (enter(*w, block, address, BYTES, ACCESS, site)) touch<BYTES, ACCESS>(*w, block, address, site);
}

}  // namespace soft
