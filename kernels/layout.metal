// out[i, j, k, l] = x[i, j, k, l] with strides of one's own on both sides, transposed tiles, and rows put together and
// taken apart; on bits, so that one kernel serves all types of a size.
#include <metal_stdlib>
using namespace metal;
#include "shared/parts.h"

struct Strided {
  uint shape[4];
  long from[4];
  long to[4];
  long from_start;
  long to_start;
};

constant bool SIDE_BY_SIDE [[function_constant(0)]];  // along l, elements are neighbours on both sides

// A thread for PARTS of l, each k, and i and j together.
template <typename T>
kernel void strided_copy(device const T *x [[buffer(0)]],
                         device T *out [[buffer(1)]],
                         constant Strided &p [[buffer(2)]],
                         uint3 at [[thread_position_in_grid]]) {
  const long i = at.z / p.shape[1], j = at.z % p.shape[1], k = at.y;
  const long from = p.from_start + i * p.from[0] + j * p.from[1] + k * p.from[2];
  const long to = p.to_start + i * p.to[0] + j * p.to[1] + k * p.to[2];
  if (SIDE_BY_SIDE) {
    EACH_COLUMN(at.x, out[to + column] = x[from + column])
  } else {
    out[to + at.x * p.to[3]] = x[from + at.x * p.from[3]];
  }
}

constant uint TILE = 32;
constant uint TILE_ROWS = 8;

// [batch, rows, columns] to [batch, columns, rows]; a threadgroup of 32 x 8 for each tile, so that both sides are
// touched in the order of their memory.
template <typename T>
kernel void transpose_tiles(device const T *x [[buffer(0)]],
                            device T *out [[buffer(1)]],
                            constant uint &rows [[buffer(2)]],
                            constant uint &columns [[buffer(3)]],
                            uint3 tile [[threadgroup_position_in_grid]],
                            uint3 lane [[thread_position_in_threadgroup]]) {
  threadgroup T kept[TILE][TILE + 1];
  const ulong start = ulong(tile.z) * rows * columns;
  const uint row = tile.y * TILE, column = tile.x * TILE;
  for (uint r = lane.y; r < TILE; r += TILE_ROWS) {
    if (row + r < rows && column + lane.x < columns) {
      kept[r][lane.x] = x[start + ulong(row + r) * columns + column + lane.x];
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint c = lane.y; c < TILE; c += TILE_ROWS) {
    if (column + c < columns && row + lane.x < rows) {
      out[start + ulong(column + c) * rows + row + lane.x] = kept[lane.x][c];
    }
  }
}

// Rows of up to four inputs, one after the other, into columns `first`... of rows of `width`; a thread for PARTS columns
// of the widest, each row, and each input.
template <typename T>
kernel void concat(device const T *a [[buffer(0)]],
                   device const T *b [[buffer(1)]],
                   device const T *c [[buffer(2)]],
                   device const T *d [[buffer(3)]],
                   device T *out [[buffer(4)]],
                   constant uint4 &widths [[buffer(5)]],
                   constant ulong &width [[buffer(6)]],
                   constant ulong &first [[buffer(7)]],
                   uint3 at [[thread_position_in_grid]]) {
  device const T *x = at.z == 0 ? a : at.z == 1 ? b : at.z == 2 ? c : d;
  const ulong before = (at.z > 0 ? widths.x : 0) + (at.z > 1 ? widths.y : 0) + (at.z > 2 ? widths.z : 0);
  const uint own = widths[at.z];
  x += ulong(at.y) * own;
  out += at.y * width + first + before;
  if (at.x < own / PARTS) {
    EACH_COLUMN(at.x, out[column] = x[column])
  }
}

// Rows of [q | k | v], taken apart; a thread per element.
template <typename T>
kernel void qkv_split(device const T *x [[buffer(0)]],
                      device T *q [[buffer(1)]],
                      device T *k [[buffer(2)]],
                      device T *v [[buffer(3)]],
                      constant uint3 &widths [[buffer(4)]],
                      uint2 at [[thread_position_in_grid]]) {
  const ulong row = at.y;
  const T value = x[row * (widths.x + widths.y + widths.z) + at.x];
  uint column = at.x;
  if (column < widths.x) {
    q[row * widths.x + column] = value;
  } else if ((column -= widths.x) < widths.y) {
    k[row * widths.y + column] = value;
  } else {
    v[row * widths.z + column - widths.y] = value;
  }
}

#define KERNEL(name, ...) template [[host_name(name)]] kernel decltype(__VA_ARGS__) __VA_ARGS__;
#define FOR_BITS(bits, T) \
  KERNEL("strided_copy_" #bits, strided_copy<T>) \
  KERNEL("transpose_tiles_" #bits, transpose_tiles<T>) \
  KERNEL("concat_" #bits, concat<T>) \
  KERNEL("qkv_split_" #bits, qkv_split<T>)
FOR_BITS(8, uchar)
FOR_BITS(16, ushort)
FOR_BITS(32, uint)
FOR_BITS(64, ulong)
