"""Sizes, alignments, layouts, constructors, conversions and traits of MSL's types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batch import Batch, Check
from .layout import FLOATS, INTEGERS, SCALARS, layout

Array = NDArray[Any]

_VECTORS = [f"{scalar}{n}" for scalar in SCALARS for n in (2, 3, 4)]
_PACKED = [f"packed_{scalar}{n}" for scalar in SCALARS if scalar != "bool" for n in (2, 3, 4)]
_MATRICES = [f"{scalar}{c}x{r}" for scalar in ("float", "half") for c in (2, 3, 4) for r in (2, 3, 4)]


def sizes() -> Batch:
    """sizeof and alignof together, one check per type."""
    checks = []
    for name in (*SCALARS, *_VECTORS, *_PACKED, *_MATRICES):
        kind = layout(name)
        checks.append(
            Check(name, f"uint2(sizeof({name}), alignof({name}))", "uint2", np.array([kind.size, kind.alignment]))
        )
    for name, size in (
        ("int8_t", 1),
        ("uint16_t", 2),
        ("int32_t", 4),
        ("uint64_t", 8),
        ("size_t", 8),
        ("ptrdiff_t", 8),
        ("atomic_int", 4),
    ):
        checks.append(Check(name, f"uint(sizeof({name}))", "uint", size))
    for expression, size in (
        ("sizeof(vec<float, 3>)", 16),
        ("sizeof(packed_vec<float, 3>)", 12),
        ("sizeof(matrix<half, 2, 4>)", 16),
        ("sizeof(array<float3, 2>)", 32),
        ("sizeof(device float*)", 8),
        ("sizeof(Mixed)", 48),
        ("alignof(Mixed)", 16),
        ("sizeof(Packed)", 20),
        ("sizeof(Wide)", 32),
    ):
        checks.append(Check(expression, f"uint({expression})", "uint", size))
    prelude = """
struct Mixed { char a; float3 b; half2 c; long d; };
struct Packed { char a; packed_float3 b; ushort c; };
struct alignas(32) Wide { float a; };
"""
    return Batch("sizes", checks, prelude=prelude)


def round_trips() -> Batch:
    """Each vector and packed type read from a buffer, changed by one and written back."""
    checks, inputs = [], {}
    names = [f"packed_{s}3" for s in ("float", "half", "int", "uchar", "short", "ulong", "bfloat")]
    names += ["float3", "half3", "bfloat3", "char3", "ushort3", "long3", "uint2", "bfloat4", "uchar4"]
    for slot, name in enumerate(names):
        kind = layout(name)
        plain = name.removeprefix("packed_")
        values = np.random.default_rng(slot).integers(0, 60, (16, kind.rows)).astype(kind.dtype)
        inputs[f"v{slot}"] = (name, values)
        expected = (values.astype(np.float64) + 1).astype(kind.dtype)
        scalar = plain[:-1]
        checks.append(Check(name, f"{name}({plain}(v{slot}) + {plain}({scalar}(1)))", name, expected))
    return Batch("round-trip", checks, inputs)


def _saturating(values: Array, scalar: str) -> Array:
    """What a conversion of in-range values gives: truncation toward zero, or rounding to nearest even."""
    dtype = SCALARS[scalar]
    return (
        np.trunc(values.astype(np.float64)).astype(dtype)
        if dtype.kind in "iu"
        else values.astype(np.float64).astype(dtype)
    )


def conversions() -> list[Batch]:
    """Every scalar type to every other, as T(x), static_cast and C cast, with in-range values."""
    batches = []
    for source in SCALARS:
        dtype = SCALARS[source]
        drawn = np.random.default_rng(len(source)).uniform(0, 100, 40) if dtype.kind != "b" else np.arange(40) % 2
        values = drawn.astype(dtype)
        checks: list[Check] = []
        for target in SCALARS:
            forms = (f"{target}(x)", f"static_cast<{target}>(x)", f"({target})x")
            want = values.astype(np.float64) != 0 if target == "bool" else _saturating(values, target)
            form = forms[len(checks) % 3]
            checks.append(Check(f"to-{target}", form, target, want))
            if source not in ("bool",) and target != "bool":
                wide = f"{target}2({source}2(x, x))"
                checks.append(Check(f"to-{target}2", wide, f"{target}2", np.stack([want, want], 1)))
        batches.append(Batch(f"convert-{source}", checks, {"x": (source, values)}))
    return batches


def rounding() -> Batch:
    """Narrowing rounds to nearest even; wrapping integer narrowing keeps low bits."""
    x = np.array(
        [1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, 2.0**-25, -(2.0**-24), 1 + 2.0**-8, 1 + 3 * 2.0**-8] * 4,
        np.float32,
    )
    n = np.random.default_rng(1).integers(-(2**62), 2**62, 32).astype(np.int64)
    checks = [
        Check("half", "half(x)", "half", lambda v: v.x.astype(np.float16)),
        Check("half-implicit", "h", "half", lambda v: v.x.astype(np.float16), before="half h = x;"),
        Check("bfloat", "bfloat(x)", "bfloat", lambda v: v.x.astype(SCALARS["bfloat"])),
        Check("float-from-half", "float(half(x))", "float", lambda v: v.x.astype(np.float16).astype(np.float32)),
        Check(
            "float-from-bfloat",
            "f",
            "float",
            lambda v: v.x.astype(SCALARS["bfloat"]).astype(np.float32),
            before="float f = bfloat(x);",
        ),
        Check(
            "half-from-bfloat", "half(bfloat(x))", "half", lambda v: v.x.astype(SCALARS["bfloat"]).astype(np.float16)
        ),
        Check("float-from-long", "float(n)", "float", lambda v: v.n.astype(np.float32)),
        Check("int-from-long", "int(n)", "int", lambda v: v.n.astype(np.int32)),
        Check("uchar-from-long", "uchar(n)", "uchar", lambda v: v.n.astype(np.uint8)),
        Check("ushort-from-long", "ushort(n)", "ushort", lambda v: v.n.astype(np.uint16)),
        Check("ulong-from-long", "ulong(n)", "ulong", lambda v: v.n.astype(np.uint64)),
        Check(
            "uint-from-minus",
            "uint(int(n) | int(0x80000000))",
            "uint",
            lambda v: v.n.astype(np.uint32) | np.uint32(1 << 31),
        ),
    ]
    return Batch("rounding", checks, {"x": ("float", x), "n": ("long", n)})


def _limits(scalar: str) -> list[tuple[str, float]]:
    import ml_dtypes

    info = ml_dtypes.finfo(SCALARS[scalar])  # type: ignore[no-untyped-call]
    return [
        ("max()", float(info.max)),
        ("lowest()", -float(info.max)),
        ("min()", float(info.smallest_normal)),
        ("epsilon()", float(info.eps)),
        ("denorm_min()", float(info.smallest_subnormal)),
        ("infinity()", np.inf),
        ("quiet_NaN()", np.nan),
        ("round_error()", 0.5),
    ]


def saturation() -> Batch:
    """Floats outside of an integer type's range give its nearest value, NaN gives zero."""
    x = np.array(
        [np.nan, np.inf, -np.inf, 3e9, -3e9, 5e9, 1e30, -1e30, -1.5, 2.9, 300.7, 7e4, -129.0, 200.0, 1e19, -0.5] * 2,
        np.float32,
    )
    checks = []
    for target in INTEGERS:
        range_ = np.iinfo(SCALARS[target])
        kept = [0 if np.isnan(v) else max(range_.min, min(range_.max, int(np.clip(v, -1e20, 1e20)))) for v in x]
        want = np.array(kept, SCALARS[target])
        checks.append(Check(target, f"{target}(x)", target, want))
        checks.append(Check(f"{target}2", f"{target}2(float2(x, x))", f"{target}2", np.stack([want, want], 1)))
        checks.append(Check(f"{target}4", f"{target}4(float4(x)).w", target, want))
    return Batch("saturation", checks, {"x": ("float", x)})


def limits() -> Batch:
    """numeric_limits of the floating types and flags of all."""
    checks = []
    for scalar in FLOATS:
        checks += [
            Check(f"{scalar}-{m}", f"numeric_limits<{scalar}>::{m}", scalar, value) for m, value in _limits(scalar)
        ]
        digits = {"float": 24, "half": 11, "bfloat": 8}[scalar]
        exponent = {"float": 128, "half": 16, "bfloat": 128}[scalar]
        checks.append(Check(f"{scalar}-digits", f"numeric_limits<{scalar}>::digits", "int", digits))
        checks.append(Check(f"{scalar}-max_exponent", f"numeric_limits<{scalar}>::max_exponent", "int", exponent))
        checks.append(Check(f"{scalar}-is_iec559", f"numeric_limits<{scalar}>::has_infinity", "bool", True))
    for scalar in (*INTEGERS, *FLOATS):
        checks.append(
            Check(f"{scalar}-is_signed", f"numeric_limits<{scalar}>::is_signed", "bool", not scalar.startswith("u"))
        )
        checks.append(
            Check(f"{scalar}-is_integer", f"numeric_limits<{scalar}>::is_integer", "bool", scalar in INTEGERS)
        )
        checks.append(Check(f"{scalar}-is_specialized", f"numeric_limits<{scalar}>::is_specialized", "bool", True))
    return Batch("limits", checks)


_TRAITS: tuple[tuple[str, bool], ...] = (
    ("is_same<int, int>::value", True),
    ("is_same_v<int, uint>", False),
    ("is_same_v<vec<float, 4>, float4>", True),
    ("is_same_v<make_unsigned_t<short>, ushort>", True),
    ("is_same_v<make_signed_t<ulong>, long>", True),
    ("is_same_v<make_scalar<half3>::type, half>", True),
    ("is_same_v<make_scalar_t<packed_int2>, int> && is_same_v<make_scalar_t<float>, float>", True),
    ("is_same_v<remove_const_t<const int>, int>", True),
    ("is_same_v<remove_reference_t<thread int&>, int>", True),
    ("is_same_v<remove_cv_t<const volatile float>, float>", True),
    ("is_same_v<remove_pointer_t<thread half*>, half>", True),
    ("is_same_v<conditional_t<true, float, int>, float>", True),
    ("is_same_v<conditional_t<false, float, int>, int>", True),
    ("is_same_v<enable_if_t<true, int>, int>", True),
    ("is_same_v<decay_t<const thread int&>, int>", True),
    ("is_same_v<decltype(1.0), float>", True),
    ("is_same_v<decltype(1.0h), half>", True),
    ("is_same_v<decltype(1.0bf), bfloat>", True),
    ("is_same_v<decltype(half(1) + half(1)), half>", True),
    ("is_same_v<decltype(half(1) + 1.0f), float>", True),
    ("is_same_v<decltype(bfloat(1) + bfloat(1)), bfloat>", True),
    ("is_same_v<decltype(bfloat(1) + 1.0f), float>", True),
    ("is_same_v<decltype(char(1) + char(1)), int>", True),
    ("is_same_v<decltype(float2() < float2()), bool2>", True),
    ("is_same_v<decltype(float4().xyz), float3>", True),
    ("is_same_v<decltype(dot(half4(), half4())), half>", True),
    ("is_same_v<decltype(max(1, 2)), int>", True),
    ("is_same_v<decltype(max(1u, 2u)), uint>", True),
    ("is_same_v<decltype(exp(1.0h)), half>", True),
    ("is_integral_v<uint>", True),
    ("is_integral_v<float>", False),
    ("is_floating_point_v<half>", True),
    ("is_floating_point_v<bfloat>", True),
    ("is_floating_point_v<int>", False),
    ("is_arithmetic_v<char>", True),
    ("is_signed_v<int>", True),
    ("is_signed_v<uint>", False),
    ("is_unsigned_v<ushort>", True),
    ("is_pointer_v<device int*>", True),
    ("is_pointer_v<int>", False),
    ("is_reference_v<thread int&>", True),
    ("is_const_v<const int>", True),
    ("is_array_v<int[3]>", True),
    ("is_enum_v<Colour>", True),
    ("is_class_v<Plain>", True),
    ("is_void_v<void>", True),
    ("is_convertible_v<int, float>", True),
    ("is_base_of_v<Plain, Derived>", True),
    ("is_trivially_copyable_v<Plain>", True),
    ("integral_constant<int, 7>::value == 7", True),
    ("bool_constant<true>::value", True),
    ("true_type::value && !false_type::value", True),
    ("is_same_v<underlying_type_t<Colour>, ushort>", True),
    ("sizeof(Colour) == 2", True),
    ("is_vector<float4>::value", True),
    ("is_scalar_v<float>", True),
    ("rank<int[2][3]>::value == 2", True),
    ("extent<int[5]>::value == 5", True),
)


def traits() -> Batch:
    """metal_type_traits and the types of expressions."""
    prelude = """
enum class Colour : ushort { red, green };
struct Plain { int a; };
struct Derived : Plain { int b; };
"""
    return Batch("traits", [Check(t.replace(" ", ""), t, "bool", value) for t, value in _TRAITS], prelude=prelude)


def all_batches() -> list[Batch]:
    return [sizes(), round_trips(), *conversions(), rounding(), saturation(), limits(), traits()]
