// RoPE: each pair (a, b) of a head turns by its angle, (a cos - b sin, a sin + b cos); the angle is that of the pair
// for one step times the position on the pair's axis.
#include <metal_stdlib>
using namespace metal;
#include "shared/cache_rows.h"
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

// A head's pair, and its angle.
struct Pair {
  uint i, j;
  float sine, cosine;
  Pair(uint pair, ulong turn, int position, uint block) {
    const uint half_block = block / 2;
    i = pair / half_block * block + pair % half_block;
    j = i + half_block;
    float adjacent;
    sine = sine_of_turns(turn, position, adjacent);
    cosine = adjacent;
  }
  template <typename T>
  METAL_FUNC vec<T, 2> turned(device const T *x) const thread {
    const float a = float(x[i]), b = float(x[j]);
    return vec<T, 2>(T(fma(a, cosine, -(b * sine))), T(fma(a, sine, b * cosine)));
  }
  template <typename T>
  METAL_FUNC void put(vec<T, 2> both, device T *to) const thread {
    to[i] = both.x;
    to[j] = both.y;
  }
};

METAL_FUNC int position_of(device const int *positions, constant Places &places, uint sequence, uint axis, uint token) {
  return positions[sequence * places.batch + axis * places.axis + token * places.token] + int(token * places.step);
}

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
  const ulong turn = has_factors ? divided_turn(turns[pair], factors[pair]) : turns[pair];
  const Pair own(pair, turn, position_of(positions, places, sequence, axes[pair], at.y), layout.block);
  for (uint h = head; h < end; ++h) own.put(own.turned(x + h * layout.head), out + h * layout.head);
}

// `rope` of heads of one sequence or several, of which those from `first_key` on are keys that go to a cache as well,
// together with their values. Behind the heads that turn, the grid has one for each head of values.
template <typename T, typename C>
kernel void rope_cache(device const T *x [[buffer(0)]],
                       device const int *positions [[buffer(1)]],
                       device const float *factors [[buffer(2)]],
                       device T *out [[buffer(3)]],
                       constant ulong *turns [[buffer(4)]],
                       constant uchar *axes [[buffer(5)]],
                       constant Layout &layout [[buffer(6)]],
                       constant Places &places [[buffer(7)]],
                       constant bool &has_factors [[buffer(8)]],
                       device const T *values [[buffer(9)]],
                       device C *key_cache [[buffer(10)]],
                       device C *value_cache [[buffer(11)]],
                       constant uint *rows [[buffer(12)]],
                       constant Copy &c [[buffer(13)]],
                       constant uint &first_key [[buffer(14)]],
                       uint3 at [[thread_position_in_grid]],
                       uint3 grid [[threads_per_grid]]) {
  const uint sequence = at.y / c.tokens, token = at.y % c.tokens;
  if (at.z >= layout.heads) {
    const uint head = at.z - layout.heads, dim = c.dim[1];
    const long row = cache_row(c, rows, sequence, head, token);
    const ulong from = source_row(c, sequence, head, token) * dim;
    if (row < 0) return;
    for (uint i = at.x; i < dim; i += grid.x) value_cache[ulong(row) * dim + i] = C(values[from + i]);
    return;
  }
  const ulong first = at.y * layout.token + at.z * layout.head;
  x += first;
  out += first;
  const long row = at.z >= first_key ? cache_row(c, rows, sequence, at.z - first_key, token) : -1;
  device C *cached = key_cache + (row < 0 ? 0 : ulong(row) * c.dim[0]);
  if (at.x >= layout.pairs) {
    const uint i = at.x + layout.pairs;
    out[i] = x[i];
    if (row >= 0) cached[i] = C(x[i]);
    return;
  }
  const ulong turn = has_factors ? divided_turn(turns[at.x], factors[at.x]) : turns[at.x];
  const Pair own(at.x, turn, position_of(positions, places, 0, axes[at.x], at.y), layout.block);
  const vec<T, 2> both = own.turned(x);
  own.put(both, out);
  if (row >= 0) own.put(vec<C, 2>(both), cached);
}

#define FOR_TYPE(name, T) template [[host_name("rope_" #name)]] kernel decltype(rope<T>) rope<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)

#define FOR_TYPES(from, T, to, C) \
  template [[host_name("rope_cache_" #from "_" #to)]] kernel decltype(rope_cache<T, C>) rope_cache<T, C>;
FOR_TYPES(f32, float, f32, float)
FOR_TYPES(f32, float, f16, half)
FOR_TYPES(f32, float, bf16, bfloat)
FOR_TYPES(f16, half, f16, half)
FOR_TYPES(f16, half, f32, float)
FOR_TYPES(bf16, bfloat, bf16, bfloat)
FOR_TYPES(bf16, bfloat, f32, float)
