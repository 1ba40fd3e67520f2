// The gated delta rule by chunks of 64 tokens, as products of matrices. With G the sum of g since the chunk began,
// A = strict lower part of beta_i exp(G_j - G_i) k_i k_j and S the state before the chunk:
//   U = (I + A)^-1 beta (V - exp(-G) K S^T),  out_i = exp(-G_i) S q_i + sum_{j <= i} exp(G_j - G_i) (q_i k_j) U_j,
//   S = exp(-G_last) S + sum_j exp(G_j - G_last) U_j k_j^T.
#include <metal_stdlib>
using namespace metal;

constant constexpr uint CHUNK = 64;
constant constexpr uint TILE = 8;

// dims are rounded up to tiles; heads are those of the values.
struct Sizes {
  uint tokens, chunks, heads, key_heads, key_dim, value_dim, tiled;
};

// Where a threadgroup's chunk of a head is in the arrays.
struct Place {
  uint sequence, head, chunk;
  Sizes sizes;
  uint count() const thread { return min(CHUNK, sizes.tokens - chunk * CHUNK); }
  // In [sequences, heads, chunks].
  ulong number() const thread { return (ulong(sequence) * sizes.heads + head) * sizes.chunks + chunk; }
  // In [sequences, key heads, chunks].
  ulong key_number() const thread {
    const uint key_head = sizes.tiled ? head % sizes.key_heads : head / (sizes.heads / sizes.key_heads);
    return (ulong(sequence) * sizes.key_heads + key_head) * sizes.chunks + chunk;
  }
  // Of token i in [sequences, tokens, heads]. Beyond the last token it is the last one's: keys and values are 0 there.
  ulong gate(uint i) const thread {
    return (ulong(sequence) * sizes.tokens + chunk * CHUNK + min(i, count() - 1)) * sizes.heads + head;
  }
};

// sum += a b over `depth` columns of a; `flipped` says that b is stored transposed.
template <typename A, typename B>
inline void accumulate(thread simdgroup_float8x8 &sum, A a, ulong a_pitch, B b, ulong b_pitch, bool flipped,
                       uint depth) {
  for (uint d = 0; d < depth; d += TILE) {
    simdgroup_float8x8 left, right;
    simdgroup_load(left, a + d, a_pitch);
    simdgroup_load(right, flipped ? b + d : b + d * b_pitch, b_pitch, ulong2(0), flipped);
    simdgroup_multiply_accumulate(sum, left, right, sum);
  }
}

// The lower tiles of a b^T, 64 by 64.
inline void lower_products(device const float *a, device const float *b, uint n, threadgroup float *found,
                           uint simdgroup, uint simdgroups) {
  for (uint tile = simdgroup; tile < 64; tile += simdgroups) {
    const uint i = tile / 8 * TILE, j = tile % 8 * TILE;
    if (j <= i) {
      simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      accumulate(sum, a + i * n, n, b + j * n, n, true, n);
      simdgroup_store(sum, found + i * CHUNK + j, CHUNK);
    }
  }
}

// Rows [sequences, tokens, heads, from_dim] as float [sequences, heads, chunks * 64, to_dim], zeros around them;
// a simdgroup has a row, and may bring it to length one.
template <typename T>
kernel void chunk_rows(device const T *x [[buffer(0)]],
                       device float *out [[buffer(1)]],
                       constant uint &tokens [[buffer(2)]],
                       constant uint &from_dim [[buffer(3)]],
                       constant uint &to_dim [[buffer(4)]],
                       constant float &scale [[buffer(5)]],
                       constant float &eps [[buffer(6)]],
                       constant bool &normalise [[buffer(7)]],
                       uint3 at [[threadgroup_position_in_grid]],
                       uint3 groups [[threadgroups_per_grid]],
                       uint lane [[thread_index_in_simdgroup]]) {
  const bool inside = at.x < tokens;
  x += ((ulong(at.z) * tokens + (inside ? at.x : 0)) * groups.y + at.y) * from_dim;
  out += ((ulong(at.z) * groups.y + at.y) * groups.x + at.x) * to_dim;
  float squares = 0;
  for (uint i = lane; i < from_dim; i += 32) {
    squares += float(x[i]) * float(x[i]);
  }
  const float factor = scale * (normalise ? precise::rsqrt(simd_sum(squares) + eps) : 1.0f);
  for (uint i = lane; i < to_dim; i += 32) {
    out[i] = inside && i < from_dim ? float(x[i]) * factor : 0.0f;
  }
}

// Sums of x [sequences, tokens, heads] along the tokens of a chunk.
kernel void chunk_cumsum(device const float *x [[buffer(0)]],
                         device float *out [[buffer(1)]],
                         constant uint &tokens [[buffer(2)]],
                         constant uint &heads [[buffer(3)]],
                         constant uint &chunk [[buffer(4)]],
                         uint3 at [[thread_position_in_grid]]) {
  if (at.x >= heads) {
    return;
  }
  float sum = 0;
  for (uint t = at.y * chunk; t < min(tokens, (at.y + 1) * chunk); t++) {
    const ulong i = (ulong(at.z) * tokens + t) * heads + at.x;
    sum += x[i];
    out[i] = sum;
  }
}

// x = (I + A)^-1 b for the strict lower part of A [n, n]; a thread has a column of b [n, columns].
kernel void tri_solve_lower_unit(device const float *a [[buffer(0)]],
                                 device const float *b [[buffer(1)]],
                                 device float *x [[buffer(2)]],
                                 constant uint &n [[buffer(3)]],
                                 constant uint &columns [[buffer(4)]],
                                 uint2 at [[thread_position_in_grid]]) {
  if (at.x >= columns) {
    return;
  }
  a += ulong(at.y) * n * n;
  b += ulong(at.y) * n * columns + at.x;
  x += ulong(at.y) * n * columns + at.x;
  for (uint i = 0; i < n; i++) {
    float value = b[ulong(i) * columns];
    for (uint j = 0; j < i; j++) {
      value -= a[ulong(i) * n + j] * x[ulong(j) * columns];
    }
    x[ulong(i) * columns] = value;
  }
}

#define CHUNK_ARGUMENTS \
  uint3 at [[threadgroup_position_in_grid]], uint thread_number [[thread_index_in_threadgroup]], \
      uint3 group [[threads_per_threadgroup]], uint simdgroup [[simdgroup_index_in_threadgroup]], \
      uint simdgroups [[simdgroups_per_threadgroup]]

// from_values = (I + A)^-1 beta and from_keys = (I + A)^-1 beta exp(-G), column by column.
kernel void chunk_invert(device const float *k [[buffer(0)]],
                         device const float *sums [[buffer(1)]],
                         device const float *beta [[buffer(2)]],
                         device float *from_values [[buffer(3)]],
                         device float *from_keys [[buffer(4)]],
                         constant Sizes &sizes [[buffer(5)]],
                         CHUNK_ARGUMENTS) {
  threadgroup float a[CHUNK * CHUNK];
  const Place place = {at.z, at.y, at.x, sizes};
  k += place.key_number() * CHUNK * sizes.key_dim;
  from_values += place.number() * CHUNK * CHUNK;
  from_keys += place.number() * CHUNK * CHUNK;
  lower_products(k, k, sizes.key_dim, a, simdgroup, simdgroups);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint e = thread_number; e < CHUNK * CHUNK; e += group.x) {
    const uint i = e / CHUNK, j = e % CHUNK;
    if (j < i) {
      a[e] *= beta[place.gate(i)] * precise::exp(sums[place.gate(j)] - sums[place.gate(i)]);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint j = thread_number; j < CHUNK; j += group.x) {
    const float decay = precise::exp(-sums[place.gate(j)]);
    for (uint i = 0; i < CHUNK; i++) {
      float value = i == j ? beta[place.gate(j)] : 0.0f;
      for (uint m = j; m < i; m++) {
        value -= a[i * CHUNK + m] * from_values[m * CHUNK + j];
      }
      from_values[i * CHUNK + j] = value;
      from_keys[i * CHUNK + j] = value * decay;
    }
  }
}

// u = from_values V and w = from_keys K.
kernel void chunk_products(device const float *from_values [[buffer(0)]],
                           device const float *from_keys [[buffer(1)]],
                           device const float *v [[buffer(2)]],
                           device const float *k [[buffer(3)]],
                           device float *u [[buffer(4)]],
                           device float *w [[buffer(5)]],
                           constant Sizes &sizes [[buffer(6)]],
                           CHUNK_ARGUMENTS) {
  const Place place = {at.z, at.y, at.x, sizes};
  const uint value_tiles = sizes.value_dim / TILE, tiles = value_tiles + sizes.key_dim / TILE;
  for (uint tile = simdgroup; tile < 8 * tiles; tile += simdgroups) {
    const uint i = tile / tiles * TILE, column = tile % tiles;
    const bool is_value = column < value_tiles;
    const uint n = is_value ? sizes.value_dim : sizes.key_dim;
    const uint j = (is_value ? column : column - value_tiles) * TILE;
    device const float *left = (is_value ? from_values : from_keys) + place.number() * CHUNK * CHUNK + i * CHUNK;
    device const float *right = is_value ? v + place.number() * CHUNK * n : k + place.key_number() * CHUNK * n;
    device float *found = (is_value ? u : w) + (place.number() * CHUNK + i) * n + j;
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    accumulate(sum, left, CHUNK, right + j, n, false, i + TILE);
    simdgroup_store(sum, found, n);
  }
}

// From chunk to chunk, for eight rows of a head's state: keeps the state before each chunk in `before`, and makes u
// the U above.
kernel void chunk_states(device const float *k [[buffer(0)]],
                         device const float *w [[buffer(1)]],
                         device const float *sums [[buffer(2)]],
                         device float *u [[buffer(3)]],
                         device float *state [[buffer(4)]],
                         device float *before [[buffer(5)]],
                         constant Sizes &sizes [[buffer(6)]],
                         constant uint2 &state_dims [[buffer(7)]],
                         CHUNK_ARGUMENTS) {
  threadgroup float rows[TILE * 256], deltas[CHUNK * TILE];
  const uint n = sizes.key_dim, first = at.x * TILE;
  state += (ulong(at.z) * sizes.heads + at.y) * state_dims.x * state_dims.y;
  for (uint e = thread_number; e < TILE * n; e += group.x) {
    const uint i = first + e / n, j = e % n;
    rows[e] = i < state_dims.x && j < state_dims.y ? state[ulong(i) * state_dims.y + j] : 0.0f;
  }
  for (uint chunk = 0; chunk < sizes.chunks; chunk++) {
    const Place place = {at.z, at.y, chunk, sizes};
    threadgroup_barrier(mem_flags::mem_threadgroup);
    device const float *keys = k + place.key_number() * CHUNK * n;
    device const float *weights = w + place.number() * CHUNK * n;
    device float *values = u + place.number() * CHUNK * sizes.value_dim + first;
    device float *kept = before + (place.number() * sizes.value_dim + first) * n;
    for (uint i = simdgroup * TILE; i < CHUNK; i += simdgroups * TILE) {
      simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      accumulate(sum, weights + i * n, n, rows, n, true, n);
      simdgroup_store(sum, deltas + i * TILE, TILE);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float last = sums[place.gate(CHUNK)];
    for (uint e = thread_number; e < CHUNK * TILE; e += group.x) {
      device float *value = values + ulong(e / TILE) * sizes.value_dim + e % TILE;
      *value -= deltas[e];
      deltas[e] = *value * precise::exp(sums[place.gate(e / TILE)] - last);
    }
    for (uint e = thread_number; e < TILE * n; e += group.x) {
      kept[e] = rows[e];
      rows[e] *= precise::exp(-last);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = simdgroup * TILE; j < n; j += simdgroups * TILE) {
      simdgroup_float8x8 sum;
      simdgroup_load(sum, rows + j, n);
      for (uint i = 0; i < CHUNK; i += TILE) {
        simdgroup_float8x8 left, right;
        simdgroup_load(left, deltas + i * TILE, TILE, ulong2(0), true);
        simdgroup_load(right, keys + i * n + j, n);
        simdgroup_multiply_accumulate(sum, left, right, sum);
      }
      simdgroup_store(sum, rows + j, n);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint e = thread_number; e < TILE * n; e += group.x) {
    const uint i = first + e / n, j = e % n;
    if (i < state_dims.x && j < state_dims.y) {
      state[ulong(i) * state_dims.y + j] = rows[e];
    }
  }
}

// out, from the state before the chunk and from the chunk's own U; [sequences, tokens, heads, out_dim].
template <typename T>
kernel void chunk_output(device const float *q [[buffer(0)]],
                         device const float *k [[buffer(1)]],
                         device const float *sums [[buffer(2)]],
                         device const float *u [[buffer(3)]],
                         device const float *before [[buffer(4)]],
                         device T *out [[buffer(5)]],
                         constant Sizes &sizes [[buffer(6)]],
                         constant uint &out_dim [[buffer(7)]],
                         CHUNK_ARGUMENTS,
                         uint lane [[thread_index_in_simdgroup]]) {
  threadgroup float shares[CHUNK * CHUNK], tiles[4 * 2 * TILE * TILE];
  const Place place = {at.z, at.y, at.x, sizes};
  const uint n = sizes.key_dim, width = sizes.value_dim;
  q += place.key_number() * CHUNK * n;
  k += place.key_number() * CHUNK * n;
  u += place.number() * CHUNK * width;
  before += place.number() * width * n;
  lower_products(q, k, n, shares, simdgroup, simdgroups);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint e = thread_number; e < CHUNK * CHUNK; e += group.x) {
    const uint i = e / CHUNK, j = e % CHUNK;
    shares[e] = j <= i ? shares[e] * precise::exp(sums[place.gate(j)] - sums[place.gate(i)]) : 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float *old = tiles + simdgroup * 2 * TILE * TILE, *own = old + TILE * TILE;
  for (uint tile = simdgroup; tile < 8 * (width / TILE); tile += simdgroups) {
    const uint i = tile % 8 * TILE, j = tile / 8 * TILE;
    simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    accumulate(sum, q + i * n, n, before + j * n, n, true, n);
    simdgroup_store(sum, old, TILE);
    sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    accumulate(sum, shares + i * CHUNK, CHUNK, u + j, width, false, i + TILE);
    simdgroup_store(sum, own, TILE);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint e = lane; e < TILE * TILE; e += 32) {
      const uint token = i + e / TILE, column = j + e % TILE;
      if (token < place.count() && column < out_dim) {
        const ulong gate = place.gate(token);
        out[gate * out_dim + column] = T(precise::exp(-sums[gate]) * old[e] + own[e]);
      }
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("chunk_rows_" #name)]] kernel decltype(chunk_rows<T>) chunk_rows<T>; \
  template [[host_name("chunk_output_" #name)]] kernel decltype(chunk_output<T>) chunk_output<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
