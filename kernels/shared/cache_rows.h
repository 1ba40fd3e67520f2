// Where the rows of new keys and values lie, and where in caches [batch, heads, capacity, dim] they go.
#pragma once
#include <metal_stdlib>
using namespace metal;

struct Copy {
  ulong stride[3];  // of the new rows: batch, head, token
  uint heads;
  uint tokens;
  uint capacity;
  uint position_stride;
  uint ring;
  uint dim[2];  // of keys and of values
};

// The row of a cache that a token goes to, or -1 where it has no place. Of tokens that meet in one slot of a ring, only
// the last is written.
inline long cache_row(constant Copy &c, constant uint *positions, uint batch, uint head, uint token) {
  ulong slot = ulong(positions[batch * c.position_stride]) + token;
  if (c.ring) {
    if (ulong(token) + c.capacity < c.tokens) return -1;
    slot %= c.capacity;
  }
  return slot < c.capacity ? long((ulong(batch) * c.heads + head) * c.capacity + slot) : -1;
}

inline ulong source_row(constant Copy &c, uint batch, uint head, uint token) {
  return batch * c.stride[0] + head * c.stride[1] + token * c.stride[2];
}
