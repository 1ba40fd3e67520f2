// Private variables that functions which call themselves reach by pointers (softmetal/definedness/recursion.py), and
// constant ones that pointers lead to (constants.py).
#include "check_access.h"

namespace soft {

constexpr u64 ROOM = 64;  // bytes on both sides that are nobody's

struct Watched {
  u64 start, bytes;
  const char *name;
  u32 lane;
  u8 *written;             // a byte for each; null where nobody may write
};

static void drop(Worker &w, u32 number) {
  free(w.watched[number].written);
  w.watched[number] = w.watched[--w.watched_count];
}

void forget_watched(Worker &w) {
  while (w.watched_count) drop(w, w.watched_count - 1);
}

static bool any_written(const Watched &variable, u64 offset, u64 bytes) {
  for (u64 i = 0; i < bytes; i++) {
    if (variable.written[offset + i]) return true;
  }
  return false;
}

void access_private(Worker &w, u64 address, u64 bytes, unsigned access, u64 site) {
  for (u32 i = 0; i < w.watched_count; i++) {
    const Watched &variable = w.watched[i];
    u64 offset = address - variable.start;
    if (!variable.written) {
      bool mine = variable.lane == current_lane->index && (offset < variable.bytes || variable.start - address < bytes);
      if (mine && access & SOFT_WRITE) constant_variable(w, {address, bytes, site, access, 0, 0, 0}, variable.name);
      continue;
    }
    if (variable.lane != current_lane->index || offset + ROOM >= variable.bytes + 2 * ROOM) continue;
    if (offset >= variable.bytes || bytes > variable.bytes - offset) outside_variable(w, site, variable.name);
    if (access & SOFT_READ && !any_written(variable, offset, bytes))
      undefined_variable(w, site, SOFT_USE_READ, variable.name);
    if (access & SOFT_WRITE) __builtin_memset(variable.written + offset, 1, bytes);
    return;
  }
}

}  // namespace soft

SOFT_EXPORT void soft_private_begin(void *start, soft_u64 bytes, const char *name) {
  soft::Worker &w = *soft::check_worker;
  if (!w.group) return;
  soft::Undisturbed hold;
  auto *written = (soft::u8 *)calloc(bytes, 1);
  if (!written) __builtin_trap();
  soft::push(w.watched, w.watched_count, w.watched_capacity,
             soft::Watched{(soft::u64)start, bytes, name, soft::current_lane->index, written});
}

SOFT_EXPORT void soft_private_constant(void *start, soft_u64 bytes, const char *name) {
  soft::Worker &w = *soft::check_worker;
  if (!w.group) return;
  soft::Undisturbed hold;
  soft::u32 lane = soft::current_lane->index;
  for (soft::u32 i = 0; i < w.watched_count; i++) {
    if (w.watched[i].start == (soft::u64)start && w.watched[i].lane == lane) return;
  }
  soft::push(w.watched, w.watched_count, w.watched_capacity, soft::Watched{(soft::u64)start, bytes, name, lane, nullptr});
}

SOFT_EXPORT void soft_private_end(void *start) {
  soft::Worker &w = *soft::check_worker;
  soft::Undisturbed hold;
  for (soft::u32 i = 0; i < w.watched_count; i++) {
    if (w.watched[i].start == (soft::u64)start) return soft::drop(w, i);
  }
}
