// The shape of a product, and where the operands of each matrix of a batch begin.
#pragma once
#include <metal_stdlib>
using namespace metal;

// out[b, m, n] = alpha * sum over k of x[b, m, k] * w[b, n, k], plus beta * c[b, m, n]
struct MatmulShape {
  uint rows, columns, depth;  // of m, n and k
  uint experts;               // where not 0, row m takes the matrix that ids[m] names, one of so many
  uint share;                 // so many rows of the result take the same row of x
  uint transposed;            // whether the values of w that lie side by side belong to one n
  uint batch[2];              // the two inner axes of the batch
  float alpha, beta;
  ulong x_row, x_column, x_batch[3];
  ulong w_row, w_batch[3];
  ulong c_row, c_column, c_batch[3];
};

METAL_FUNC ulong batch_start(constant MatmulShape &shape, constant const ulong *steps, uint batch) {
  if (batch == 0) {
    return 0;
  }
  const uint inner = batch % shape.batch[1], rest = batch / shape.batch[1];
  return rest / shape.batch[0] * steps[0] + rest % shape.batch[0] * steps[1] + inner * steps[2];
}

// Where the matrix of an expert begins.
METAL_FUNC ulong expert_start(constant MatmulShape &shape, uint expert) { return expert * shape.w_batch[2]; }

template <typename T>
METAL_FUNC T finish(constant MatmulShape &shape, device const T *c, float sum, uint row, uint column) {
  if (shape.beta == 0.0f) {
    return T(shape.alpha * sum);
  }
  return T(shape.alpha * sum + shape.beta * float(c[row * shape.c_row + column * shape.c_column]));
}
