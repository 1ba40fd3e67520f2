// What indirect launches and draws read from a buffer, which kernels may write. Names and members are Metal's own.
#pragma once
#include "soft_types.h"

struct MTLDispatchThreadgroupsIndirectArguments {
  uint threadgroupsPerGrid[3];
};
struct MTLDispatchThreadsIndirectArguments {
  uint threadsPerGrid[3];
  uint threadsPerThreadgroup[3];
};
struct MTLStageInRegionIndirectArguments {
  uint stageInOrigin[3];
  uint stageInSize[3];
};
struct MTLDrawPrimitivesIndirectArguments {
  uint vertexCount;
  uint instanceCount;
  uint vertexStart;
  uint baseInstance;
};
struct MTLDrawIndexedPrimitivesIndirectArguments {
  uint indexCount;
  uint instanceCount;
  uint indexStart;
  int baseVertex;
  uint baseInstance;
};
struct MTLDrawPatchIndirectArguments {
  uint patchCount;
  uint instanceCount;
  uint patchStart;
  uint baseInstance;
};
