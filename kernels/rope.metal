// RoPE: each pair (a, b) of a head turns by its angle, (a cos - b sin, a sin + b cos); the angle is that of the pair
// for one step times the position on the pair's axis.
#include <metal_stdlib>
using namespace metal;
#include "shared/turns.h"

struct Layout {
  ulong batch, head, token;  // elements from one to the next
  uint heads;
  uint heads_each;  // that a thread turns
  uint pairs;  // that turn
  uint block;  // pairs lie half a block apart: 2 for neighbours, the rotated width for halves
};

// How to find a position: elements from one sequence, axis and token to the next, and what each token adds.
struct Places {
  uint batch, axis, token, step;
};

template <typename T>
kernel void rope(device const T *x [[buffer(0)]],
                 device const int *positions [[buffer(1)]],
                 device const float *factors [[buffer(2)]],
                 device T *out [[buffer(3)]],
                 constant ulong *turns [[buffer(4)]],
                 constant uchar *axes [[buffer(5)]],
                 constant Layout &layout [[buffer(6)]],
                 constant Places &places [[buffer(7)]],
                 constant bool &has_factors [[buffer(8)]],
                 uint3 at [[thread_position_in_grid]]) {
  uint shares = (layout.heads + layout.heads_each - 1) / layout.heads_each;
  uint sequence = at.z / shares;
  uint head = at.z % shares * layout.heads_each, end = min(head + layout.heads_each, layout.heads);
  ulong first = sequence * layout.batch + at.y * layout.token;
  x += first;
  out += first;
  uint pair = at.x;
  if (pair >= layout.pairs) {
    uint i = pair + layout.pairs;
    for (uint h = head; h < end; ++h) {
      out[h * layout.head + i] = x[h * layout.head + i];
    }
    return;
  }
  int position =
      positions[sequence * places.batch + axes[pair] * places.axis + at.y * places.token] + int(at.y * places.step);
  float cosine;
  float sine = sine_of_turns(has_factors ? divided_turn(turns[pair], factors[pair]) : turns[pair], position, cosine);
  uint half_block = layout.block / 2;
  uint i = pair / half_block * layout.block + pair % half_block;
  uint j = i + half_block;
  for (uint h = head; h < end; ++h) {
    float a = float(x[h * layout.head + i]), b = float(x[h * layout.head + j]);
    out[h * layout.head + i] = T(a * cosine - b * sine);
    out[h * layout.head + j] = T(a * sine + b * cosine);
  }
}

#define FOR_TYPE(name, T) template [[host_name("rope_" #name)]] kernel decltype(rope<T>) rope<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
