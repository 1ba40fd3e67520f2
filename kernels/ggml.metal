// out = x w^T for weights in GGML's blocks, and their values.
#include "shared/ggml_blocks.h"
#include "shared/ggml_quads.h"
#include "shared/lane_matmul.h"
#include "shared/matvec.h"
#include "shared/quad_matvec.h"
#include "shared/quad_rows.h"
#include "shared/tiled_matmul.h"

// A matrix of blocks as the products read it.
template <typename Block>
struct Blocks {
  enum { SPAN = Block::SPAN, BIASED = Block::BIASED, WHOLE = 1, SPANS = Block::VALUES / Block::SPAN };
  Bytes bytes;
  ulong row_bytes, matrix_bytes;
  Blocks(Bytes w, uint length, uint rows)
      : bytes(w), row_bytes(ulong(length / Block::VALUES) * Block::BYTES), matrix_bytes(row_bytes * rows) {}
  METAL_FUNC void move(ulong matrix) thread { bytes += matrix * matrix_bytes; }
  METAL_FUNC Bytes block(uint row, uint span) const thread {
    return bytes + row * row_bytes + ulong(span / SPANS) * Block::BYTES;
  }
  template <typename Put>
  METAL_FUNC void unpack(uint row, uint span, thread Put &put) const thread {
    Block::unpack(block(row, span), span % SPANS, put);
  }
  METAL_FUNC float2 factors(uint row, uint span) const thread { return Block::factors(block(row, span), span % SPANS); }
};

template <typename Block, typename T>
kernel void ggml_mv(device const T *x [[buffer(0)]],
                    device const uchar *w [[buffer(1)]],
                    device T *out [[buffer(2)]],
                    device const uint *ids [[buffer(3)]],
                    constant MatmulShape &shape [[buffer(4)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint simd [[simdgroup_index_in_threadgroup]],
                    uint simds [[simdgroups_per_threadgroup]],
                    uint lane [[thread_index_in_simdgroup]]) {
  matvec(Blocks<Block>(w, shape.depth, shape.columns), x, x, out, ids, shape, group, simd, simds, lane);
}

template <typename Block, typename T>
kernel void ggml_quad(device const T *x [[buffer(0)]],
                      device const uchar *w [[buffer(1)]],
                      device T *out [[buffer(2)]],
                      device const uint *ids [[buffer(3)]],
                      constant MatmulShape &shape [[buffer(4)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[QUAD_FLOATS];
  const QuadBlocks<Block> weights(w, depth_of(shape), shape.columns);
  quad_matvec(weights, x, x, out, ids, shape, memory, group, lane);
}

template <typename Block, typename T>
kernel void ggml_quads(device const T *x [[buffer(0)]],
                       device const uchar *w [[buffer(1)]],
                       device T *out [[buffer(2)]],
                       constant MatmulShape &shape [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[BATCH_FLOATS];
  quad_rows_matvec(QuadBlocks<Block>(w, depth_of(shape), shape.columns), x, out, shape, memory, group, lane);
}

template <typename Block, typename T>
kernel void ggml_mm(device const T *x [[buffer(0)]],
                    device const uchar *w [[buffer(1)]],
                    device T *out [[buffer(2)]],
                    device const uint *starts [[buffer(3)]],
                    device const uint *order [[buffer(4)]],
                    constant MatmulShape &shape [[buffer(5)]],
                    uint3 group [[threadgroup_position_in_grid]],
                    uint simd [[simdgroup_index_in_threadgroup]],
                    uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup float memory[TILE_FLOATS];
  const Blocks<Block> weights(w, shape.depth, shape.columns);
  tiled_matmul(weights, x, x, out, starts, order, shape, memory, group, simd, thread_index);
}

template <typename Block, typename T>
kernel void ggml_lane(device const T *x [[buffer(0)]],
                      device const uchar *w [[buffer(1)]],
                      device T *out [[buffer(2)]],
                      device const uint *starts [[buffer(3)]],
                      device const uint *order [[buffer(4)]],
                      constant MatmulShape &shape [[buffer(5)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float memory[LANE_FLOATS];
  const Blocks<Block> weights(w, shape.depth, shape.columns);
  lane_matmul(weights, x, x, out, starts, order, shape, memory, group, lane);
}

// out[i, :] = w[ids[i], :], or zeros where there is no such row; all rows in order where `gathers` is 0. A thread for
// each span.
template <typename Block, typename T>
kernel void ggml_rows(device const uchar *w [[buffer(0)]],
                      device const uint *ids [[buffer(1)]],
                      device T *out [[buffer(2)]],
                      constant uint &length [[buffer(3)]],
                      constant uint &rows [[buffer(4)]],
                      constant uint &gathers [[buffer(5)]],
                      uint2 at [[thread_position_in_grid]]) {
  const uint row = gathers != 0 ? ids[at.y] : at.y;
  out += ulong(at.y) * length + at.x * Block::SPAN;
  if (row >= rows) {
    for (uint i = 0; i < Block::SPAN; ++i) out[i] = T(0.0f);
    return;
  }
  store_span(Blocks<Block>(w, length, rows), row, at.x, out);
}

#define FOR_TYPE(B, name, T) \
  template [[host_name("ggml_mv_" #B "_" #name)]] kernel decltype(ggml_mv<B, T>) ggml_mv<B, T>; \
  template [[host_name("ggml_quad_" #B "_" #name)]] kernel decltype(ggml_quad<B, T>) ggml_quad<B, T>; \
  template [[host_name("ggml_quads_" #B "_" #name)]] kernel decltype(ggml_quads<B, T>) ggml_quads<B, T>; \
  template [[host_name("ggml_lane_" #B "_" #name)]] kernel decltype(ggml_lane<B, T>) ggml_lane<B, T>; \
  template [[host_name("ggml_mm_" #B "_" #name)]] kernel decltype(ggml_mm<B, T>) ggml_mm<B, T>; \
  template [[host_name("ggml_rows_" #B "_" #name)]] kernel decltype(ggml_rows<B, T>) ggml_rows<B, T>;
#define FOR_FORMAT(B) FOR_TYPE(B, f32, float) FOR_TYPE(B, f16, half) FOR_TYPE(B, bf16, bfloat)
FOR_FORMAT(Q4_0)
FOR_FORMAT(Q4_1)
FOR_FORMAT(Q5_0)
FOR_FORMAT(Q5_1)
FOR_FORMAT(Q8_0)
FOR_FORMAT(Q2_K)
FOR_FORMAT(Q3_K)
FOR_FORMAT(Q4_K)
FOR_FORMAT(Q5_K)
FOR_FORMAT(Q6_K)
FOR_FORMAT(IQ4_NL)
