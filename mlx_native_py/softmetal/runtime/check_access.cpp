// Accesses of odd sizes, and atomic ones.
#include "check_access.h"

namespace soft {

template <unsigned BYTES> static void touch_piece(Worker &w, u64 address, unsigned access, u64 site, u32 argument) {
  Block &block = block_at(w, address);
  bool shared = block.space == SOFT_THREADGROUP;
  if (access & SOFT_READ) {
    if (shared) touch<BYTES, SOFT_READ, SOFT_THREADGROUP>(w, block, address, site, argument);
    else touch<BYTES, SOFT_READ, SOFT_DEVICE>(w, block, address, site, argument);
  }
  if (access & SOFT_WRITE) {
    if (shared) touch<BYTES, SOFT_WRITE, SOFT_THREADGROUP>(w, block, address, site, argument);
    else touch<BYTES, SOFT_WRITE, SOFT_DEVICE>(w, block, address, site, argument);
  }
}

void touch_pieces(Worker &w, u64 address, u64 bytes, unsigned access, u64 site, u32 argument) {
  while (bytes) {
    unsigned piece = 16;
    while (address % piece || piece > bytes) piece /= 2;
    switch (piece) {
      case 1: touch_piece<1>(w, address, access, site, argument); break;
      case 2: touch_piece<2>(w, address, access, site, argument); break;
      case 4: touch_piece<4>(w, address, access, site, argument); break;
      case 8: touch_piece<8>(w, address, access, site, argument); break;
      default: touch_piece<16>(w, address, access, site, argument);
    }
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
  if (!w->group || !bytes) return;
  if (address - w->stacks < w->stack_bytes) return access_private(*w, address, bytes, access, site);
  if (w->outside.array) outside_array(*w, {address, bytes, site, access, 0, 0, 0});
  const soft_argument_zone *own = through_argument(*w, address, bytes, access, site);
  if (own && own->seen && access == SOFT_READ) return;
  if (!own && !allowed(*w, address, bytes, access)) {
    if (runtime_memory(*w, address, bytes)) return;
    out_of_bounds(*w, {address, bytes, site, access, 0, 0, 0});
  }
  w->partly_written = access & SOFT_READ && any_written(*w, address, bytes);
  touch_pieces(*w, address, bytes, access, site, own ? own->argument : 0);
  w->partly_written = false;
}

// The plain access in conflict with an atomic one.
static Conflict plain_conflict(const Worker &w, const Block &block, unsigned offset, unsigned bytes, unsigned access) {
  for (unsigned i = offset >> block.shift; i <= (offset + bytes - 1) >> block.shift; i++) {
    const Moment writer = block.cells.writers[i], reader = block.cells.readers[i], reader2 = block.cells.readers2[i];
    if (conflicts(w, writer, block.space)) return {writer, SOFT_WRITE};
    if (!(access & SOFT_WRITE)) continue;
    if (conflicts(w, reader, block.space)) return {reader, SOFT_READ};
    if (conflicts(w, reader2, block.space)) return {reader2, SOFT_READ};
  }
  return {0, 0};
}

static void remember_atomic(Worker &w, Block &block, unsigned offset, unsigned bytes, unsigned access, u64 site) {
  Atomics &atomics = atomics_of(w, block);
  u64 mask = ((1ull << bytes) - 1) << (offset % 64);
  (access & SOFT_WRITE ? atomics.writes : atomics.reads)[offset / 64] |= mask;
  Moment base = w.base[block.space], now = w.now[block.space] | place_in_code(w, site);
  for (unsigned i = offset; i < offset + bytes; i++) {
    AtomicCell &cell = atomics.cells[i];
    if (access & SOFT_WRITE) remember(base, now, cell.writer, cell.writer2);
    else remember(base, now, cell.reader, cell.reader2);
  }
}

void atomic_access(u64 address, unsigned bytes, unsigned access, u64 site) {
  Worker *w = check_worker;
  if (!w->group) return;
  if (address - w->stacks < w->stack_bytes) return access_private(*w, address, bytes, access, site);
  access |= SOFT_ATOMIC;
  if (w->outside.array) outside_array(*w, {address, bytes, site, access, 0, 0, 0});
  const soft_argument_zone *own = through_argument(*w, address, bytes, access, site);
  u32 argument = own ? own->argument : 0;
  Block &block = block_at(*w, address);
  if (address % bytes) out_of_bounds(*w, {address, bytes, site, access, 0, argument, 0});
  if (!own && !enter(*w, block, address, bytes, access, site)) return;
  unsigned offset = address % BLOCK;
  u64 mask = ((1ull << bytes) - 1) << (offset % 64);
  if (access & SOFT_READ && block.fresh && (block.fresh[offset / 64] & ~block.writes[offset / 64] & mask) == mask)
    uninitialised(*w, {address, bytes, site, access, 0, argument, 0});
  if (block.read_only) return (void)(block.reads[offset / 64] |= mask);
  if (current_lane != w->lane) begin_turn(*w);
  if (bytes < 4 && block.shift) split_cells(*w, block);
  Conflict conflict = plain_conflict(*w, block, offset, bytes, access);
  Finding finding = {address, bytes, site, access, conflict.access, argument, site_of(conflict.moment)};
  if (conflict.moment) race_in_group(*w, finding, conflict.moment);
  remember_atomic(*w, block, offset, bytes, access, site);
}

}  // namespace soft

// Whether it matters if nobody has written the texel that is read next.
SOFT_EXPORT void soft_texel_counts(bool counts) { soft::check_worker->partly_written = !counts; }
