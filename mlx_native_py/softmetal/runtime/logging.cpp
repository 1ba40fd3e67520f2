// Messages of kernels: kept until somebody takes them, since Python cannot be called from inside a kernel.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime.h"

namespace soft {
namespace {

enum : uint64_t { ROOM = 1 << 20 };

Lock log_lock;
char kept[ROOM];  // level, subsystem, category and text of each message, each with a zero behind it
uint64_t used;
uint64_t lost;    // messages that found no room

void keep(const char *const (&parts)[4]) {
  uint64_t sizes[4], needed = 0;
  for (int i = 0; i < 4; i++) needed += sizes[i] = strlen(parts[i]) + 1;
  Locked hold(log_lock);
  if (needed > ROOM - used) {
    lost++;
    return;
  }
  for (int i = 0; i < 4; i++) {
    memcpy(kept + used, parts[i], sizes[i]);
    used += sizes[i];
  }
}

}  // namespace

void reset_log_after_fork() { log_lock.word = 0; }

}  // namespace soft

// Whether there is something to take.
SOFT_EXPORT uint32_t soft_log_pending = 0;

// The watchdog waits meanwhile: the C library may hold a lock of the whole process.
SOFT_EXPORT void soft_log(const char *subsystem, const char *category, const char *level, const char *format, ...) {
  soft::Context &context = *soft::current_context;
  char text[512];
  va_list values;
  va_start(values, format);
  context.in_kernel = soft::IN_LIBRARY;
  vsnprintf(text, sizeof text, format, values);
  soft::keep({level, subsystem, category, text});
  __atomic_store_n(&soft_log_pending, 1, __ATOMIC_SEQ_CST);
  context.in_kernel = soft::IN_KERNEL;
  va_end(values);
  // A kernel that does little else than log would hardly ever be found outside of it.
  if (__atomic_load_n(&context.run->stop, __ATOMIC_RELAXED) != SOFT_FAULT_NONE)
    soft::signal_thread(context.owner, soft::interrupt_signal());
}

// Moves the messages to `out`, which has room for all of them, and answers their size; `lost` is how many there was no
// room for.
SOFT_EXPORT uint64_t soft_log_take(char *out, uint64_t *lost) {
  soft::Locked hold(soft::log_lock);
  __atomic_store_n(&soft_log_pending, 0, __ATOMIC_SEQ_CST);
  uint64_t size = soft::used;
  memcpy(out, soft::kept, size);
  *lost = soft::lost;
  soft::used = soft::lost = 0;
  return size;
}
