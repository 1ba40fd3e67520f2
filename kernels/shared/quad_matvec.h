// A few rows of x by a matrix whose rows lie along k: a quad of lanes takes two rows of the matrix, eight apart, so that
// a simdgroup makes 16 results. All lanes walk along k together, and neighbours read neighbouring bytes.
//
// `W` goes to a row with `go`, and takes `W::step()` values at a time: `W::Inputs` prepares x, and `product` is the
// lane's share of a row's product with it.
#pragma once
#include "shared/matmul_shape.h"
#include "shared/weights.h"

// Where it is given, the width of the matrix, so that the rows of a simdgroup lie at known distances.
constant uint DEPTH [[function_constant(2)]];

constant constexpr uint QUAD_RESULTS = 16;

METAL_FUNC uint depth_of(constant MatmulShape &shape) {
  return is_function_constant_defined(DEPTH) ? DEPTH : shape.depth;
}

template <typename W, typename T>
METAL_FUNC void quad_matvec(W w, device const T *x, device const T *c, device T *out, device const uint *ids,
                            constant MatmulShape &shape, uint3 group, uint simd, uint simds, uint lane) {
  const uint first = (group.x * simds + simd) * QUAD_RESULTS, row = group.y;
  if (first >= shape.columns) {
    return;
  }
  x += batch_start(shape, shape.x_batch, group.z) + row / shape.share * shape.x_row;
  c += batch_start(shape, shape.c_batch, group.z);
  out += (ulong(group.z) * shape.rows + row) * shape.columns;
  // The last results begin earlier, where the ones before them are made as well.
  const uint begin = min(first, shape.columns - QUAD_RESULTS), part = lane % 4;
  const uint column = begin + part % 2 * 8 + lane / 4;
  const bool mine = part < 2 && column >= first;
  if (shape.experts != 0 && ids[row] >= shape.experts) {
    if (mine) {
      out[column] = T(0.0f);
    }
    return;
  }
  w.move(shape.experts != 0 ? expert_start(shape, ids[row]) : batch_start(shape, shape.w_batch, group.z));
  w.go(begin);
  const uint steps = depth_of(shape) / W::step();
  float2 sums = 0.0f;
  for (uint s = 0; s < steps; ++s) {
    const typename W::Inputs inputs(x + s * W::step(), part);
    sums.x += w.product(lane / 4, s, part, inputs);
    sums.y += w.product(lane / 4 + 8, s, part, inputs);
  }
  sums += simd_shuffle_xor(sums, ushort(2));
  sums += simd_shuffle_xor(sums, ushort(1));
  if (mine) {
    out[column] = finish(shape, c, part == 0 ? sums.x : sums.y, row, column);
  }
}
