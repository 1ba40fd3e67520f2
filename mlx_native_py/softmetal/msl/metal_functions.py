"""The names of Metal's functions, which a program may also give to its own functions."""

from __future__ import annotations

import re

_NAMES = frozenset(
    """
    abs absdiff acos acosh addsat all any as_type asin asinh atan atan2 atanh ceil clamp clz copysign cos cosh
    cospi cross ctz determinant distance distance_squared divide dot exp exp10 exp2 extract_bits fabs
    faceforward fdim floor fma fmax fmax3 fmedian3 fmin fmin3 fmod fract frexp hadd ilogb insert_bits isfinite
    isinf isnan isnormal isordered isunordered ldexp length length_squared log log10 log2 mad24 madhi madsat max
    max3 median3 min min3 mix modf mul24 mulhi nextafter normalize not popcount pow powr reflect refract
    remainder reverse_bits rhadd rint rotate round rsqrt saturate select sign signbit sin sincos sinh sinpi
    smoothstep sqrt step subsat tan tanh tanpi transpose trunc
    """.split()
)
_FAMILIES = re.compile(r"(simd|quad|simdgroup|threadgroup|atomic|pack|unpack|make_filled)_\w+")


def is_metal_function(name: str) -> bool:
    """Whether a call of `name` may mean a function of Metal's."""
    return name in _NAMES or _FAMILIES.fullmatch(name) is not None
