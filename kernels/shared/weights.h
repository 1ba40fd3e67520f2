// Weights as the products read them, whatever their format.
//
// A type W of weights has rows, read in spans of W::SPAN values. `unpack(row, span, put)` calls put(i, q) for each
// four values, and `factors` has the span's (scale, bias): a value is scale * q + bias, a bias only where W::BIASED.
// Rows are whole spans where W::WHOLE. `move` goes to another matrix of a batch.
#pragma once
#include <metal_stdlib>
using namespace metal;

// Four values wherever they lie.
METAL_FUNC float4 four_of(device const float *at) { return float4(*(device const packed_float4 *)at); }
METAL_FUNC float4 four_of(device const half *at) { return float4(half4(*(device const packed_half4 *)at)); }
METAL_FUNC float4 four_of(device const bfloat *at) { return float4(bfloat4(*(device const packed_bfloat4 *)at)); }

// COUNT values, those after the first `left` as zeros.
template <uint COUNT, typename T, typename Put>
METAL_FUNC void put_values(device const T *from, uint left, thread Put &put) {
  if (left >= COUNT) {
    for (uint i = 0; i < COUNT / 4; ++i) put(i, four_of(from + 4 * i));
  } else {
    for (uint i = 0; i < COUNT / 4; ++i) {
      float4 four = 0.0f;
      for (uint j = 0; j < 4; ++j) four[j] = 4 * i + j < left ? float(from[4 * i + j]) : 0.0f;
      put(i, four);
    }
  }
}

// The values in memory, `step` apart.
template <bool BIASED, typename T, typename P>
struct Store {
  P to;
  uint step;
  float2 factors;
  METAL_FUNC void operator()(uint i, float4 q) thread {
    const float4 values = BIASED ? factors.x * q + factors.y : factors.x * q;
    for (uint j = 0; j < 4; ++j) to[(4 * i + j) * step] = T(values[j]);
  }
};

template <typename W>
METAL_FUNC void store_span(W w, uint row, uint span, threadgroup float *to, uint step) {
  Store<W::BIASED != 0, float, threadgroup float *> put = {to, step, w.factors(row, span)};
  w.unpack(row, span, put);
}

template <typename W, typename T>
METAL_FUNC void store_span(W w, uint row, uint span, device T *to) {
  Store<W::BIASED != 0, T, device T *> put = {to, 1, w.factors(row, span)};
  w.unpack(row, span, put);
}
