// Threadgroup memory of a checked group: each variable and argument lies apart, with addresses around it that are nobody's.
#include <sys/mman.h>

#include "check_shadow.h"

namespace soft {

constexpr u64 TG_BLOCKS = TG_SPAN / BLOCK, PAGE = 16384;
static_assert(TG_ZONE % PAGE == 0 && TG_ZONE % BLOCK == 0, "variables begin where pages and blocks do, on every system");

// Nothing has been written when a group begins.
static const u64 ALL_FRESH[WORDS] = {~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull,
                                     ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};

// Takes memory page by page, as it is touched.
static char *reserve(u64 bytes, int access) {
  void *start = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) __builtin_trap();
  return (char *)start;
}

// In the middle of pages that fault, so that going astray hits nothing else.
void reserve_threadgroup_memory(Worker &w) {
  constexpr u64 STAMP_BYTES = TG_SPAN / 4 * sizeof(u16);
  char *start = reserve(TG_RESERVED + STAMP_BYTES, PROT_NONE);
  if (mprotect(start + TG_RESERVED, STAMP_BYTES, PROT_READ | PROT_WRITE)) __builtin_trap();
  w.tg = start + TG_BEFORE;
  w.tg_blocks = (Block *)reserve(TG_BLOCKS * sizeof(Block), PROT_READ | PROT_WRITE);
  w.tg_readers = (Moment **)reserve(TG_BLOCKS * sizeof(Moment *), PROT_READ | PROT_WRITE);
}

static void know(Worker &w, u32 number) {
  Block &block = w.tg_blocks[number];
  block.space = SOFT_THREADGROUP;
  block.access = SOFT_READ | SOFT_WRITE;
  block.fresh = ALL_FRESH;
  lay_out_cells(block, CELLS);
  u64 page = number * (u64)BLOCK / PAGE * PAGE;
  if (mprotect(w.tg + page, PAGE, PROT_READ | PROT_WRITE)) __builtin_trap();
  push(w.tg_known, w.tg_known_count, w.tg_known_capacity, number);
}

void lay_out_threadgroup_memory(Worker &w) {
  for (u32 i = 0; i < w.tg_used_count; i++) {
    w.tg_blocks[w.tg_used[i]].high = 0;
    w.tg_readers[w.tg_used[i]] = nullptr;
  }
  w.tg_used_count = 0;
  for (u32 zone = 0; zone < w.check->tg_count; zone++) {
    for (u32 done = 0; done < w.check->tg_bytes[zone]; done += BLOCK) {
      u32 number = (zone * TG_ZONE + done) / BLOCK, left = w.check->tg_bytes[zone] - done;
      Block &block = w.tg_blocks[number];
      if (!block.cells.readers) know(w, number);
      lay_out_cells(block, CELLS);
      block.atomics = nullptr;
      block.high = left < BLOCK ? left : BLOCK;
      push(w.tg_used, w.tg_used_count, w.tg_used_capacity, number);
    }
  }
}

void begin_threadgroup_memory(Worker &w) {
  for (u32 i = 0; i < w.tg_used_count; i++) {
    Block &block = w.tg_blocks[w.tg_used[i]];
    w.tg_readers[w.tg_used[i]] = block.shift && !block.atomics ? block.cells.readers : nullptr;
    __builtin_memset(block.writes, 0, sizeof block.writes);
    if (block.atomics) __builtin_memset(block.atomics->writes, 0, sizeof block.atomics->writes);
  }
}

void forget_threadgroup_memory(Worker &w) {
  for (u32 i = 0; i < w.tg_known_count; i++) {
    free_cells(w.tg_blocks[w.tg_known[i]]);
    lay_out_cells(w.tg_blocks[w.tg_known[i]], CELLS);
  }
}

void clear_stamps(Worker &w) {
  for (u32 i = 0; i < w.tg_known_count; i++) {
    __builtin_memset(stamps_at(w, w.tg_known[i] * (u64)BLOCK), 0, CELLS * sizeof(u16));
  }
}

}  // namespace soft
