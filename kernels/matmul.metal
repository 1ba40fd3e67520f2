// out = alpha * x w^T + beta * c with float sums; dense weights, of x's type or of a smaller one beside f32 rows.
#include "shared/dense.h"
#include "shared/lane_matmul.h"
#include "shared/matvec.h"
#include "shared/tiled_matmul.h"
#include "shared/vecmat.h"

template <typename T, typename V>
kernel void matmul_mv(device const T *x [[buffer(0)]],
                      device const V *w [[buffer(1)]],
                      device const T *c [[buffer(2)]],
                      device T *out [[buffer(3)]],
                      device const uint *ids [[buffer(4)]],
                      constant MatmulShape &shape [[buffer(5)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint simd [[simdgroup_index_in_threadgroup]],
                      uint simds [[simdgroups_per_threadgroup]],
                      uint lane [[thread_index_in_simdgroup]]) {
  matvec(Dense<V>{w, shape.w_row, shape.depth}, x, c, out, ids, shape, group, simd, simds, lane);
}

template <typename T, typename V>
kernel void matmul_row(device const T *x [[buffer(0)]],
                       device const V *w [[buffer(1)]],
                       device const T *c [[buffer(2)]],
                       device T *out [[buffer(3)]],
                       device const uint *ids [[buffer(4)]],
                       constant MatmulShape &shape [[buffer(5)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint simd [[simdgroup_index_in_threadgroup]],
                       uint simds [[simdgroups_per_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]]) {
  matvec(Neighbours<V>{{w, shape.w_row, shape.depth}}, x, c, out, ids, shape, group, simd, simds, lane);
}

template <typename T, typename V>
kernel void matmul_vm(device const T *x [[buffer(0)]],
                      device const V *w [[buffer(1)]],
                      device const T *c [[buffer(2)]],
                      device T *out [[buffer(3)]],
                      constant MatmulShape &shape [[buffer(4)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float memory[VECMAT_THREADS * VECMAT_SPAN];
  vecmat(Dense<V>{w, shape.w_row, shape.columns}, x, c, out, shape, memory, group, thread_index);
}

template <typename T, typename V>
kernel void matmul_mm(device const T *x [[buffer(0)]],
                      device const V *w [[buffer(1)]],
                      device const T *c [[buffer(2)]],
                      device T *out [[buffer(3)]],
                      device const uint *starts [[buffer(4)]],
                      device const uint *order [[buffer(5)]],
                      constant MatmulShape &shape [[buffer(6)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint simd [[simdgroup_index_in_threadgroup]],
                      uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float memory[TILE_FLOATS];
  const Dense<V> weights = {w, shape.w_row, shape.transposed ? shape.depth : shape.columns};
  tiled_matmul(weights, x, c, out, starts, order, shape, memory, group, simd, thread_index);
}

template <typename T, typename V>
kernel void matmul_lane(device const T *x [[buffer(0)]],
                        device const V *w [[buffer(1)]],
                        device const T *c [[buffer(2)]],
                        device T *out [[buffer(3)]],
                        device const uint *starts [[buffer(4)]],
                        device const uint *order [[buffer(5)]],
                        constant MatmulShape &shape [[buffer(6)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[LANE_FLOATS];
  const Dense<V> weights = {w, shape.w_row, shape.transposed ? shape.depth : shape.columns};
  lane_matmul(weights, x, c, out, starts, order, shape, memory, group, lane);
}

// Rows sorted by the expert that each one's id names: a simdgroup for each expert, and one for the ids that name none.
// order[starts[e] ... starts[e + 1]] are the rows of expert e, ascending.
kernel void matmul_route(device const uint *ids [[buffer(0)]],
                         device uint *starts [[buffer(1)]],
                         device uint *order [[buffer(2)]],
                         constant uint &rows [[buffer(3)]],
                         constant uint &experts [[buffer(4)]],
                         uint expert [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
  uint before = 0, own = 0;
  for (uint r = lane; r < rows; r += 32) {
    const uint id = min(ids[r], experts);
    before += uint(id < expert);
    own += uint(id == expert);
  }
  uint next = simd_sum(before);
  const uint end = next + simd_sum(own);
  if (lane == 0) {
    starts[expert] = next;
    if (expert == experts) {
      starts[experts + 1] = end;
    }
  }
  for (uint base = 0; base < rows && next < end; base += 32) {
    const uint r = base + lane;
    const uint mine = uint(r < rows && min(ids[min(r, rows - 1)], experts) == expert);
    const uint place = next + simd_prefix_exclusive_sum(mine);
    if (mine != 0) {
      order[place] = r;
    }
    next += simd_sum(mine);
  }
}

#define FOR_TYPES(x, T, w, V) \
  template [[host_name("matmul_mv_" #x "_" #w)]] kernel decltype(matmul_mv<T, V>) matmul_mv<T, V>; \
  template [[host_name("matmul_row_" #x "_" #w)]] kernel decltype(matmul_row<T, V>) matmul_row<T, V>; \
  template [[host_name("matmul_vm_" #x "_" #w)]] kernel decltype(matmul_vm<T, V>) matmul_vm<T, V>; \
  template [[host_name("matmul_lane_" #x "_" #w)]] kernel decltype(matmul_lane<T, V>) matmul_lane<T, V>; \
  template [[host_name("matmul_mm_" #x "_" #w)]] kernel decltype(matmul_mm<T, V>) matmul_mm<T, V>;
FOR_TYPES(f32, float, f32, float)
FOR_TYPES(f16, half, f16, half)
FOR_TYPES(bf16, bfloat, bf16, bfloat)
FOR_TYPES(f32, float, f16, half)
FOR_TYPES(f32, float, bf16, bfloat)
