// Rows of which a thread takes PARTS elements, 1 or 4: those of a simdgroup lie side by side, 32 of each part.
#pragma once
#include <metal_stdlib>
using namespace metal;

constant uint PARTS [[function_constant(9)]];

inline uint column_of(uint thread_number, uint part) {
  return thread_number / 32 * (32 * PARTS) + part * 32 + thread_number % 32;
}

// A statement with `column` in it, for each column of a thread. Not a loop: how long the kernel takes is known ahead.
#define EACH_COLUMN(thread_number, statement) \
  { \
    uint column = column_of(thread_number, 0); \
    statement; \
    if (PARTS == 4) { \
      column = column_of(thread_number, 1); \
      statement; \
      column = column_of(thread_number, 2); \
      statement; \
      column = column_of(thread_number, 3); \
      statement; \
    } \
  }
