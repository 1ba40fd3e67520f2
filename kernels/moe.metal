// The top_k experts of each token and their weights: the largest logits, of equal ones the lower expert first.
#include <metal_stdlib>
using namespace metal;

struct Pick {
  float logit;
  uint expert;
};

inline bool before(Pick a, Pick b) { return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert); }

// The first expert after `last`, or the first of all. NaN counts as -infinity: a token always gets top_k experts.
template <typename Logits>
inline Pick next_pick(Logits logits, uint experts, bool any, Pick last, uint lane) {
  Pick best = {-INFINITY, 0xFFFFFFFF};
  for (uint e = lane; e < experts; e += 32) {
    const float logit = float(logits[e]);
    const Pick each = {isnan(logit) ? -INFINITY : logit, e};
    if ((any || before(last, each)) && before(each, best)) {
      best = each;
    }
  }
  const float top = simd_max(best.logit);
  return {top, simd_min(best.logit == top ? best.expert : 0xFFFFFFFF)};
}

// Writes the experts, and as weights exp(logit - top) * scale of the expert; returns `top`, and the weights' sum.
// Weight k belongs to lane k % 32 of the simdgroup that picks.
template <typename Logits>
inline float pick_experts(Logits logits, uint experts, uint top_k, constant float *scale, bool scaled,
                          device uint *ids, device float *weights, uint lane, thread float &sum) {
  Pick pick = {0, 0};
  float top = 0;
  sum = 0;
  for (uint k = 0; k < top_k; k++) {
    pick = next_pick(logits, experts, k == 0, pick, lane);
    top = k == 0 ? pick.logit : top;
    const float weight = precise::exp(pick.logit - top) * (scaled ? scale[pick.expert] : 1.0f);
    sum += weight;
    if (k % 32 == lane) {
      ids[k] = pick.expert;
      weights[k] = weight;
    }
  }
  return top;
}

// One simdgroup per token.
template <typename T>
kernel void moe_softmax_topk(device const T *logits [[buffer(0)]],
                             constant float *scale [[buffer(1)]],
                             device uint *ids [[buffer(2)]],
                             device float *weights [[buffer(3)]],
                             constant uint &experts [[buffer(4)]],
                             constant uint &top_k [[buffer(5)]],
                             constant bool &scaled [[buffer(6)]],
                             constant bool &renormalise [[buffer(7)]],
                             uint token [[threadgroup_position_in_grid]],
                             uint lane [[thread_index_in_simdgroup]]) {
  logits += ulong(token) * experts;
  ids += ulong(token) * top_k;
  weights += ulong(token) * top_k;
  float sum;
  const float top = pick_experts(logits, experts, top_k, scale, false, ids, weights, lane, sum);
  float total = 0;
  for (uint e = lane; e < experts; e += 32) {
    total += precise::exp(float(logits[e]) - top);
  }
  total = simd_sum(total);
  const float kept = renormalise ? sum / total : 1.0f;
  for (uint k = lane; k < top_k; k += 32) {
    weights[k] = weights[k] / total / kept * (scaled ? scale[ids[k]] : 1.0f);
  }
}

// One threadgroup per token; each simdgroup has its share of the router's rows, the first one picks.
template <typename T>
kernel void moe_gate(device const T *hidden [[buffer(0)]],
                     device const float *router [[buffer(1)]],
                     device const float *norm [[buffer(2)]],
                     constant float *scale [[buffer(3)]],
                     device uint *ids [[buffer(4)]],
                     device float *weights [[buffer(5)]],
                     constant uint &width [[buffer(6)]],
                     constant uint &experts [[buffer(7)]],
                     constant uint &top_k [[buffer(8)]],
                     constant float &eps [[buffer(9)]],
                     constant bool &scaled [[buffer(10)]],
                     threadgroup float *logits [[threadgroup(0)]],
                     uint token [[threadgroup_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]]) {
  hidden += ulong(token) * width;
  float squares = 0;
  for (uint i = lane; i < width; i += 32) {
    squares += float(hidden[i]) * float(hidden[i]);
  }
  const float factor = precise::rsqrt(simd_sum(squares) / float(width) + eps);
  for (uint e = simdgroup; e < experts; e += simdgroups) {
    device const float *row = router + ulong(e) * width;
    float dot = 0;
    for (uint i = lane; i < width; i += 32) {
      dot += float(hidden[i]) * norm[i] * row[i];
    }
    dot = simd_sum(dot) * factor;
    if (lane == 0) {
      logits[e] = dot;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simdgroup != 0) {
    return;
  }
  ids += ulong(token) * top_k;
  weights += ulong(token) * top_k;
  float sum;
  pick_experts(logits, experts, top_k, scale, scaled, ids, weights, lane, sum);
  for (uint k = lane; k < top_k; k += 32) {
    weights[k] /= sum;
  }
}

#define FOR_TYPE(name, T) \
  template [[host_name("moe_softmax_topk_" #name)]] kernel decltype(moe_softmax_topk<T>) moe_softmax_topk<T>; \
  template [[host_name("moe_gate_" #name)]] kernel decltype(moe_gate<T>) moe_gate<T>;
FOR_TYPE(f32, float)
FOR_TYPE(f16, half)
FOR_TYPE(bf16, bfloat)
