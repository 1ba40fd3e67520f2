// Plain values as weights.
#pragma once
#include "shared/weights.h"

// Values where they lie; a row's values lie side by side.
template <typename T>
struct Dense {
  enum { SPAN = 32, BIASED = 0, WHOLE = 0 };
  device const T *values;
  ulong row_step;
  uint length;
  METAL_FUNC void move(ulong elements) thread { values += elements; }
  template <typename Put>
  METAL_FUNC void unpack(uint row, uint span, thread Put &put) const thread {
    put_values<SPAN>(values + row * row_step + span * SPAN, length - span * SPAN, put);
  }
  METAL_FUNC float2 factors(uint, uint) const thread { return float2(1.0f, 0.0f); }
};
