// The lanes engine: each simdgroup of a threadgroup is a fiber that runs its threads in step.
#include "runtime.h"

extern "C" SOFT_WAITING void soft_barrier(soft_lane *, soft_u32 flags);

// Other simdgroups run until they have all arrived or ended.
SOFT_EXPORT void soft_lanes_barrier(soft_lane *simdgroup, soft_u32 flags) { soft_barrier(simdgroup, flags); }
