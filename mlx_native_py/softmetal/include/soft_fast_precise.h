// metal::fast and metal::precise hold the same functions: the ordinary ones already meet the precise bounds.
#pragma once
#include "soft_math.h"

#define SOFT_MATH_NAMES(M)                                                                                    \
  M(abs) M(acos) M(acosh) M(asin) M(asinh) M(atan) M(atan2) M(atanh) M(ceil) M(clamp) M(copysign) M(cos)      \
  M(cosh) M(cospi) M(divide) M(exp) M(exp10) M(exp2) M(fabs) M(fdim) M(floor) M(fma) M(fmax) M(fmax3)         \
  M(fmedian3) M(fmin) M(fmin3) M(fmod) M(fract) M(frexp) M(ilogb) M(ldexp) M(log) M(log10) M(log2) M(max)     \
  M(max3) M(median3) M(min) M(min3) M(mix) M(modf) M(nextafter) M(pow) M(powr) M(rint) M(round) M(rsqrt)      \
  M(saturate) M(sign) M(sin) M(sincos) M(sinh) M(sinpi) M(smoothstep) M(sqrt) M(step) M(tan) M(tanh)          \
  M(tanpi) M(trunc)
#define SOFT_USING(name) using metal::name;

namespace metal {
namespace fast {
SOFT_MATH_NAMES(SOFT_USING)
}
namespace precise {
SOFT_MATH_NAMES(SOFT_USING)
}
}  // namespace metal
#undef SOFT_USING
#undef SOFT_MATH_NAMES
