// metal_logging: messages of kernels, which reach Python's logging when the command buffer has run.
#pragma once
#include "soft_bfloat.h"

extern "C" void soft_log(const __constant char *subsystem, const __constant char *category,
                         const __constant char *level, const __constant char *format, ...);

namespace soft {
// What C's variable arguments can carry.
template <class T> SOFT_FN T printable(T value) { return value; }
SOFT_FN float printable(half value) { return value; }
SOFT_FN float printable(metal::bfloat value) { return value; }
}  // namespace soft

namespace metal {
enum os_log_type {
  OS_LOG_TYPE_DEFAULT = 0,
  OS_LOG_TYPE_INFO = 1,
  OS_LOG_TYPE_DEBUG = 2,
  OS_LOG_TYPE_ERROR = 16,
  OS_LOG_TYPE_FAULT = 17
};

struct os_log {
  const __constant char *subsystem;
  const __constant char *category;

  SOFT_MEMBER os_log() : os_log("", "") {}
  SOFT_MEMBER os_log(const __constant char *subsystem, const __constant char *category)
      : subsystem(subsystem), category(category) {}

#define SOFT_LOG(name, level)                                                                                 \
  template <class... A> void name(const __constant char *format, A... values) const {                         \
    write(level, format, values...);                                                                          \
  }
  SOFT_LOG(log, "")
  SOFT_LOG(log_debug, "debug")
  SOFT_LOG(log_info, "info")
  SOFT_LOG(log_error, "error")
  SOFT_LOG(log_fault, "fault")
#undef SOFT_LOG
  template <class... A> void log_with_type(os_log_type type, const __constant char *format, A... values) const {
    write(type == OS_LOG_TYPE_FAULT   ? "fault"
          : type == OS_LOG_TYPE_ERROR ? "error"
          : type == OS_LOG_TYPE_DEBUG ? "debug"
          : type == OS_LOG_TYPE_INFO  ? "info"
                                      : "",
          format, values...);
  }

 private:
  template <class... A>
  void write(const __constant char *level, const __constant char *format, A... values) const {
    soft_log(subsystem, category, level, format, soft::printable(values)...);
  }
};

constexpr __global os_log os_log_default;
}  // namespace metal
