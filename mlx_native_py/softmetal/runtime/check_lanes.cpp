// Checked mode on lanes: what the threads of a simdgroup do in step is told one thread after the other.
#include "check_access.h"

namespace soft {
namespace {

// While it lives, the running thread is a lane of the simdgroup.
struct OneLane {
  soft_lane *simdgroup;
  explicit OneLane(soft_lane *fiber) : simdgroup(fiber) { current_context->one_lane = true; }
  void become(u32 lane) { current_lane = &current_context->lanes[simdgroup->index * SOFT_WIDTH + lane].thread; }
  ~OneLane() {
    current_lane = simdgroup;
    current_context->one_lane = false;
  }
};

template <unsigned BYTES, unsigned ACCESS> void access_each(OneLane &one, const u64 *addresses, u32 active, u64 site) {
  for (u32 left = active; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    one.become(lane);
    access<BYTES, ACCESS>((const void *)addresses[lane], site);
  }
}

template <unsigned ACCESS> void access_all(soft_lane *simdgroup, const u64 *addresses, u32 active, u32 bytes, u64 site) {
  OneLane one(simdgroup);
  switch (bytes) {
    case 1: return access_each<1, ACCESS>(one, addresses, active, site);
    case 2: return access_each<2, ACCESS>(one, addresses, active, site);
    case 4: return access_each<4, ACCESS>(one, addresses, active, site);
    case 8: return access_each<8, ACCESS>(one, addresses, active, site);
    default: return access_each<16, ACCESS>(one, addresses, active, site);
  }
}

}  // namespace
}  // namespace soft

// `addresses` has one for each lane; `active` tells which of them count.
SOFT_EXPORT void soft_lanes_read(soft_lane *simdgroup, const soft_u64 *addresses, soft_u32 active, soft_u32 bytes) {
  soft::access_all<SOFT_READ>(simdgroup, addresses, active, bytes, SITE);
}
SOFT_EXPORT void soft_lanes_write(soft_lane *simdgroup, const soft_u64 *addresses, soft_u32 active, soft_u32 bytes) {
  soft::access_all<SOFT_WRITE>(simdgroup, addresses, active, bytes, SITE);
}
SOFT_EXPORT void soft_lanes_read_write(soft_lane *simdgroup, const soft_u64 *addresses, soft_u32 active,
                                       soft_u32 bytes) {
  soft::access_all<SOFT_READ>(simdgroup, addresses, active, bytes, SITE);
  soft::access_all<SOFT_WRITE>(simdgroup, addresses, active, bytes, SITE);
}

// The calls that follow are those of one lane; -1: of the whole simdgroup again.
SOFT_EXPORT void soft_lanes_become(soft_lane *simdgroup, soft_u32 lane) {
  soft::Context &context = *soft::current_context;
  context.one_lane = lane < SOFT_WIDTH;
  soft_lane *thread = &context.lanes[simdgroup->index * SOFT_WIDTH + lane % SOFT_WIDTH].thread;
  soft::current_lane = context.one_lane ? thread : simdgroup;
}

// The simdgroup's threads have met.
SOFT_EXPORT void soft_lanes_met(soft_lane *simdgroup, soft_u32 flags) { soft::check_simdgroup(simdgroup->index, flags); }
