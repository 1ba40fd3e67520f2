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

CALLBACK void soft_undefined_stored(bool undefined, void *address, u64 bytes, const char *variables) {
  soft::Worker &w = *soft::check_worker;
  if (__builtin_expect(!undefined, 1) || !w.group || !soft::seen_by_others(w, (u64)address, bytes)) return;
  soft::undefined_variable(w, SITE, SOFT_USE_STORE, variables);
}

CALLBACK void soft_undefined_copied(void *address, const unsigned char *shadow, u64 bytes, const char *variables) {
  soft::Worker &w = *soft::check_worker;
  if (!soft::any_bit(shadow, bytes) || !w.group || !soft::seen_by_others(w, (u64)address, bytes)) return;
  soft::undefined_variable(w, SITE, SOFT_USE_STORE, variables);
}
