"""as_type, pack and unpack functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import SCALARS

Array = NDArray[Any]


def _view(values: Array, dtype: Any) -> Array:
    return np.asarray(np.ascontiguousarray(values).view(dtype))


def bit_casts() -> Batch:
    """as_type between types of one size."""
    rng = np.random.default_rng(1)
    f = rng.uniform(-9, 9, 16).astype(np.float32)
    u = rng.integers(0, 2**32, (16, 4)).astype(np.uint32)
    b = rng.integers(0, 256, (16, 4)).astype(np.uint8)
    h = rng.integers(0, 0x7B00, 16).astype(np.uint16)
    checks = [
        Check("float-uint", "as_type<uint>(f)", "uint", lambda v: _view(v.f, np.uint32)),
        Check("float-int", "as_type<int>(f)", "int", lambda v: _view(v.f, np.int32)),
        Check("uint-float", "as_type<float>(as_type<uint>(f) ^ 0x80000000u)", "float", lambda v: -v.f),
        Check(
            "float-half2",
            "as_type<ushort2>(as_type<half2>(f))",
            "ushort2",
            lambda v: _view(v.f, np.uint16).reshape(16, 2),
        ),
        Check("float-uchar4", "as_type<uchar4>(f)", "uchar4", lambda v: _view(v.f, np.uint8).reshape(16, 4)),
        Check("uchar4-uint", "as_type<uint>(b)", "uint", lambda v: _view(v.b, np.uint32).reshape(16)),
        Check("char4-int", "as_type<int>(as_type<char4>(b))", "int", lambda v: _view(v.b, np.int32).reshape(16)),
        Check("ushort-half", "as_type<half>(h)", "half", lambda v: _view(v.h, np.float16)),
        Check("ushort-bfloat", "as_type<bfloat>(h)", "bfloat", lambda v: _view(v.h, SCALARS["bfloat"])),
        Check("bfloat-ushort", "as_type<ushort>(as_type<bfloat>(h))", "ushort", lambda v: v.h),
        Check("half-short", "as_type<short>(as_type<half>(h))", "short", lambda v: _view(v.h, np.int16)),
        Check("uint4-float4", "as_type<uint4>(as_type<float4>(u))", "uint4", lambda v: v.u),
        Check("uint2-ulong", "as_type<ulong>(u.xy)", "ulong", lambda v: _view(v.u[:, :2], np.uint64).reshape(16)),
        Check("ulong-uint2", "as_type<uint2>(as_type<ulong>(u.zw))", "uint2", lambda v: v.u[:, 2:]),
        Check("uint-ushort2", "as_type<ushort2>(u.x)", "ushort2", lambda v: _view(v.u[:, :1], np.uint16)),
        Check("uint-bfloat2", "as_type<uint>(as_type<bfloat2>(u.y))", "uint", lambda v: v.u[:, 1]),
        Check(
            "float3-int3", "as_type<int3>(float3(f))", "int3", lambda v: np.repeat(_view(v.f, np.int32)[:, None], 3, 1)
        ),
    ]
    return Batch("as_type", checks, {"f": ("float", f), "u": ("uint4", u), "b": ("uchar4", b), "h": ("ushort", h)})


def _round(values: Array) -> Array:
    return np.asarray(np.rint(values))


def _packed(values: Array, scale: float, low: float, dtype: Any, word: Any) -> Array:
    stepped = _round(np.clip(values.astype(np.float32), low, 1) * np.float32(scale)).astype(dtype)
    return _view(stepped, word).reshape(len(values))


def packs() -> Batch:
    """Packing clamps, scales and rounds to nearest."""
    v = np.random.default_rng(2).uniform(-1.3, 1.3, (64, 4)).astype(np.float32)
    v[0], v[1], v[2] = 0.0, 1.0, -1.0
    h = v.astype(np.float16)
    checks = [
        Check("snorm4x8", "pack_float_to_snorm4x8(v)", "uint", lambda i: _packed(i.v, 127, -1, np.int8, np.uint32)),
        Check("unorm4x8", "pack_float_to_unorm4x8(v)", "uint", lambda i: _packed(i.v, 255, 0, np.uint8, np.uint32)),
        Check(
            "snorm2x16",
            "pack_float_to_snorm2x16(v.xy)",
            "uint",
            lambda i: _packed(i.v[:, :2], 32767, -1, np.int16, np.uint32),
        ),
        Check(
            "unorm2x16",
            "pack_float_to_unorm2x16(v.xy)",
            "uint",
            lambda i: _packed(i.v[:, :2], 65535, 0, np.uint16, np.uint32),
        ),
        Check("half-snorm4x8", "pack_half_to_snorm4x8(h)", "uint", lambda i: _packed(i.h, 127, -1, np.int8, np.uint32)),
        Check("half-unorm4x8", "pack_half_to_unorm4x8(h)", "uint", lambda i: _packed(i.h, 255, 0, np.uint8, np.uint32)),
        Check(
            "half-snorm2x16",
            "pack_half_to_snorm2x16(h.xy)",
            "uint",
            lambda i: _packed(i.h[:, :2], 32767, -1, np.int16, np.uint32),
        ),
        Check(
            "half-unorm2x16",
            "pack_half_to_unorm2x16(h.xy)",
            "uint",
            lambda i: _packed(i.h[:, :2], 65535, 0, np.uint16, np.uint32),
        ),
        Check("unorm10a2", "pack_float_to_unorm10a2(v)", "uint", _ten_bits),
        Check("half-unorm10a2", "pack_half_to_unorm10a2(h)", "uint", lambda i: _ten_bits_of(i.h)),
        Check("unorm565", "pack_float_to_unorm565(v.xyz)", "ushort", _five_six_five),
        Check("half-unorm565", "pack_half_to_unorm565(h.xyz)", "ushort", lambda i: _five_six_five_of(i.h)),
        Check("srgb", "pack_float_to_srgb_unorm4x8(v)", "uint", lambda i: _srgb(i.v)),
    ]
    return Batch("pack", checks, {"v": ("float4", v), "h": ("half4", h)})


def _ten_bits(i: Any) -> Array:
    return _ten_bits_of(i.v)


def _ten_bits_of(values: Array) -> Array:
    scaled = _round(np.clip(values.astype(np.float64), 0, 1) * [1023, 1023, 1023, 3]).astype(np.uint32)
    return np.asarray(scaled[:, 0] | scaled[:, 1] << 10 | scaled[:, 2] << 20 | scaled[:, 3] << 30)


def _five_six_five(i: Any) -> Array:
    return _five_six_five_of(i.v)


def _five_six_five_of(values: Array) -> Array:
    scaled = _round(np.clip(values[:, :3].astype(np.float64), 0, 1) * [31, 63, 31]).astype(np.uint32)
    return np.asarray(scaled[:, 0] | scaled[:, 1] << 5 | scaled[:, 2] << 11)


def _srgb(values: Array) -> Array:
    x = np.clip(values.astype(np.float64), 0, 1)
    curve = np.where(x < 0.0031308, 12.92 * x, 1.055 * np.power(x, 1 / 2.4) - 0.055)
    curve[:, 3] = x[:, 3]
    return np.ascontiguousarray(_round(curve * 255).astype(np.uint8)).view(np.uint32).reshape(len(values))


def _bytes(v: Any, dtype: Any) -> Array:
    return _view(v.p, dtype).reshape(len(v.p), -1).astype(np.float64)


def _unpacked_ten(v: Any) -> Array:
    fields = np.stack([v.p & 1023, v.p >> 10 & 1023, v.p >> 20 & 1023, v.p >> 30], 1)
    return np.asarray(fields / np.array([1023.0, 1023.0, 1023.0, 3.0]))


def _unpacked_565(v: Any) -> Array:
    low = v.p & 0xFFFF
    return np.asarray(np.stack([low & 31, low >> 5 & 63, low >> 11], 1) / np.array([31.0, 63.0, 31.0]))


def unpacks() -> Batch:
    """Unpacking to float and to half."""
    p = np.random.default_rng(3).integers(0, 2**32, 64).astype(np.uint32)
    p[0], p[1], p[2] = 0, 0xFFFFFFFF, 0x80808080
    signed8 = lambda v: np.maximum(_bytes(v, np.int8) / 127, -1)  # noqa: E731
    signed16 = lambda v: np.maximum(_bytes(v, np.int16) / 32767, -1)  # noqa: E731
    checks = []
    for scalar in ("float", "half"):
        four, three, two = (f"{scalar}{n}" for n in (4, 3, 2))
        checks += [
            Check(f"snorm4x8-{scalar}", f"unpack_snorm4x8_to_{scalar}(p)", four, signed8, 1),
            Check(
                f"unorm4x8-{scalar}", f"unpack_unorm4x8_to_{scalar}(p)", four, lambda v: _bytes(v, np.uint8) / 255, 1
            ),
            Check(f"snorm2x16-{scalar}", f"unpack_snorm2x16_to_{scalar}(p)", two, signed16, 1),
            Check(
                f"unorm2x16-{scalar}",
                f"unpack_unorm2x16_to_{scalar}(p)",
                two,
                lambda v: _bytes(v, np.uint16) / 65535,
                1,
            ),
            Check(f"unorm10a2-{scalar}", f"unpack_unorm10a2_to_{scalar}(p)", four, _unpacked_ten, 1),
            Check(f"unorm565-{scalar}", f"unpack_unorm565_to_{scalar}(ushort(p))", three, _unpacked_565, 1),
        ]
    checks.append(
        Check("srgb", "unpack_unorm4x8_srgb_to_float(p).a", "float", lambda v: _bytes(v, np.uint8)[:, 3] / 255, 1)
    )
    return Batch("unpack", checks, {"p": ("uint", p)})


def all_batches() -> list[Batch]:
    return [bit_casts(), packs(), unpacks()]
