"""The specification's tables of functions: by family, which argument types each takes and what it then gives.

A row is an expression and its type, or one that no overload takes. `float2()` stands for any value of that type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Row = tuple[str, str]

_SIGNED = ("char", "short", "int", "long")
_UNSIGNED = {"char": "uchar", "short": "ushort", "int": "uint", "long": "ulong"}
_WHOLE = (*_SIGNED, *_UNSIGNED.values())


def _sizes(*scalars: str) -> list[str]:
    """Scalars and their vectors."""
    return [*scalars, *_vectors(*scalars)]


def _vectors(*scalars: str) -> list[str]:
    return [f"{scalar}{width}" for scalar in scalars for width in (2, 3, 4)]


def _like(kind: str, scalar: str) -> str:
    """The type with `scalar` as its element and as many of them."""
    return scalar + (kind[-1] if kind[-1] in "234" else "")


REAL = _sizes("float", "half")
INTEGERS = _sizes(*_WHOLE)
SIMD = [kind for kind in _sizes("float", "half", *_WHOLE) if "long" not in kind]
NOT_SIMD = ["bool", "bool2", "long", "ulong", "ulong4", "bfloat", "bfloat2"]


@dataclass(frozen=True)
class Family:
    """One chapter of the standard library."""

    name: str
    accepted: tuple[Row, ...]
    refused: tuple[str, ...]


def _calls(names: str, count: int, kinds: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each function called with `count` values of each type."""
    for name in names.split():
        for kind in kinds:
            yield f"{name}({', '.join([f'{kind}()'] * count)})", kind


def _refused(names: str, count: int, kinds: Iterable[str]) -> list[str]:
    return [call for call, _ in _calls(names, count, kinds)]


MATH1 = (
    "acos acosh asin asinh atan atanh ceil cos cosh cospi exp exp2 exp10 fabs floor fract log log2 log10 rint round "
    "rsqrt sin sinh sinpi sqrt tan tanh tanpi trunc"
)
MATH2 = "atan2 copysign divide fdim fmax fmin fmod nextafter pow powr"
MATH3 = "fma fmax3 fmedian3 fmin3"
NO_MATH = ["int", "uint", "int4", "bool2", "bfloat2", "bfloat4", "float2x2"]
_MATH = Family(
    "math",
    (
        *_calls(MATH1, 1, REAL),
        *_calls(MATH2, 2, REAL),
        *_calls(MATH3, 3, REAL),
        *_calls("abs", 1, REAL),
        *_calls("max min", 2, REAL),
        *_calls("max3 min3 median3", 3, REAL),
        *((f"ilogb({kind}())", _like(kind, "int")) for kind in REAL),
        *((f"ldexp({kind}(), {_like(kind, 'int')}())", kind) for kind in REAL),
        # A bfloat is taken as the float that it becomes; a scalar stands for a vector of it.
        *((f"{name}(bfloat())", "float") for name in MATH1.split()),
        ("pow(bfloat(), bfloat())", "float"),
        ("pow(float4(), 2)", "float4"),
        ("fmax(half3(), half())", "half3"),
        ("exp(packed_float3())", "float3"),
    ),
    (
        *_refused(MATH1, 1, NO_MATH),
        *_refused(MATH2, 2, NO_MATH),
        *_refused(MATH3, 3, NO_MATH),
        *_refused("abs", 1, ["bfloat", "bfloat2", "bool2", "float2x2"]),
        *_refused("max min", 2, ["bfloat", "bfloat2", "bool2"]),
        "max(float(), half())",
        "max(float(), int())",
        "pow(float2(), float3())",
        "pow(float2(), half2())",
        "ldexp(float2(), float2())",
        "fmax(half(), float())",
    ),
)
_COMMON = Family(
    "common",
    (
        *_calls("saturate sign", 1, REAL),
        *_calls("step", 2, REAL),
        *_calls("clamp mix smoothstep", 3, REAL),
        ("mix(float3(), float3(), float())", "float3"),
        ("clamp(half4(), 0, 1)", "half4"),
    ),
    (
        *_refused("saturate sign", 1, ["int", "uint4", "bfloat2", "bool"]),
        *_refused("step", 2, ["int", "int4", "bfloat4"]),
        *_refused("mix smoothstep", 3, ["int", "int4", "bfloat4"]),
        "clamp(float(), 0, 1)",
        "clamp(half(), float(), float())",
        "clamp(int(), uint(), uint())",
        "clamp(float4(), half4(), half4())",
        "clamp(bfloat(), bfloat(), bfloat())",
    ),
)
SINGLE = _sizes("float")
_VARIANTS = Family(
    "fast and precise",
    (
        *((f"{space}::{call}", kind) for space in ("fast", "precise") for call, kind in _calls(MATH1, 1, SINGLE)),
        *((f"{space}::{call}", kind) for space in ("fast", "precise") for call, kind in _calls("max min", 2, SINGLE)),
        *((f"fast::{name}(half())", "float") for name in MATH1.split()),
        ("fast::clamp(float2(), 0.0f, 1.0f)", "float2"),
        ("precise::normalize(float3())", "float3"),
        ("fast::length(float3())", "float"),
    ),
    (
        *(
            f"{space}::{name}({kind}())"
            for space in ("fast", "precise")
            for name in ("exp", "sin")
            for kind in ("half2", "bfloat2", "int2")
        ),
        "fast::length(half2())",
        "fast::normalize(half3())",
        "precise::max(half2(), half2())",
    ),
)
INTEGER1 = "abs clz ctz popcount reverse_bits"
INTEGER2 = "addsat hadd max min mulhi rhadd rotate subsat"
INTEGER3 = "clamp madhi madsat max3 median3 min3"
BITS = [*_sizes("int", "uint")]
_INTEGER = Family(
    "integer",
    (
        *_calls(INTEGER1, 1, INTEGERS),
        *_calls(INTEGER2, 2, INTEGERS),
        *_calls(INTEGER3, 3, INTEGERS),
        *((f"absdiff({kind}(), {kind}())", _like(kind, _UNSIGNED[kind.rstrip("234")])) for kind in _sizes(*_SIGNED)),
        *((f"extract_bits({kind}(), 1u, 2u)", kind) for kind in INTEGERS),
        *((f"insert_bits({kind}(), {kind}(), 1u, 2u)", kind) for kind in INTEGERS),
        *_calls("mul24", 2, BITS),
        *_calls("mad24", 3, BITS),
    ),
    (
        *_refused("clz ctz popcount reverse_bits", 1, ["float", "half2", "bfloat", "bool2", "float4"]),
        *_refused("addsat hadd mulhi rhadd rotate subsat absdiff", 2, ["float", "half", "float2", "bool2", "bfloat"]),
        *_refused("madhi madsat", 3, ["float", "half2", "bool2"]),
        *_refused("mul24", 2, ["short4", "ushort2", "long2", "char4"]),
        *_refused("mad24", 3, ["short4", "long2"]),
        "extract_bits(float(), 1u, 2u)",
        "insert_bits(int(), uint(), 1u, 2u)",
        "mulhi(int(), uint())",
        "max(int(), uint())",
        "max(int2(), uint2())",
        "rotate(uint2(), int2())",
    ),
)
FLOATING = _sizes("float", "half", "bfloat")
_RELATIONAL = Family(
    "relational",
    (
        *((call, _like(kind, "bool")) for call, kind in _calls("isfinite isinf isnan isnormal signbit", 1, FLOATING)),
        *((call, _like(kind, "bool")) for call, kind in _calls("isordered isunordered", 2, FLOATING)),
        *((call, "bool") for call, _ in _calls("all any", 1, _sizes("bool"))),
        *(
            (f"select({kind}(), {kind}(), {_like(kind, 'bool')}())", kind)
            for kind in [*FLOATING, *INTEGERS, *_sizes("bool")]
        ),
    ),
    (
        *_refused("isfinite isinf isnan isnormal signbit", 1, ["int", "int4", "bool2"]),
        *_refused("isordered isunordered", 2, ["int", "int4"]),
        *_refused("all any", 1, ["int4", "float2"]),
        "isordered(float2(), half2())",
        "select(float2(), float2(), bool3())",
        "select(float2(), float2(), int2())",
        "select(float2(), half2(), bool2())",
        "select(1, 2.0f, true)",
    ),
)
REAL_VECTORS = _vectors("float", "half")
_GEOMETRIC = Family(
    "geometric",
    (
        *((call, kind[:-1]) for call, kind in _calls("length length_squared", 1, REAL_VECTORS)),
        *((call, kind[:-1]) for call, kind in _calls("dot distance distance_squared", 2, REAL_VECTORS)),
        *_calls("normalize", 1, REAL_VECTORS),
        *_calls("reflect", 2, REAL_VECTORS),
        *_calls("faceforward", 3, REAL_VECTORS),
        *_calls("cross", 2, ["float3", "half3"]),
        *((f"refract({kind}(), {kind}(), {kind[:-1]}())", kind) for kind in REAL_VECTORS),
    ),
    (
        *_refused("length length_squared normalize", 1, ["float", "half", "int3", "bfloat3", "bool2"]),
        *_refused("dot distance distance_squared reflect", 2, ["float", "int4", "uint2", "bfloat4"]),
        *_refused("cross", 2, ["float2", "float4", "int3", "bfloat3"]),
        "dot(float4(), half4())",
        "dot(float4(), float3())",
    ),
)
_SHAPES = [(columns, rows) for columns in (2, 3, 4) for rows in (2, 3, 4)]
_MATRIX = Family(
    "matrix",
    (
        *((f"transpose({t}{c}x{r}())", f"{t}{r}x{c}") for t in ("float", "half") for c, r in _SHAPES),
        *((f"determinant({t}{n}x{n}())", t) for t in ("float", "half") for n in (2, 3, 4)),
        *((f"{t}{c}x{r}() * {t}{c}()", f"{t}{r}") for t in ("float", "half") for c, r in _SHAPES),
        *((f"{t}{r}() * {t}{c}x{r}()", f"{t}{c}") for t in ("float", "half") for c, r in _SHAPES),
    ),
    (
        "transpose(bfloat2x2())",
        "determinant(bfloat3x3())",
        "determinant(float2x3())",
        "transpose(float4())",
        "float2x2() * float3()",
        "float2x2() * half2()",
        "float2x2() + half2x2()",
        "float2x2() + 1.0f",
        "float3x3() * float2x2()",
    ),
)
_MOVES = "broadcast shuffle shuffle_xor shuffle_up shuffle_down shuffle_rotate_up shuffle_rotate_down"


def _group(prefix: str) -> Family:
    reductions = " ".join(
        f"{prefix}_{name}"
        for name in (
            "sum product min max prefix_inclusive_sum prefix_exclusive_sum prefix_inclusive_product "
            "prefix_exclusive_product broadcast_first"
        ).split()
    )
    bits = " ".join(f"{prefix}_{name}" for name in ("and", "or", "xor"))
    whole = [kind for kind in SIMD if kind.rstrip("234") in _WHOLE]
    fills = [f"{prefix}_shuffle_and_fill_{way}" for way in ("up", "down")]
    return Family(
        prefix,
        (
            *_calls(reductions, 1, SIMD),
            *_calls(bits, 1, whole),
            *((f"{prefix}_{name}({kind}(), 1)", kind) for name in _MOVES.split() for kind in SIMD),
            *((f"{name}({kind}(), {kind}(), 1)", kind) for name in fills for kind in SIMD),
            *((f"{name}({kind}(), {kind}(), 1, 2)", kind) for name in fills for kind in SIMD),
            *((f"{prefix}_{name}(true)", "bool") for name in ("all", "any")),
            (f"{prefix}_is_first()", "bool"),
            (f"{prefix}_ballot(true)", f"{prefix}_vote"),
            (f"{prefix}_active_threads_mask()", f"{prefix}_vote"),
        ),
        (
            *_refused(reductions, 1, NOT_SIMD),
            *_refused(bits, 1, [*NOT_SIMD, "float", "half2"]),
            *(f"{prefix}_{name}({kind}(), 1)" for name in _MOVES.split() for kind in NOT_SIMD),
            *(f"{name}(float(), int(), 1)" for name in fills),
        ),
    )


_ADD = ("add", "sub")
_FETCH = (*_ADD, "and", "or", "xor", "min", "max")
_SPACES = {"device": "(SOFT_DEVICE {} *)0", "threadgroup": "(__local {} *)0"}


def _atomic(space: str, kind: str) -> str:
    return _SPACES[space].format(f"atomic_{kind}")


def _fetch(name: str, space: str, kind: str) -> str:
    return f"atomic_fetch_{name}_explicit({_atomic(space, kind)}, {kind}(1), memory_order_relaxed)"


def _whole(space: str, kind: str) -> Iterator[Row]:
    """What reads or replaces an atomic value."""
    place = _atomic(space, kind)
    yield f"atomic_load_explicit({place}, memory_order_relaxed)", kind
    yield f"atomic_store_explicit({place}, {kind}(1), memory_order_relaxed)", "void"
    yield f"atomic_exchange_explicit({place}, {kind}(1), memory_order_relaxed)", kind
    orders = "memory_order_relaxed, memory_order_relaxed"
    yield f"atomic_compare_exchange_weak_explicit({place}, (__private {kind} *)0, {kind}(1), {orders})", "bool"


_ATOMIC = Family(
    "atomic",
    (
        *((_fetch(name, space, kind), kind) for name in _FETCH for space in _SPACES for kind in ("int", "uint")),
        *((_fetch(name, "device", "float"), "float") for name in _ADD),
        *(
            (f"atomic_{name}_explicit({_atomic('device', 'ulong')}, 1ul, memory_order_relaxed)", "void")
            for name in ("min", "max")
        ),
        *(
            row
            for space in _SPACES
            for kind in ("int", "uint", "bool", *(["float"] if space == "device" else []))
            for row in _whole(space, kind)
        ),
        ("atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst)", "void"),
        ("atomic_thread_fence(mem_flags::mem_device, memory_order_relaxed, thread_scope_threadgroup)", "void"),
    ),
    (
        *(_fetch(name, "threadgroup", "float") for name in _FETCH),
        *(_fetch(name, "device", "float") for name in _FETCH if name not in _ADD),
        *(_fetch(name, space, kind) for name in _FETCH for space in _SPACES for kind in ("bool", "ulong")),
        f"atomic_max_explicit({_atomic('threadgroup', 'ulong')}, 1ul, memory_order_relaxed)",
        f"atomic_max_explicit({_atomic('device', 'uint')}, 1u, memory_order_relaxed)",
        *(call for call, _ in _whole("device", "ulong")),
        *(call for call, _ in _whole("threadgroup", "float")),
        *(
            f"atomic_thread_fence(mem_flags::mem_device, memory_order_{order})"
            for order in ("acquire", "release", "acq_rel", "consume")
        ),
        f"atomic_fetch_add_explicit({_atomic('device', 'int')}, 1)",
        "atomic_fetch_add_explicit((SOFT_DEVICE int *)0, 1, memory_order_relaxed)",
        "atomic_thread_fence(memory_order_seq_cst)",
    ),
)
_PACKED = (
    ("unorm4x8", 4, "uint"),
    ("snorm4x8", 4, "uint"),
    ("srgb_unorm4x8", 4, "uint"),
    ("unorm2x16", 2, "uint"),
    ("snorm2x16", 2, "uint"),
    ("unorm10a2", 4, "uint"),
    ("unorm565", 3, "ushort"),
)
_PACK = Family(
    "pack",
    (
        *((f"pack_{t}_to_{form}({t}{n}())", word) for t in ("float", "half") for form, n, word in _PACKED),
        *(
            (f"unpack_{form.replace('srgb_unorm4x8', 'unorm4x8_srgb')}_to_{t}({word}())", f"{t}{n}")
            for t in ("float", "half")
            for form, n, word in _PACKED
        ),
    ),
    (
        "pack_float_to_unorm4x8(half4())",
        "pack_half_to_unorm4x8(float4())",
        "pack_float_to_unorm4x8(int4())",
        "pack_float_to_unorm4x8(float3())",
        "pack_float_to_unorm2x16(float4())",
        "pack_float_to_unorm4x8(bfloat4())",
        "unpack_unorm4x8_to_float(uint2())",
    ),
)
_SYNCHRONISATION = Family(
    "synchronisation",
    (
        *(
            (f"{name}_barrier(mem_flags::mem_{flag})", "void")
            for name in ("threadgroup", "simdgroup")
            for flag in ("none", "device", "threadgroup", "texture")
        ),
        ("threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)", "void"),
    ),
    (
        "threadgroup_barrier()",
        "threadgroup_barrier(0)",
        "threadgroup_barrier(mem_device)",
        "threadgroup_barrier(mem_flags::mem_device, thread_scope_device)",
        "simdgroup_barrier()",
        "simdgroup_barrier(1)",
    ),
)

FAMILIES = (
    _COMMON,
    _INTEGER,
    _RELATIONAL,
    _MATH,
    _VARIANTS,
    _MATRIX,
    _GEOMETRIC,
    _group("simd"),
    _group("quad"),
    _ATOMIC,
    _SYNCHRONISATION,
    _PACK,
)
