// Where an address belongs: segments of the dispatch, threadgroup memory, memory of the runtime; and the blocks' storage.
#include "check_shadow.h"

namespace soft {

enum { PRIVATE_RANGES = 64, FIRST_TABLE = 1024 };

struct Range {
  u64 start, end;
};
static __thread Range private_ranges[PRIVATE_RANGES];
static __thread unsigned private_count;

template <class T> static T *allocate(u64 count) {
  T *memory = (T *)calloc(count, sizeof(T));
  if (!memory) __builtin_trap();
  return memory;
}

void check_private_memory(const void *start, u64 bytes) {
  for (unsigned i = 0; i < private_count && i < PRIVATE_RANGES; i++) {
    if (private_ranges[i].start == (u64)start && private_ranges[i].end == (u64)start + bytes) return;
  }
  private_ranges[private_count++ % PRIVATE_RANGES] = {(u64)start, (u64)start + bytes};
}

// Calls `match(start, length)` for each range that kernels touch on the runtime's behalf, until it answers true.
template <class Match> static bool any_runtime_range(const Worker &w, Match match) {
  if (match(w.image_start, w.image_end - w.image_start) || match((u64)w.group->launch, sizeof(soft_launch))) return true;
  if (match((u64)w.group, sizeof(soft_group)) || match((u64)current_lane, sizeof(soft_lane))) return true;
  if (match((u64)&current_lane, sizeof current_lane) || match(w.stacks, w.stack_bytes)) return true;
  for (unsigned i = 0; i < private_count && i < PRIVATE_RANGES; i++) {
    if (match(private_ranges[i].start, private_ranges[i].end - private_ranges[i].start)) return true;
  }
  return false;
}

bool runtime_memory(const Worker &w, u64 address, u64 bytes) {
  return any_runtime_range(w, [=](u64 start, u64 length) {
    return address - start < length && bytes <= length - (address - start);
  });
}

// Structures of the runtime lie scattered, and a block around one has nothing else that a kernel could want.
static bool near_runtime_memory(const Worker &w, u64 address) {
  return any_runtime_range(w, [=](u64 start, u64 length) { return start < address + BLOCK && address < start + length; });
}

// The last segment that starts at or before the address, or the first.
static const soft_segment *segment_at(const soft_check &check, u64 address) {
  u32 low = 0, high = check.segment_count;
  while (high - low > 1) {
    u32 middle = (low + high) / 2;
    (check.segments[middle].start <= address ? low : high) = middle;
  }
  return check.segments + low;
}

bool allowed(const Worker &w, u64 address, u64 bytes, unsigned access) {
  u64 offset = address - (u64)w.tg;
  const soft_check &check = *w.check;
  if (offset < TG_SPAN) return offset / TG_ZONE < check.tg_count && offset % TG_ZONE + bytes <= check.tg_bytes[offset / TG_ZONE];
  if (!check.segment_count) return false;
  const soft_segment *segment = segment_at(check, address), *end = check.segments + check.segment_count;
  access &= SOFT_READ | SOFT_WRITE;
  for (u64 stop = address + bytes; segment < end && segment->start <= address; segment++) {
    if (segment->end <= address || (access & ~segment->access)) return false;
    if (segment->end >= stop) return true;
    address = segment->end;
  }
  return false;
}

static void classify(const Worker &w, Block &block) {
  const soft_check &check = *w.check;
  u64 start = block.key * BLOCK, end = start + BLOCK;
  block.space = SOFT_DEVICE;
  block.low = block.high = 0;
  block.foreign = false;
  block.fresh = nullptr;
  block.read_only = true;
  const soft_segment *last = check.segments + check.segment_count;
  for (const soft_segment *at = segment_at(check, start); at < last && at->start < end; at++) {
    const soft_segment &segment = *at;
    if (segment.end <= start) continue;
    block.area = segment.area;
    const soft_area &area = check.areas[segment.area];
    block.read_only = !area.writer;
    if (area.fresh) block.fresh = area.fresh + (start - area.start) / 64;
    block.access = (u8)segment.access;
    block.low = segment.start > start ? segment.start - start : 0;
    block.high = segment.end < end ? segment.end - start : BLOCK;
    return;
  }
  block.foreign = near_runtime_memory(w, start);
}

static void insert(Worker &w, Block *block) {
  u32 mask = w.table_size - 1, i = (u32)((block->key * 0x9E3779B97F4A7C15ull) >> 40) & mask;
  while (w.table[i]) i = (i + 1) & mask;
  w.table[i] = block;
  w.places[w.block_count++] = i;
}

static void grow_table(Worker &w) {
  Block **old = w.table;
  u32 size = w.table_size;
  w.table_size = size ? 2 * size : FIRST_TABLE;
  w.table = allocate<Block *>(w.table_size);
  free(w.places);
  w.places = allocate<u32>(w.table_size);
  w.block_count = 0;
  for (u32 i = 0; i < size; i++) {
    if (old[i]) insert(w, old[i]);
  }
  free(old);
}

static u64 area_bit(const Block &block) { return 1ull << block.area % 64; }

Block *make_block(Worker &w, u64 key) {
  Undisturbed hold;
  if (2 * (w.block_count + 1) > w.table_size) grow_table(w);
  Block *block = w.spare_count ? w.spare[--w.spare_count] : allocate<Block>(1);
  block->key = key;
  classify(w, *block);
  block->atomics = nullptr;
  if (!block->read_only) lay_out_cells(*block, w.split_areas & area_bit(*block) ? BLOCK : CELLS);
  insert(w, block);
  refresh(w, *block);
  return block;
}

void refresh(Worker &w, Block &block) {
  Undisturbed hold;
  __builtin_memset(block.reads, 0, sizeof block.reads);
  __builtin_memset(block.writes, 0, sizeof block.writes);
  if (block.atomics) {
    __builtin_memset(block.atomics->reads, 0, sizeof block.atomics->reads);
    __builtin_memset(block.atomics->writes, 0, sizeof block.atomics->writes);
  }
  block.serial = w.serial;
  if (!block.foreign) push(w.touched, w.touched_count, w.touched_capacity, &block);
}

// Old moments in the cells do no harm: they are below the base of every later group.
void lay_out_cells(Block &block, u32 count) {
  if (block.room < count) {
    free(block.cells.readers);
    block.cells.readers = allocate<Moment>(3 * count);
    block.room = count;
  }
  Moment *moments = block.cells.readers;
  block.cells = {moments, moments + count, moments + 2 * count};
  block.shift = count == CELLS ? 2 : 0;
}

void free_cells(Block &block) {
  free(block.cells.readers);
  free(block.atomic_room);
  block.cells = {};
  block.room = 0;
  block.atomics = block.atomic_room = nullptr;
}

static void forget_readers(Worker &w, const Block &block) {
  if (block.space != SOFT_THREADGROUP) return;
  u64 number = &block - w.tg_blocks;
  w.tg_readers[number] = nullptr;
  __builtin_memset(stamps_at(w, number * BLOCK), 0, CELLS * sizeof(u16));
}

void split_cells(Worker &w, Block &block) {
  Undisturbed hold;
  forget_readers(w, block);
  if (block.space == SOFT_DEVICE) w.split_areas |= area_bit(block);
  Moment *moments = block.cells.readers = (Moment *)realloc(block.cells.readers, 3 * BLOCK * sizeof(Moment));
  if (!moments) __builtin_trap();
  block.room = BLOCK;
  for (unsigned i = 3 * BLOCK; i--;) moments[i] = moments[i / 4];
  lay_out_cells(block, BLOCK);
}

Atomics &atomics_of(Worker &w, Block &block) {
  if (block.atomics) return *block.atomics;
  Undisturbed hold;
  forget_readers(w, block);
  if (!block.atomic_room) block.atomic_room = allocate<Atomics>(1);
  block.atomics = block.atomic_room;
  __builtin_memset(block.atomics->reads, 0, sizeof block.atomics->reads);
  __builtin_memset(block.atomics->writes, 0, sizeof block.atomics->writes);
  return *block.atomics;
}

void reset_blocks(Worker &w) {
  for (u32 i = 0; i < w.block_count; i++) {
    Block *&place = w.table[w.places[i]];
    push(w.spare, w.spare_count, w.spare_capacity, place);
    place = nullptr;
  }
  w.block_count = 0;
  __builtin_memset(w.argument_blocks, 0, sizeof w.argument_blocks);
  if (!w.table) grow_table(w);
}

// What an earlier dispatch needed, such as a cell for each byte, is not for the next ones to carry.
void begin_dispatch(Worker &w) {
  reset_blocks(w);
  w.split_areas = 0;
  lay_out_threadgroup_memory(w);
}

}  // namespace soft
