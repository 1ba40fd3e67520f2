// The hooks: begins and ends groups, moves the epochs on at barriers, and merges what a group touched into its dispatch.
#include <dlfcn.h>

#include "check_shadow.h"

namespace soft {

constexpr u64 NO_ZONES = ~0ull - ZONE_BYTES;
Worker no_worker = {.zones = NO_ZONES, .all_zones = NO_ZONES};
__thread Worker *check_worker __attribute__((tls_model("initial-exec"))) = &no_worker;

enum { KEPT_BLOCKS = 256 };           // whose cells the processor's cache can hold
constexpr u32 STAMPS = 1 + SOFT_WIDTH;  // of a simdgroup and its threads
constexpr Moment LAST_TICK = 0xC000000000000000ull;

// The shared object around an address in it, from its own program headers.
static bool image_around(const void *address, u64 &start, u64 &end) {
  Dl_info found;
  if (!dladdr(address, &found)) return false;
  const char *base = (const char *)found.dli_fbase, *header = base + *(u64 *)(base + 32);
  unsigned step = *(unsigned short *)(base + 54), count = *(unsigned short *)(base + 56);
  start = end = (u64)base;
  for (unsigned i = 0; i < count; i++, header += step) {
    u64 stop = start + *(u64 *)(header + 16) + *(u64 *)(header + 40);
    if (*(u32 *)header == 1 && stop > end) end = stop;
  }
  return true;
}

static Worker &new_worker() {
  Worker *w = (Worker *)aligned_alloc(alignof(Worker), sizeof(Worker));
  if (!w) __builtin_trap();
  __builtin_memset(w, 0, sizeof *w);
  reserve_threadgroup_memory(*w);
  u64 start, end;
  if (image_around(&checker, start, end)) check_private_memory((void *)start, end - start);
  return *w;
}

// Before the numbers run out, everything starts anew.
static void forget_ticks(Worker &w) {
  forget_threadgroup_memory(w);
  reset_blocks(w);
  for (u32 i = 0; i < w.spare_count; i++) {
    free_cells(*w.spare[i]);
    free(w.spare[i]);
  }
  w.spare_count = 0;
  w.tick = 0;
  __builtin_memset(w.met, 0, sizeof w.met);
}

// New numbers for some simdgroups, as what they read before says nothing of what they read from now on.
static void renew_stamps(Worker &w, u32 first, u32 count) {
  if (w.last_stamp + count * STAMPS > LAST_STAMP) {
    clear_stamps(w);
    w.last_stamp = first = 0, count = MAX_SIMDGROUPS;
  }
  for (u32 i = first; i < first + count; i++, w.last_stamp += STAMPS) w.stamps[i] = w.last_stamp + 1;
}

static void renew_all_stamps(Worker &w) { renew_stamps(w, 0, (w.group->count + SOFT_WIDTH - 1) / SOFT_WIDTH); }

void open_ways(Worker &w) {
  w.zones = w.all_zones;
  w.tg_ready = w.check->tg_count * TG_ZONE;
}

void shut_ways(Worker &w) {
  w.zones = NO_ZONES;
  w.tg_ready = 0;
}

static void check_group_begin(soft_group &group) {
  if (check_worker == &no_worker) check_worker = &new_worker();
  Worker &w = *check_worker;
  w.check = group.launch->check;
  w.group = &group;
  w.stacks = (u64)current_context->stacks.start;
  w.stack_bytes = current_context->stacks.bytes;
  w.state = (u64)current_context;
  w.state_bytes = (u64)(current_context->lanes + MAX_THREADS) - w.state;
  group.tg = w.tg;
  if (w.tick > LAST_TICK) forget_ticks(w);
  if (w.check_serial != w.check->serial) begin_dispatch(w);
  else if (w.block_count > KEPT_BLOCKS) reset_blocks(w);
  const void *entry = (const void *)current_context->entry;
  if (w.entry != entry) image_around(entry, w.image_start, w.image_end);
  w.entry = entry;
  w.check_serial = w.check->serial;
  begin_threadgroup_memory(w);
  w.all_zones = w.check->zones_start ? w.check->zones_start : NO_ZONES;
  w.arguments = w.check->zones;
  w.serial++;
  w.begin = w.base[0] = w.base[1] = w.tick += ONE_TICK;
  renew_all_stamps(w);
  w.lane = nullptr;
  w.outside = {};
  open_ways(w);
  w.touched_count = 0;
  w.fenced = w.partly_written = false;
  w.sent = w.received = 0;
  forget_watched(w);
  if (w.any_ended) __builtin_memset(w.ended_at, 0, sizeof w.ended_at);
  w.any_ended = false;
}

static bool is_live(const Context &context, u32 fiber) {
  return context.simdgroups[fiber / SOFT_WIDTH].live >> (fiber % SOFT_WIDTH) & 1;
}

// What all of them asked for; the flags of one that ended are not its last word on anything.
static unsigned common_flags(const Context &context) {
  unsigned flags = 3;
  for (u32 i = 0; i < context.fibers; i++) {
    if (is_live(context, i)) flags &= context.lanes[i].flags;
  }
  return flags;
}

static u32 first_live(const Context &context) {
  u32 fiber = 0;
  while (!is_live(context, fiber)) fiber++;
  return fiber;
}

// The first thread that waits at another barrier than this one, or has ended; all of them where there is none.
static u32 not_with(const Context &context, u32 one, bool ended) {
  u32 fiber = 0;
  for (; fiber < context.fibers; fiber++) {
    bool live = is_live(context, fiber);
    if (ended ? !live : live && context.lanes[fiber].flags >> SOFT_BARRIER_MARK != context.lanes[one].flags >> SOFT_BARRIER_MARK) break;
  }
  return fiber;
}

static u64 waits_at(const Context &context, u32 lane) {
  u64 site = static_cast<const u64 *>(context.lanes[lane].stack)[SAVED_RETURN];
  const Worker &w = *check_worker;
  return site - w.image_start < w.image_end - w.image_start ? site : w.image_start;  // where it is known
}

static void check_all_wait(Worker &w, const Context &context) {
  u32 one = first_live(context), two = not_with(context, one, false), gone = not_with(context, one, true);
  if (two < context.fibers) divergent_barrier(w, two, waits_at(context, two), {one, SOFT_AT_ANOTHER, waits_at(context, one)});
  if (gone == context.fibers) return;
  u32 place = w.ended_at[gone];
  divergent_barrier(w, one, waits_at(context, one), {gone, SOFT_ENDED, place ? w.image_start + place : 0});
}

static void check_barrier(const Context &context) {
  Worker &w = *check_worker;
  check_all_wait(w, context);
  unsigned flags = common_flags(context);
  w.tick += ONE_TICK;
  if (flags & 1) w.base[SOFT_DEVICE] = w.tick;
  if (flags & 2) w.base[SOFT_THREADGROUP] = w.tick, renew_all_stamps(w);
  w.lane = nullptr;
}

static void check_simdgroup(unsigned simdgroup, unsigned flags) {
  Worker &w = *check_worker;
  flags = flags ? flags : 3, simdgroup %= MAX_SIMDGROUPS;
  w.tick += ONE_TICK;
  if (flags & 1) w.met[simdgroup][SOFT_DEVICE] = w.tick;
  if (flags & 2) w.met[simdgroup][SOFT_THREADGROUP] = w.tick, renew_stamps(w, simdgroup, 1);
  w.lane = nullptr;
}

static u32 group_index(const soft_group &group) {
  const u32 *groups = group.launch->groups;
  return group.position[0] + groups[0] * (group.position[1] + groups[1] * group.position[2]);
}

// What a group did in 64 bytes, or what all earlier ones did.
struct Touched {
  u64 reads, writes, atomic_reads, atomic_writes;
};

static u64 plain_or_atomic_clash(const Touched &mine, const Touched &theirs) {
  u64 any = theirs.reads | theirs.writes | theirs.atomic_reads | theirs.atomic_writes;
  return (mine.writes & any) | (mine.reads & (theirs.writes | theirs.atomic_writes)) |
         (mine.atomic_writes & (theirs.reads | theirs.writes)) | (mine.atomic_reads & theirs.writes);
}

static unsigned access_of(const Touched &touched, u64 bit) {
  if (touched.writes & bit) return SOFT_WRITE;
  if (touched.atomic_writes & bit) return SOFT_WRITE | SOFT_ATOMIC;
  return touched.reads & bit ? SOFT_READ : SOFT_READ | SOFT_ATOMIC;
}

// When this group last touched the byte in that way.
static Moment moment_of(const Block &block, unsigned offset, unsigned access) {
  if (access & SOFT_ATOMIC) {
    const AtomicCell &cell = block.atomics->cells[offset];
    return access & SOFT_WRITE ? cell.writer : cell.reader;
  }
  u32 cell = offset >> block.shift;
  return (access & SOFT_WRITE ? block.cells.writers : block.cells.readers)[cell];
}

static void report_clash(Worker &w, const Block &block, unsigned word, u64 clash, const Touched &mine, const Touched &theirs) {
  const soft_area &area = w.check->areas[block.area];
  u64 bit = clash & -clash, run = clash >> __builtin_ctzl(clash);
  unsigned offset = 64 * word + __builtin_ctzl(clash), access = access_of(mine, bit), other = access_of(theirs, bit);
  u64 address = block.key * BLOCK + offset;
  u64 bytes = ~run ? __builtin_ctzl(~run) : 64;
  u32 group = (other & SOFT_WRITE ? area.writer : area.reader)[(address - area.start) / 4];
  Moment moment = moment_of(block, offset, access);
  u64 cell = (address - area.start) / 4, site = w.image_start + site_of(moment);
  u32 other_site = (other & SOFT_WRITE ? area.writer_site : area.reader_site)[cell];
  Finding finding = {address, bytes, site, access, other, 0, other_site};
  race_between_groups(w, finding, moment >= w.begin ? lane_of(moment) : 0, group - 1);
}

// The access of some of four bytes that is to be told: a plain one rather than an atomic one.
static u32 noted_site(const Block &block, unsigned offset, u64 plain, unsigned access) {
  u64 bits = plain >> (offset % 64) & 15;
  unsigned first = bits ? __builtin_ctzl(bits) : 0;
  return site_of(moment_of(block, offset + first, bits ? access : access | SOFT_ATOMIC));
}

static void note_group(const soft_area &area, const Block &block, unsigned word, const Touched &mine, u32 group) {
  u64 reads = mine.reads | mine.atomic_reads, writes = mine.writes | mine.atomic_writes;
  u64 at = (block.key * BLOCK + 64 * word - area.start) / 4;
  for (unsigned i = 0; i < 16; i++) {
    unsigned offset = 64 * word + 4 * i;
    if (reads >> (4 * i) & 15) {
      area.reader[at + i] = group;
      area.reader_site[at + i] = noted_site(block, offset, mine.reads, SOFT_READ);
    }
    if (writes >> (4 * i) & 15) {
      area.writer[at + i] = group;
      area.writer_site[at + i] = noted_site(block, offset, mine.writes, SOFT_WRITE);
    }
  }
}

static void merge_word(Worker &w, const Block &block, unsigned i, u32 group) {
  const soft_area &area = w.check->areas[block.area];
  Touched mine = {block.reads[i], block.writes[i], 0, 0};
  if (block.atomics) mine.atomic_reads = block.atomics->reads[i], mine.atomic_writes = block.atomics->writes[i];
  if (!(mine.reads | mine.writes | mine.atomic_reads | mine.atomic_writes)) return;
  u64 start = block.key * BLOCK + 64 * i, at = (start - area.start) / 64;
  area.blocks[at / WORDS] = 1;
  if (area.writer) {
    Touched theirs = {area.reads[at], area.writes[at], area.atomic_reads[at], area.atomic_writes[at]};
    u64 clash = w.fenced ? 0 : plain_or_atomic_clash(mine, theirs);
    if (clash) report_clash(w, block, i, clash, mine, theirs);
    note_group(area, block, i, mine, group);
    area.writes[at] |= mine.writes;
    area.atomic_reads[at] |= mine.atomic_reads;
    area.atomic_writes[at] |= mine.atomic_writes;
  }
  area.reads[at] |= mine.reads;
}

static void check_group_end(soft_group &group) {
  Worker &w = *check_worker;
  u32 index = group_index(group) + 1;
  lock(*w.check);
  for (u32 k = 0; k < w.touched_count; k++) {
    for (unsigned i = 0; i < WORDS; i++) merge_word(w, *w.touched[k], i, index);
  }
  unlock(*w.check);
  w.group = nullptr;
  w.lane = nullptr;
  shut_ways(w);
}

static const Checker own = {check_private_memory, check_group_begin, check_group_end, check_barrier, check_simdgroup, check_exchange};
__attribute__((constructor)) static void tell_the_runtime() { checker = &own; }

}  // namespace soft

// A thread is about to return early.
SOFT_EXPORT void soft_ends() {
  soft::Worker &w = *soft::check_worker;
  if (!w.group) return;
  w.ended_at[soft::current_lane->index % soft::MAX_THREADS] = (soft::u32)((soft::u64)__builtin_return_address(0) - w.image_start);
  w.any_ended = true;
}
