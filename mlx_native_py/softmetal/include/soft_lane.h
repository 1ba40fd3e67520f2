// The running thread as device code finds it, and threadgroup variables.
#pragma once
#include "soft_abi.h"
#include "soft_types.h"

#ifndef SOFT_ENGINE
#define SOFT_ENGINE 1
#endif

// Distance of the thread's lane pointer from the thread pointer; the runtime knows it.
extern "C" const __global long soft_lane_offset;
// The section of threadgroup variables, and where it begins and ends; only kernels that have any have one.
#if defined(__APPLE__)
#define SOFT_TG_SECTION "__DATA,soft_tg"
extern "C" __attribute__((visibility("hidden"))) __global char soft_tg_start[] __asm("section$start$__DATA$soft_tg");
extern "C" __attribute__((visibility("hidden"))) __global char soft_tg_stop[] __asm("section$end$__DATA$soft_tg");
#else
#define SOFT_TG_SECTION "soft_tg"
extern "C" __attribute__((weak, visibility("hidden"))) __global char soft_tg_start[] __asm("__start_soft_tg");
extern "C" __attribute__((weak, visibility("hidden"))) __global char soft_tg_stop[] __asm("__stop_soft_tg");
#endif

#if SOFT_ENGINE == 2
#include "soft_lanes.h"
#endif

namespace soft {

#if SOFT_ENGINE != 2
typedef soft_lane *lane_t;

static __attribute__((always_inline)) soft_lane *self() {
#if defined(__APPLE__)
  char *thread = (char *)((ulong)__builtin_thread_pointer() & ~7ul);  // the low bits are not the address's
#else
  char *thread = (char *)__builtin_thread_pointer();
#endif
  return *(soft_lane **)(thread + soft_lane_offset);
}
#endif

static __attribute__((always_inline)) uint static_threadgroup_bytes() {
  return soft_tg_stop - soft_tg_start;
}

#if __has_feature(thread_sanitizer)
static __attribute__((always_inline)) char *threadgroup_memory(const __global soft_tg_place &stand_in) {
  return self()->group->tg + ((const __global char *)&stand_in - soft_tg_start) * SOFT_TG_SPREAD;
}
template <class T, uint N> constexpr soft_tg_place stand_in(const __constant char (&name)[N]) {
  soft_tg_place place = {sizeof(T), alignof(T), {}};
  for (uint i = 0; i < N && i < sizeof(place.name) - 1; i++) place.name[i] = name[i];
  return place;
}
#else
static __attribute__((always_inline)) char *threadgroup_memory(const __global char *stand_in) {
  return self()->group->tg + (stand_in - soft_tg_start);
}
#endif

}  // namespace soft

// SOFT_TG_VAR(element, name, [n][m]): `threadgroup element name[n][m];` of a kernel. The static stands in for the
// variable: its place in the section is the variable's place in the threadgroup's memory.
#if __has_feature(thread_sanitizer)
#define SOFT_TG_STAND_IN(type, name)                                                              \
  static __attribute__((section(SOFT_TG_SECTION), aligned(SOFT_TG_PLACE))) __global soft_tg_place \
      name##_soft_place = soft::stand_in<type>(#name)
#else
#define SOFT_TG_STAND_IN(type, name)                                                     \
  static __attribute__((section(SOFT_TG_SECTION), aligned(alignof(type)))) __global char \
      name##_soft_place[sizeof(type)]
#endif
#define SOFT_TG_VAR(type, name, ...)                                                            \
  typedef type name##_soft_type __VA_ARGS__;                                                    \
  static_assert(sizeof(name##_soft_type) <= 1 << 20 && alignof(name##_soft_type) <= 1 << 20,    \
                "variable '" #name "' is larger than any threadgroup memory");                  \
  SOFT_TG_STAND_IN(name##_soft_type, name);   \
  __local name##_soft_type &name = *(__local name##_soft_type *)soft::threadgroup_memory(name##_soft_place)
