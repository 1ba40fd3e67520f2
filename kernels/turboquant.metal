// TurboQuant: rows of n values rotated by signs and a Walsh-Hadamard transform, y = H (signs x) / sqrt(n). Each block
// of up to 256 keeps its norm |y| and the codes of the Lloyd-Max levels that are nearest to y sqrt(block) / |y|.
// Codes are a stream of bits, from the lowest bit of each byte on.
#include <metal_stdlib>
using namespace metal;
#include "shared/hadamard.h"
#include "shared/lloyd_max.h"

constant constexpr uint BLOCK = 256;

inline uint code_at(device const uchar *codes, uint i, uint bits) {
  const uint bit = i * bits, shift = bit % 8;
  uint word = codes[bit / 8];
  if (shift + bits > 8) {
    word |= uint(codes[bit / 8 + 1]) << 8;
  }
  return (word >> shift) & ((1u << bits) - 1u);
}

// x [batch, heads, tokens, n] into codes and norms [batch, heads, capacity, ...], from positions[batch] on: in a ring
// they wrap around, and the last tokens stay; else what is beyond the end is dropped.
template <typename T>
kernel void tq_quantize(device const T *x [[buffer(0)]],
                        constant uint *signs [[buffer(1)]],
                        constant uint *positions [[buffer(2)]],
                        device uchar *codes [[buffer(3)]],
                        device float *norms [[buffer(4)]],
                        constant uint &n [[buffer(5)]],
                        constant uint &bits [[buffer(6)]],
                        constant uint &capacity [[buffer(7)]],
                        constant bool &ring [[buffer(8)]],
                        constant bool &has_signs [[buffer(9)]],
                        constant bool &tokens_first [[buffer(10)]],
                        threadgroup float *row [[threadgroup(0)]],
                        uint3 at [[threadgroup_position_in_grid]],
                        uint3 groups [[threadgroups_per_grid]],
                        uint thread_number [[thread_index_in_threadgroup]],
                        uint3 group [[threads_per_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint simdgroups [[simdgroups_per_threadgroup]]) {
  const uint head = at.x, heads = groups.x, token = at.y, tokens = groups.y, batch = at.z;
  const ulong position = ulong(positions[batch]) + token;
  if (ring ? tokens - token > capacity : position >= capacity) {
    return;
  }
  const ulong place = (ulong(batch) * heads + head) * capacity + position % capacity;
  const uint block = min(n, BLOCK);
  const ulong row_number = tokens_first ? ulong(token) * heads + head : ulong(head) * tokens + token;
  x += (ulong(batch) * tokens * heads + row_number) * n;
  codes += place * (n / 8 * bits);
  norms += place * (n / block);
  for (uint i = thread_number; i < n; i += group.x) {
    row[i] = has_signs ? with_sign(float(x[i]), signs, i) : float(x[i]);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  hadamard(row, n, thread_number, group.x);
  for (uint b = simdgroup; b < n / block; b += simdgroups) {
    threadgroup const float *values = row + b * block;
    float squares = 0;
    for (uint i = lane; i < block; i += 32) {
      squares += values[i] * values[i];
    }
    const float length = precise::sqrt(simd_sum(squares));
    const float norm = length / precise::sqrt(float(n));
    const float factor = norm > 1e-10f ? precise::sqrt(float(block)) / length : 0.0f;
    if (lane == 0) {
      norms[b] = norm;
    }
    // Eight codes fill `bits` bytes.
    for (uint i = lane * 8; i < block; i += 32 * 8) {
      ulong word = 0;
      for (uint j = 0; j < 8; j++) {
        word |= ulong(nearest_code(values[i + j] * factor, bits)) << (j * bits);
      }
      for (uint j = 0; j < bits; j++) {
        codes[(b * block + i) / 8 * bits + j] = uchar(word >> (j * 8));
      }
    }
  }
}

// Rows of codes back to values; `rotated` leaves them as they lie in the cache.
template <typename T>
kernel void tq_dequantize(device const uchar *codes [[buffer(0)]],
                          device const float *norms [[buffer(1)]],
                          constant uint *signs [[buffer(2)]],
                          device T *out [[buffer(3)]],
                          constant uint &n [[buffer(4)]],
                          constant uint &bits [[buffer(5)]],
                          constant bool &has_signs [[buffer(6)]],
                          constant bool &rotated [[buffer(7)]],
                          threadgroup float *row [[threadgroup(0)]],
                          uint number [[threadgroup_position_in_grid]],
                          uint thread_number [[thread_index_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]]) {
  const uint block = min(n, BLOCK);
  codes += ulong(number) * (n / 8 * bits);
  norms += ulong(number) * (n / block);
  out += ulong(number) * n;
  const float factor = precise::rsqrt(float(block));
  for (uint i = thread_number; i < n; i += threads) {
    row[i] = level_of(code_at(codes, i, bits), bits) * norms[i / block] * factor;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (!rotated) {
    hadamard(row, n, thread_number, threads);
  }
  const float scale = rotated ? 1.0f : precise::rsqrt(float(n));
  for (uint i = thread_number; i < n; i += threads) {
    const float value = row[i] * scale;
    out[i] = T(has_signs && !rotated ? with_sign(value, signs, i) : value);
  }
}

constant uint BITS [[function_constant(0)]];
constant uint PER_LANE [[function_constant(1)]];  // values of a row in each lane, at most 16

// A lane's values of a row, up to the factor that it returns.
inline float load_row(device const uchar *codes, device const float *norms, ulong row, uint lane,
                      thread float *values) {
  const uint n = PER_LANE * 32, first = lane * PER_LANE, block = min(n, BLOCK);
  codes += row * (n / 8 * BITS);
  for (uint j = 0; j < PER_LANE; j++) {
    values[j] = level_of(code_at(codes, first + j, BITS), BITS);
  }
  return norms[row * (n / block) + first / block] * precise::rsqrt(float(block));
}

struct Attention {
  uint kv_heads, capacity, window;
  float scale, softcap;
};

// One rotated query of a head against a share of the keys: the sum of the values weighted by exp(score - top), `top`
// and the sum of the weights. The position p of a sequence lies at p % capacity.
kernel void tq_sdpa_share(device const float *q [[buffer(0)]],
                          device const uchar *k [[buffer(1)]],
                          device const float *k_norms [[buffer(2)]],
                          device const uchar *v [[buffer(3)]],
                          device const float *v_norms [[buffer(4)]],
                          constant uint *lengths [[buffer(5)]],
                          device float *sums [[buffer(6)]],
                          device float2 *weights [[buffer(7)]],
                          constant Attention &options [[buffer(8)]],
                          uint3 at [[threadgroup_position_in_grid]],
                          uint3 groups [[threadgroups_per_grid]],
                          uint lane [[thread_index_in_simdgroup]]) {
  const uint head = at.y, heads = groups.y, shares = groups.x, n = PER_LANE * 32;
  const uint length = lengths[at.z];
  const uint reach = min(options.capacity, options.window > 0 ? options.window : length);
  const uint visible = min(length, reach), each = (visible + shares - 1) / shares;
  const uint first = length - visible + min(at.x * each, visible), last = first + min(each, length - first);
  const ulong row = ulong(at.z) * heads + head;
  const ulong cache = (ulong(at.z) * options.kv_heads + head / (heads / options.kv_heads)) * options.capacity;
  float query[16], values[16], sum[16];
  for (uint j = 0; j < PER_LANE; j++) {
    query[j] = q[row * n + lane * PER_LANE + j];
    sum[j] = 0;
  }
  float top = -INFINITY, total = 0;
  for (uint p = first; p < last; p++) {
    const ulong place = cache + p % options.capacity;
    const float key_factor = load_row(k, k_norms, place, lane, values);
    float dot = 0;
    for (uint j = 0; j < PER_LANE; j++) {
      dot += query[j] * values[j];
    }
    float score = simd_sum(dot * key_factor) * options.scale;
    score = options.softcap > 0 ? options.softcap * precise::tanh(score / options.softcap) : score;
    const float higher = max(top, score);
    const float fade = precise::exp(top - higher), weight = precise::exp(score - higher);
    const float value_factor = load_row(v, v_norms, place, lane, values) * weight;
    for (uint j = 0; j < PER_LANE; j++) {
      sum[j] = sum[j] * fade + values[j] * value_factor;
    }
    total = total * fade + weight;
    top = higher;
  }
  const ulong found = row * shares + at.x;
  for (uint j = 0; j < PER_LANE; j++) {
    sums[found * n + lane * PER_LANE + j] = sum[j];
  }
  if (lane == 0) {
    weights[found] = float2(top, total);
  }
}

// The shares of a head together, rotated back; 0 where there is no key.
template <typename T>
kernel void tq_sdpa_merge(device const float *sums [[buffer(0)]],
                          device const float2 *weights [[buffer(1)]],
                          constant uint *signs [[buffer(2)]],
                          device T *out [[buffer(3)]],
                          constant uint &n [[buffer(4)]],
                          constant uint &shares [[buffer(5)]],
                          constant bool &has_signs [[buffer(6)]],
                          threadgroup float *row [[threadgroup(0)]],
                          uint number [[threadgroup_position_in_grid]],
                          uint thread_number [[thread_index_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]]) {
  sums += ulong(number) * shares * n;
  weights += ulong(number) * shares;
  out += ulong(number) * n;
  float top = -INFINITY, total = 0;
  for (uint s = 0; s < shares; s++) {
    top = max(top, weights[s].x);
  }
  for (uint s = 0; s < shares; s++) {
    total += weights[s].y != 0 ? weights[s].y * precise::exp(weights[s].x - top) : 0.0f;
  }
  for (uint i = thread_number; i < n; i += threads) {
    float sum = 0;
    for (uint s = 0; s < shares; s++) {
      sum += weights[s].y != 0 ? sums[ulong(s) * n + i] * precise::exp(weights[s].x - top) : 0.0f;
    }
    row[i] = total != 0 ? sum / total : 0.0f;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  hadamard(row, n, thread_number, threads);
  for (uint i = thread_number; i < n; i += threads) {
    const float value = row[i] * precise::rsqrt(float(n));
    out[i] = T(has_signs ? with_sign(value, signs, i) : value);
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("tq_quantize_" #name)]] kernel decltype(tq_quantize<T>) tq_quantize<T>; \
  template [[host_name("tq_dequantize_" #name)]] kernel decltype(tq_dequantize<T>) tq_dequantize<T>; \
  template [[host_name("tq_sdpa_merge_" #name)]] kernel decltype(tq_sdpa_merge<T>) tq_sdpa_merge<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
