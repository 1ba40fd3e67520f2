// Messages of kernels, one line of standard error each.
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime.h"

// The watchdog waits meanwhile: the C library may hold a lock of the whole process.
SOFT_EXPORT void soft_log(const char *subsystem, const char *category, const char *level, const char *format, ...) {
  soft::Context &context = *soft::current_context;
  char text[512];
  va_list values;
  va_start(values, format);
  context.in_kernel = soft::IN_LIBRARY;
  vsnprintf(text, sizeof text, format, values);
  // One call writes the line, so that the lines of several threads do not mix.
  dprintf(2, "[%s:%s] %s%s\n", subsystem, category, level, text);
  context.in_kernel = soft::IN_KERNEL;
  va_end(values);
  // A kernel that does little else than log would hardly ever be found outside of it.
  if (__atomic_load_n(&context.run->stop, __ATOMIC_RELAXED) != SOFT_FAULT_NONE)
    syscall(SYS_tgkill, getpid(), context.owner, soft::interrupt_signal());
}
