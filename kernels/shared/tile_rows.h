// Which rows of a product a tile has, where each row may have a matrix of its own.
#pragma once
#include "shared/matmul_shape.h"

// The rows of a tile: all of one matrix.
struct TileRows {
  uint expert, first, end;
};

METAL_FUNC TileRows tile_rows(constant MatmulShape &shape, device const uint *starts, uint tile, uint height) {
  if (shape.experts == 0) {
    return {0, tile * height, min(tile * height + height, shape.rows)};
  }
  for (uint expert = 0; expert <= shape.experts; ++expert) {
    const uint first = starts[expert] + tile * height, end = starts[expert + 1];
    if (first < end) {
      return {expert, first, min(first + height, end)};
    }
    tile -= (end - starts[expert] + height - 1) / height;
  }
  return {0, 0, 0};
}
