// Accesses of odd sizes, and atomic ones.
#include "check_access.h"

namespace soft {

// Whether nothing has been ordered after the slice since it began.
static bool goes_on(const Worker &w, const u32 *epoch) {
  if (w.slice < w.base[SOFT_DEVICE] || w.slice < w.base[SOFT_THREADGROUP]) return false;
  const Slice &slice = w.slices[w.slice - w.first];
  return slice.epoch[0] == epoch[0] && slice.epoch[1] == epoch[1];
}

void begin_slice(Worker &w) {
  w.lane = current_lane;
  const u32 *epoch = w.simd_epoch[simdgroup_of(w.lane->index)];
  w.slice = w.own[w.lane->index];
  if (goes_on(w, epoch)) return;
  w.slice = w.own[w.lane->index] = ++w.newest;
  u32 index = w.slice - w.first;
  if (index >= w.slice_capacity) {
    Undisturbed hold;
    w.slice_capacity = 2 * w.slice_capacity + 4096;
    w.slices = (Slice *)realloc(w.slices, w.slice_capacity * sizeof(Slice));
    if (!w.slices) __builtin_trap();
  }
  w.slices[index] = {w.lane->index, {epoch[0], epoch[1]}};
}

template <unsigned ACCESS> static void touch_piece(Worker &w, u64 address, unsigned bytes, u64 site, u32 argument) {
  Block &block = block_at(w, address);
  switch (bytes) {
    case 1: return touch<1, ACCESS>(w, block, address, site, argument);
    case 2: return touch<2, ACCESS>(w, block, address, site, argument);
    case 4: return touch<4, ACCESS>(w, block, address, site, argument);
    case 8: return touch<8, ACCESS>(w, block, address, site, argument);
    default: return touch<16, ACCESS>(w, block, address, site, argument);
  }
}

void touch_pieces(Worker &w, u64 address, u64 bytes, unsigned access, u64 site, u32 argument) {
  while (bytes) {
    unsigned piece = 16;
    while (address % piece || piece > bytes) piece /= 2;
    if (access & SOFT_READ) touch_piece<SOFT_READ>(w, address, piece, site, argument);
    if (access & SOFT_WRITE) touch_piece<SOFT_WRITE>(w, address, piece, site, argument);
    address += piece, bytes -= piece;
  }
}

// Whether any of the bytes has been written; what a copy takes along may be padding.
static bool any_written(Worker &w, u64 address, u64 bytes) {
  for (u64 end = address + bytes; address < end; address++) {
    const Block &block = block_at(w, address);
    unsigned offset = address % BLOCK;
    if (!block.fresh || !((block.fresh[offset / 64] & ~block.writes[offset / 64]) >> (offset % 64) & 1)) return true;
  }
  return false;
}

void access_bytes(u64 address, u64 bytes, unsigned access, u64 site) {
  Worker *w = check_worker;
  if (!w || !w->group || !bytes || address - w->stacks < w->stack_bytes) return;
  if (w->outside.array) outside_array(*w, {address, bytes, site, access, 0, 0, 0});
  u32 slot = ~0u;
  if (!through_argument(*w, address, bytes, access, site, slot) && !allowed(*w, address, bytes, access)) {
    if (runtime_memory(*w, address, bytes)) return;
    out_of_bounds(*w, {address, bytes, site, access, 0, 0, 0});
  }
  w->partly_written = access & SOFT_READ && any_written(*w, address, bytes);
  touch_pieces(*w, address, bytes, access, site, slot + 1);
  w->partly_written = false;
}

// The plain access in conflict with an atomic one.
static Conflict plain_conflict(const Worker &w, const Block &block, unsigned offset, unsigned bytes, unsigned access) {
  for (unsigned i = offset >> block.shift; i <= (offset + bytes - 1) >> block.shift; i++) {
    const Cell &cell = block.cells[i];
    if (conflicts(w, cell.writer, block.space)) return {cell.writer, SOFT_WRITE, cell.written_at};
    if (!(access & SOFT_WRITE)) continue;
    if (conflicts(w, cell.reader, block.space)) return {cell.reader, SOFT_READ, cell.read_at};
    if (conflicts(w, cell.reader2, block.space)) return {cell.reader2, SOFT_READ, cell.read2_at};
  }
  return {0, 0, 0};
}

static void remember_atomic(Worker &w, Block &block, unsigned offset, unsigned bytes, unsigned access, u32 site) {
  Atomics &atomics = atomics_of(block);
  u64 mask = ((1ull << bytes) - 1) << (offset % 64);
  (access & SOFT_WRITE ? atomics.writes : atomics.reads)[offset / 64] |= mask;
  for (unsigned i = offset; i < offset + bytes; i++) {
    AtomicCell &cell = atomics.cells[i];
    if (access & SOFT_WRITE)
      remember(w, {cell.writer, cell.writer2, cell.written_at, cell.written2_at}, block.space, site);
    else
      remember(w, {cell.reader, cell.reader2, cell.read_at, cell.read2_at}, block.space, site);
  }
}

void atomic_access(u64 address, unsigned bytes, unsigned access, u64 site) {
  Worker *w = check_worker;
  if (!w || !w->group || address - w->stacks < w->stack_bytes) return;
  access |= SOFT_ATOMIC;
  if (w->outside.array) outside_array(*w, {address, bytes, site, access, 0, 0, 0});
  u32 slot = ~0u;
  bool known = through_argument(*w, address, bytes, access, site, slot);
  Block &block = block_at(*w, address);
  if (address % bytes) out_of_bounds(*w, {address, bytes, site, access, 0, slot + 1, 0});
  if (!known && !enter(*w, block, address, bytes, access, site)) return;
  unsigned offset = address % BLOCK;
  u64 mask = ((1ull << bytes) - 1) << (offset % 64);
  if (access & SOFT_READ && block.fresh && (block.fresh[offset / 64] & ~block.writes[offset / 64] & mask) == mask)
    uninitialised(*w, {address, bytes, site, access, 0, slot + 1, 0});
  if (block.read_only) return (void)(block.reads[offset / 64] |= mask);
  if (current_lane != w->lane) begin_slice(*w);
  if (bytes < 4 && block.shift) split_cells(block);
  Conflict conflict = plain_conflict(*w, block, offset, bytes, access);
  if (conflict.slice) race_in_group(*w, {address, bytes, site, access, conflict.access, slot + 1, conflict.site}, conflict.slice);
  remember_atomic(*w, block, offset, bytes, access, (u32)(site - w->image_start));
}

}  // namespace soft
