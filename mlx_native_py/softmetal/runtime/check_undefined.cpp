// What kernels with shadows call where a value that may be undefined is used (softmetal/definedness).
#include "check_access.h"

namespace soft {

// Where others can see what is written: not on the thread's own stack, nor in the runtime's memory.
static bool seen_by_others(const Worker &w, u64 address, u64 bytes) {
  if (address - w.stacks < w.stack_bytes) return false;
  return address - w.all_zones < ZONE_BYTES || allowed(w, address, bytes, SOFT_WRITE);
}

static bool any_bit(const u8 *shadow, u64 bytes) {
  while (bytes--) {
    if (*shadow++) return true;
  }
  return false;
}

}  // namespace soft

using soft::u64;

CALLBACK void soft_undefined_used(bool undefined, unsigned use, const char *variables) {
  if (__builtin_expect(!undefined, 1) || !soft::check_worker->group) return;
  soft::undefined_variable(*soft::check_worker, SITE, use, variables);
}

CALLBACK void soft_undefined_stored(u64 shadow, void *address, u64 bytes, const char *variables) {
  soft::Worker &w = *soft::check_worker;
  if (__builtin_expect(!shadow, 1) || !w.group || soft::leave_in_box(w, (u64)address, (const soft::u8 *)&shadow, bytes)) return;
  if (soft::seen_by_others(w, (u64)address, bytes)) soft::undefined_variable(w, SITE, SOFT_USE_STORE, variables);
}

CALLBACK void soft_undefined_copied(void *address, const unsigned char *shadow, u64 bytes, const char *variables) {
  soft::Worker &w = *soft::check_worker;
  if (!soft::any_bit(shadow, bytes) || !w.group || soft::leave_in_box(w, (u64)address, shadow, bytes)) return;
  if (soft::seen_by_others(w, (u64)address, bytes)) soft::undefined_variable(w, SITE, SOFT_USE_STORE, variables);
}

// The shadow of what a thread takes out of the outbox.
template <class T> static T received(const void *place) {
  T shadow = 0;
  if (const soft::u8 *marks = soft::marks_of_received(*soft::check_worker, (u64)place)) __builtin_memcpy(&shadow, marks, sizeof(T));
  return shadow;
}
CALLBACK soft::u8 soft_undefined_received_i8(const void *place) { return received<soft::u8>(place); }
CALLBACK soft::u16 soft_undefined_received_i16(const void *place) { return received<soft::u16>(place); }
CALLBACK soft::u32 soft_undefined_received_i32(const void *place) { return received<soft::u32>(place); }
