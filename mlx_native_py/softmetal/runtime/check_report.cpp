// Writes findings down, each place in the code once.
#include <sched.h>

#include "check_access.h"

namespace soft {

static void position(const soft_group &group, u32 lane, u32 (&thread)[3]) {
  thread[0] = lane % group.size[0];
  thread[1] = lane / group.size[0] % group.size[1];
  thread[2] = lane / group.size[0] / group.size[1];
}

static bool same(const soft_report &a, const soft_report &b) {
  return a.kind == b.kind && a.site == b.site && a.access == b.access && a.other_access == b.other_access && a.space == b.space;
}

// Leaves the kernel the way that its last thread would.
[[noreturn]] static void abandon_group() {
  Context &context = *current_context;
  context.fault = SOFT_FAULT_CHECK;
  context.fault_address = 0;
  context.fault_access = SOFT_ACCESS_UNKNOWN;
  context.fault_lane = (Lane *)current_lane;
  context.in_kernel = 0;
  leave_kernel();
}

// The dispatch's lock is held.
static void add(soft_check &check, const soft_report &report) {
  for (u32 i = 0; i < check.report_count; i++) {
    if (same(check.reports[i], report)) return;
  }
  check.reports_total++;
  if (check.report_count < check.report_capacity) check.reports[check.report_count++] = report;
}

static soft_report begin(const Worker &w, const Finding &finding, u32 kind, u32 lane) {
  soft_report report = {};
  report.kind = kind;
  u64 offset = finding.address - ((u64)w.tg - TG_BEFORE);
  report.space = offset < TG_RESERVED ? SOFT_THREADGROUP : SOFT_DEVICE;
  report.address = report.space == SOFT_THREADGROUP ? finding.address - (u64)w.tg : finding.address;
  report.bytes = finding.bytes;
  report.site = finding.site - w.image_start;
  report.other_site = finding.other_site;
  report.argument = finding.argument;
  report.access = finding.access;
  report.other_access = finding.other_access;
  if (w.outside.lane == current_lane) report.array = w.outside.array, report.index = w.outside.index;
  for (unsigned i = 0; i < 3; i++) report.group[i] = report.other_group[i] = w.group->position[i];
  position(*w.group, lane, report.thread);
  return report;
}

void lock(soft_check &check) {
  while (__atomic_exchange_n(&check.lock, 1, __ATOMIC_ACQUIRE)) sched_yield();
}

void unlock(soft_check &check) { __atomic_store_n(&check.lock, 0, __ATOMIC_RELEASE); }

[[noreturn]] static void give_up(Worker &w, const soft_report &report) {
  Undisturbed hold;
  w.outside = {};
  lock(*w.check);
  add(*w.check, report);
  unlock(*w.check);
  abandon_group();
}

void out_of_bounds(Worker &w, const Finding &finding) {
  give_up(w, begin(w, finding, SOFT_OUT_OF_BOUNDS, current_lane->index));
}

void outside_variable(Worker &w, u64 site, const char *name) {
  soft_report report = begin(w, {0, 0, site, 0, 0, 0, 0}, SOFT_OUTSIDE_ARRAY, current_lane->index);
  report.space = SOFT_PRIVATE;
  report.index = (u64)name;
  give_up(w, report);
}

void constant_variable(Worker &w, const Finding &finding, const char *name) {
  soft_report report = begin(w, finding, SOFT_OUTSIDE_ARRAY, current_lane->index);
  report.space = SOFT_PRIVATE;
  report.index = (u64)name;
  give_up(w, report);
}

void outside_private_array(Worker &w, const Outside &outside) {
  w.outside = outside;
  soft_report report = begin(w, {0, 0, outside.array, 0, 0, 0, 0}, SOFT_OUTSIDE_ARRAY, current_lane->index);
  report.space = SOFT_PRIVATE;
  give_up(w, report);
}

// From one threadgroup variable into another; what leaves threadgroup memory is reported as that.
void outside_array(Worker &w, const Finding &finding) {
  if (w.outside.lane != current_lane) return;
  bool follows = finding.address - ((u64)w.tg - TG_BEFORE) < TG_RESERVED;
  if (!follows) w.outside = {}, open_ways(w);
  if (!follows || !allowed(w, finding.address, finding.bytes, finding.access)) return;
  give_up(w, begin(w, finding, SOFT_OUTSIDE_ARRAY, current_lane->index));
}

void race_in_group(Worker &w, const Finding &finding, Moment other) {
  Undisturbed hold;
  soft_report report = begin(w, finding, SOFT_RACE_IN_GROUP, current_lane->index);
  position(*w.group, lane_of(other), report.other_thread);
  report.other_known = 1;
  lock(*w.check);
  add(*w.check, report);
  unlock(*w.check);
}

// Whether no thread of another group has written the bytes either, nor an atomic operation.
static bool nobody_wrote(const Worker &w, const Finding &finding) {
  Block &block = block_at(const_cast<Worker &>(w), finding.address);
  unsigned offset = finding.address % BLOCK, word = offset / 64;
  u64 mask = ((1ull << finding.bytes) - 1) << (offset % 64), left = block.fresh[word] & ~block.writes[word] & mask;
  if (block.atomics) left &= ~block.atomics->writes[word];
  const soft_area *area = block.space == SOFT_DEVICE ? w.check->areas + block.area : nullptr;
  if (area && w.fenced) return false;  // what groups that still run have written is not known yet
  if (area && area->writes) {
    u64 at = (finding.address - area->start) / 64;
    left &= ~(__atomic_load_n(area->writes + at, __ATOMIC_RELAXED) | __atomic_load_n(area->atomic_writes + at, __ATOMIC_RELAXED));
  }
  return finding.bytes <= 4 ? left == mask : whole_word<16>(left >> (offset % 64));
}

void uninitialised(Worker &w, const Finding &finding) {
  if (w.partly_written || !nobody_wrote(w, finding)) return;
  Undisturbed hold;
  soft_report report = begin(w, finding, SOFT_UNINITIALISED, current_lane->index);
  lock(*w.check);
  add(*w.check, report);
  unlock(*w.check);
}

static soft_report without_value(const Worker &w, u64 site, u32 use, u64 what) {
  soft_report report = begin(w, {0, 0, site, SOFT_READ, 0, 0, 0}, SOFT_UNINITIALISED, current_lane->index);
  report.space = SOFT_PRIVATE;
  report.array = what;
  report.index = use;
  return report;
}

void no_result(Worker &w, u64 site, u64 function) { give_up(w, without_value(w, site, SOFT_USE_RESULT, function)); }

void undefined_variable(Worker &w, u64 site, u32 use, const char *variables) {
  Undisturbed hold;
  soft_report report = without_value(w, site, use, (u64)variables);
  lock(*w.check);
  add(*w.check, report);
  unlock(*w.check);
}

void divergent_barrier(Worker &w, u32 lane, u64 site, const Absent &other) {
  Undisturbed hold;
  u32 other_site = other.site ? (u32)(other.site - w.image_start) : 0;
  soft_report report = begin(w, {0, 0, site, 0, 0, 0, other_site}, SOFT_DIVERGENT, lane);
  report.index = other.where;
  position(*w.group, other.lane, report.other_thread);
  report.other_known = 1;
  lock(*w.check);
  add(*w.check, report);
  unlock(*w.check);
}

// Nothing is wrong with the bytes themselves, so the kernel goes on.
void misaligned(Worker &w, Finding finding, unsigned alignment) {
  Undisturbed hold;
  u64 zone = finding.address - w.all_zones;
  if (zone < ZONE_BYTES) {
    const soft_argument_zone &own = w.arguments[zone >> SOFT_ZONE_SHIFT];
    finding.argument = own.argument;
    finding.address += own.delta;
  }
  soft_report report = begin(w, finding, SOFT_MISALIGNED, current_lane->index);
  report.index = alignment;
  lock(*w.check);
  add(*w.check, report);
  unlock(*w.check);
}

void race_between_groups(Worker &w, const Finding &finding, u32 lane, u32 other_group) {
  soft_report report = begin(w, finding, SOFT_RACE_BETWEEN_GROUPS, lane);
  const u32 *groups = w.group->launch->groups;
  report.other_group[0] = other_group % groups[0];
  report.other_group[1] = other_group / groups[0] % groups[1];
  report.other_group[2] = other_group / groups[0] / groups[1];
  add(*w.check, report);
}

}  // namespace soft
