// The threads of an execution scope: how many, which one this is, and work that they do as one.
#pragma once
#include "soft_meet.h"
#include "soft_tensor.h"

namespace soft {
// What each thread of a simdgroup has brought to a meeting.
SOFT_LANE_FN void *const *brought(const char *inbox) { return (void *const *)(inbox + inbox_of<void *>); }

template <class Work> void work_of_simdgroup(const char *inbox, char *, soft_u32 active) {
  if (active == ~0u) Work::run(brought(inbox));
}

// Meets the whole simdgroup. All threads of a scope take part in its operations, or it is a mistake.
SOFT_LANE_FN void meet_all(lane_t lane, void *mine, soft_combine combine) {
  write_slot<void *>(lane->inbox + inbox_of<void *>, lane_number(lane)) = mine;
  if (soft_meet(lane, combine, 0) != ~0u) __builtin_trap();
}

// What all simdgroups of a threadgroup have brought.
template <class Work, size_t Size> void work_of_all(void *group, void *, void *, void *, soft_u64) {
  void *all[Size * SOFT_WIDTH];
  for (uint i = 0; i < Size * SOFT_WIDTH; ++i)
    all[i] = ((void **)((soft_group *)group)->meeting[i / SOFT_WIDTH])[i % SOFT_WIDTH];
  Work::run(all);
}

template <class Scope> struct crew;
template <> struct crew<tensors::execution_thread> {
  static SOFT_MEMBER int size() { return 1; }
  static SOFT_MEMBER int self() { return 0; }
  template <class Work> static SOFT_MEMBER void together(void *mine) { Work::run(&mine); }
};
template <> struct crew<tensors::execution_simdgroup> {
  static SOFT_MEMBER int size() { return SOFT_WIDTH; }
  SOFT_LANE_FN int self() { return int(own_lane()); }
  template <class Work> SOFT_LANE_FN void together(void *mine) {
    meet_all(soft::self(), mine, work_of_simdgroup<Work>);
  }
};
template <size_t Size> struct crew<tensors::execution_simdgroups<Size>> {
  static SOFT_MEMBER int size() { return int(Size) * SOFT_WIDTH; }
  SOFT_LANE_FN int self() { return int(soft::self()->index); }
  // Each simdgroup lists what its threads have brought; then one thread does the work while the others wait.
  template <class Work> SOFT_LANE_FN void together(void *mine) {
    lane_t lane = soft::self();
    if (lane->group->count != soft_u32(size())) __builtin_trap();
    meet_all(lane, mine, copy_all<sizeof(void *)>);
    lane->group->meeting[lane->index / SOFT_WIDTH] = lane->inbox + SOFT_OUTBOX;
    soft_barrier(lane, 0);
#if SOFT_ENGINE == 2
    if (__lane_simdgroup() == 0)
      __lane_once(work_of_all<Work, Size>, lane->group, nullptr, nullptr, nullptr, 0);
#else
    if (lane->index == 0) work_of_all<Work, Size>(lane->group, nullptr, nullptr, nullptr, 0);
#endif
    soft_barrier(lane, 0);
  }
};
}  // namespace soft
