// The lanes engine's view of a thread: what its 32 lanes do together stays a call, which the engine's pass replaces.
#pragma once
#include "soft_lane.h"

#define SOFT_LANE_VALUE extern "C" __attribute__((const, nothrow))
#define SOFT_LANE_TOGETHER extern "C" __attribute__((const, convergent, nomerge, nothrow))
#define SOFT_LANE_EFFECT extern "C" __attribute__((convergent, nomerge, nothrow))

// Where a lane is. The boxes are the simdgroup's own: an inbox, and the outbox SOFT_OUTBOX bytes behind it.
SOFT_LANE_VALUE soft_group *__lane_group();
SOFT_LANE_VALUE soft_u32 __lane_simdgroup();
SOFT_LANE_VALUE soft_u32 __lane_number();
SOFT_LANE_VALUE soft_u32 __lane_x();
SOFT_LANE_VALUE soft_u32 __lane_y();
SOFT_LANE_VALUE soft_u32 __lane_z();
SOFT_LANE_VALUE char *__lane_boxes();

// One answer for all active lanes.
SOFT_LANE_TOGETHER soft_u32 __lane_active();
SOFT_LANE_TOGETHER soft_u32 __lane_ballot(bool);
SOFT_LANE_TOGETHER float __lane_sum_f32(float);
SOFT_LANE_TOGETHER float __lane_min_f32(float);
SOFT_LANE_TOGETHER float __lane_max_f32(float);
SOFT_LANE_TOGETHER soft_u32 __lane_sum_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_min_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_max_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_umin_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_umax_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_and_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_or_i32(soft_u32);
SOFT_LANE_TOGETHER soft_u32 __lane_xor_i32(soft_u32);

// Another lane's value.
SOFT_LANE_TOGETHER unsigned char __lane_shuffle_i8(unsigned char, soft_u32 lane);
SOFT_LANE_TOGETHER unsigned short __lane_shuffle_i16(unsigned short, soft_u32 lane);
SOFT_LANE_TOGETHER soft_u32 __lane_shuffle_i32(soft_u32, soft_u32 lane);
SOFT_LANE_TOGETHER soft_u64 __lane_shuffle_i64(soft_u64, soft_u32 lane);

// Work done once for all of them: over the boxes, or over what the first active lane names.
SOFT_LANE_EFFECT soft_u32 __lane_meet(soft_combine);
SOFT_LANE_EFFECT void __lane_once(soft_once, void *, void *, void *, void *, soft_u64);
SOFT_LANE_EFFECT void __lane_fence();
SOFT_LANE_EFFECT void __lane_barrier(soft_u32 flags);

// Reads of the outbox. Plain loads could be moved to where other lanes have met in the meantime.
SOFT_LANE_EFFECT unsigned char __lane_take_i8(const void *);
SOFT_LANE_EFFECT unsigned short __lane_take_i16(const void *);
SOFT_LANE_EFFECT soft_u32 __lane_take_i32(const void *);
SOFT_LANE_EFFECT soft_u64 __lane_take_i64(const void *);

namespace soft {

// Stands where other engines have a pointer to the thread's record.
struct lanes_self {
  char *inbox;
  soft_group *group;
  soft_u32 index;
  __attribute__((always_inline)) const lanes_self *operator->() const { return this; }
};
typedef lanes_self lane_t;

static __attribute__((always_inline)) lane_t self() {
  return {__lane_boxes(), __lane_group(), __lane_simdgroup() * SOFT_WIDTH + __lane_number()};
}
static __attribute__((always_inline)) soft_u32 lane_number(const lane_t &) { return __lane_number(); }

}  // namespace soft

static __attribute__((always_inline)) soft_u32 soft_meet(soft::lane_t, soft_combine combine, soft_u64 flags,
                                                         soft_u64 = 0) {
  soft_u32 active = __lane_active();
  if (combine)
    __lane_meet(combine);
  else if (soft_u32(flags))
    __lane_fence();
  return active;
}
static __attribute__((always_inline)) void soft_barrier(soft::lane_t, soft_u32 flags) { __lane_barrier(flags); }
