"""Calls on textures that the specification has no member function for."""

from __future__ import annotations

from .rejected_strict_table import line
from .rejected_table import Refused


def textured(name: str, statement: str, pattern: str, kind: str) -> Refused:
    """A statement about a texture `t` and a sampler `s`."""
    return line(f"texture-{name}", statement, pattern, "", f"{kind} t, sampler s")


_PLAIN = "texture2d<float>"
TEXTURES = (
    textured("level-of-1d", "out[i] = t.sample(s, 0.5f, level(1)).x;", "no matching|too many", "texture1d<float>"),
    textured("offset-of-cube", "out[i] = t.sample(s, float3(1), int3(0)).x;", "no matching", "texturecube<float>"),
    textured("gradient-of-3d", "out[i] = t.sample(s, float2(1), gradient3d(1, 1)).x;", "no matching", _PLAIN),
    textured("level-and-bias", "out[i] = t.sample(s, float2(1), level(1), bias(1)).x;", "no matching", _PLAIN),
    textured("offset-before-level", "out[i] = t.sample(s, float2(1), int2(1), level(1)).x;", "no matching", _PLAIN),
    textured("sampled-by-whole-numbers", "out[i] = t.sample(s, int2(1)).x;", "no matching|no viable", _PLAIN),
    textured("read-at-signed-numbers", "out[i] = t.read(int2(1)).x;", "no matching", _PLAIN),
    textured("sampled-for-reading", "out[i] = t.sample(s, float2(1)).x;", "sampled", "texture2d<float, access::read>"),
    textured("written-for-sampling", "t.write(float4(1), uint2(1));", "written", _PLAIN),
    textured("compared", "out[i] = t.sample_compare(s, float2(1), 0.5f);", "no member", _PLAIN),
    textured("height-of-1d", "out[i] = t.get_height();", "no member", "texture1d<float>"),
    textured(
        "atomics-of-cube",
        "t.atomic_fetch_add(uint2(1), 0u, uint4(1));",
        "no member",
        "texturecube<uint, access::read_write>",
    ),
    textured(
        "atomics-of-float",
        "t.atomic_fetch_add(uint2(1), float4(1));",
        "atomics",
        "texture2d<float, access::read_write>",
    ),
)
