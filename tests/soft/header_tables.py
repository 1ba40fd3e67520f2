"""Rows for test_headers: layouts, constant expressions, and snippets in the dialect that kernels are compiled in."""

from __future__ import annotations

Layout = tuple[str, int, int]

_SIZES = {
    **dict.fromkeys(("bool", "char", "uchar"), 1),
    **dict.fromkeys(("short", "ushort", "half", "bfloat"), 2),
    **dict.fromkeys(("int", "uint", "float"), 4),
    **dict.fromkeys(("long", "ulong"), 8),
}


def _layouts() -> list[Layout]:
    rows: list[Layout] = []
    for name, size in _SIZES.items():
        rows.append((name, size, size))
        for count in (2, 3, 4):
            whole = size * (4 if count == 3 else count)
            rows.append((f"{name}{count}", whole, whole))
            rows.append((f"packed_{name}{count}", size * count, size))
    for name in ("float", "half", "bfloat"):
        for columns in (2, 3, 4):
            for rows_ in (2, 3, 4):
                column = _SIZES[name] * (4 if rows_ == 3 else rows_)
                rows.append((f"{name}{columns}x{rows_}", column * columns, column))
    return rows


LAYOUTS = _layouts()

TRUE = {
    "vectors": (
        "float4(1, 2, 3, 4).wzyx.x == 4",
        "float4(float2(1, 2), 3, 4).z == 3 && float4(1, float2(2, 3), 4).y == 2 && float4(1, 2, float2(3, 4)).w == 4",
        "float4(float3(1, 2, 3), 4).w == 4 && float4(1, float3(2, 3, 4)).w == 4 && float3(1, float2(2, 3)).z == 3",
        "(float4(1, 2, 3, 4) * 2 + 1).y == 5",
        "(int4(7) % 4).x == 3 && (int4(-7) / 2).x == -3 && (int4(1) << 4).w == 16",
        "(uchar4(200) + uchar4(100)).x == 44",
        "all(float2(1, 2) < float2(2, 3)) && !any(int3(1) != int3(1))",
        "int4(float4(-1.5f)).x == -1 && float4(int4(3)).w == 3 && bool2(float2(0, 2)).y && !bool2(float2(0, 2)).x",
        "(!bool2(true, false)).y && (bool2(true) && bool2(false, true)).y",
        "(bfloat4(1.0f) + bfloat4(2.0f)).z == 3",
        "as_type<uint>(1.0f) == 0x3f800000 && as_type<float>(0x40000000) == 2 && "
        "as_type<ushort>(bfloat(1.0f)) == 0x3f80",
        "as_type<half>(ushort(0x3c00)) == 1 && as_type<uint4>(float4(1.0f)).w == 0x3f800000",
        "select(float2(1, 2), float2(3, 4), bool2(false, true)).y == 4 && select(1, 2, true) == 2",
        "float3(packed_float3(1, 2, 3)).z == 3 && (packed_float3(1) + float3(2)).x == 3 && "
        "packed_int2(int2(4)).at(1) == 4",
        "vec<float, 8>(2.0f).elements[7] == 2",
        "vec_elements<half3>::value == 3 && is_vector_v<float4> && !is_vector_v<float>",
    ),
    "bfloat": (
        "bfloat(1.0f) == 1 && float(bfloat(3.14159265f)) == 3.140625f",
        "bfloat(1.00390625f) == 1.0f && bfloat(1.01171875f) == 1.015625f",
        "is_same_v<decltype(bfloat(1) * bfloat(1)), bfloat> && is_same_v<decltype(bfloat(1) * 2), bfloat>",
        "is_same_v<decltype(bfloat(1) * 1.0f), float> && is_same_v<decltype(-bfloat(1)), bfloat>",
        "is_convertible_v<int, bfloat> && !is_convertible_v<float, bfloat> && !is_convertible_v<half, bfloat>",
        "is_constructible_v<bfloat, float> && is_constructible_v<bfloat, half> && is_convertible_v<bfloat, float>",
        "is_floating_point_v<bfloat> && is_signed_v<bfloat> && is_arithmetic_v<bfloat>",
        'bfloat(__builtin_nanf("")) != bfloat(__builtin_nanf(""))',
    ),
    "matrices": (
        "determinant(float2x2(1, 2, 3, 4)) == -2 && determinant(float3x3(2.0f)) == 8 && "
        "determinant(float4x4(2.0f)) == 16",
        "determinant(float4x4(float4(0, 2, 0, 0), float4(1, 0, 0, 0), float4(0, 0, 3, 0), float4(0, 0, 0, 4))) == -24",
        "(float2x2(1, 2, 3, 4) * float2(1, 1)).x == 4 && (float2(1, 1) * float2x2(1, 2, 3, 4)).x == 3",
        "(float2x2(1, 2, 3, 4) * float2x2(1, 2, 3, 4)).columns[1].y == 22",
        "transpose(float2x3(1, 2, 3, 4, 5, 6)).columns[2].y == 6",
        "(float2x2(1.0f) + float2x2(2.0f) - float2x2(0.5f)) == float2x2(2.5f) && (2 * float2x2(1.0f)) == "
        "float2x2(2.0f)",
    ),
    "integers": (
        "clz(0) == 32 && clz(uchar(1)) == 7 && ctz(0u) == 32 && popcount(255) == 8 && reverse_bits(1u) == 0x80000000u",
        "mulhi(0x80000000u, 4u) == 2u && mulhi(-1L, 1L) == -1 && madhi(1 << 30, 4, 7) == 8",
        "rotate(0x80000001u, 1u) == 3u && addsat(char(127), char(1)) == 127 && subsat(0u, 1u) == 0u",
        "absdiff(-2147483647 - 1, 2147483647) == 4294967295u && abs(-4) == 4",
        "hadd(uchar(255), uchar(255)) == 255 && rhadd(char(-1), char(-2)) == -1",
        "extract_bits(0xabcdu, 4, 8) == 0xbc && extract_bits(-1, 31, 1) == -1 && insert_bits(0u, 0xffu, 4, 4) == 0xf0u",
        "madsat(100000, 100000, 1) == 2147483647 && madsat(char(-100), char(100), char(0)) == -128",
        "mad24(-3, 4, 5) == -7 && mul24(0xffffffu, 2u) == 0x1fffffeu",
        "min3(3, 1, 2) == 1 && max3(3, 1, 2) == 3 && median3(3, 1, 2) == 2 && clamp(300, 0, 255) == 255",
    ),
    "limits": (
        "numeric_limits<int>::max() == 2147483647 && numeric_limits<long>::min() == -9223372036854775807L - 1",
        "numeric_limits<uchar>::max() == 255 && numeric_limits<char>::lowest() == -128 && numeric_limits<bool>::max()",
        "numeric_limits<float>::max() == 0x1.fffffep127f && numeric_limits<float>::epsilon() == 0x1p-23f",
        "numeric_limits<half>::max() == 65504 && numeric_limits<half>::min() == 0x1p-14f",
        "numeric_limits<bfloat>::max() == 0x1.fep127f && numeric_limits<bfloat>::epsilon() == 0x1p-7f",
        "numeric_limits<float>::digits10 == 6 && numeric_limits<half>::max_digits10 == 5",
        "numeric_limits<half>::min_exponent10 == -4 && numeric_limits<float>::max_exponent10 == 38",
        "isinf(numeric_limits<half>::infinity()) && isnan(numeric_limits<float>::quiet_NaN())",
    ),
    "traits": (
        "is_same_v<remove_addrspace_t<SOFT_DEVICE float>, float> && is_same_v<remove_addrspace_t<__local int>, int>",
        "is_integral_v<const SOFT_DEVICE int> && is_unsigned_v<ulong> && is_floating_point_v<half> && "
        "!is_signed_v<uint>",
        "is_same_v<make_unsigned_t<int3>, uint3> && is_same_v<conditional_t<true, int, float>, int>",
        "is_same_v<remove_reference_t<__local float &>, __local float> && is_pointer_v<SOFT_DEVICE float *>",
        "conjunction_v<true_type, true_type> && disjunction_v<false_type, true_type> && negation_v<false_type>",
        "_disjunction<is_same<int, float>, is_same<int, int>>::value && integral_constant<int, 4>() == 4",
        "is_same_v<common_type_t<int, float>, float> && rank_v<int[2][3]> == 2 && extent_v<int[2][3], 1> == 3",
        "__is_valid_simdgroup_type<float4>::value && !__is_valid_simdgroup_type<true_type>::value",
    ),
}

ACCEPTED = {
    "assigning swizzles": "void f(SOFT_DEVICE float4 *p) { p->xy = p->zw; p->bgr += float3(1); p->x += "
    "1; p->wy *= 2; }",
    "components by template": "template <class T> void g(vec<T, 3> v) { v.x += 1; v.z = v.x * v.y; v.y++; }\n"
    "void f() { g(int3(1)); g(bfloat3(1)); }",
    "partial initialiser list": "void f() { uint4 a = {1, 2, 3}; float3 b = {1, 2}; float2 c = {}; }",
    "indexing": "float f(float4 v, int i) { v[i] = 2; const float4 c = v; return c[i] + (v + v)[i]; }",
    "every address space": "void f(SOFT_DEVICE float4 *d, SOFT_CONSTANT float4 &c, __local float4 *t) {\n"
    "  float4 v = c; *d = v + *t; *t = c * d->x; t->x = c.y; }",
    "scalars in functions": "float4 f(float4 v) { return clamp(fmax(0, v), 0.5f, 1) + mix(v, 1, 0.5f) + pow(v, 2); }",
    "functions of packed vectors": "float3 f(packed_float3 v) { return normalize(v) + v * length(v) - exp(v); }",
    "functions of bfloat": "bfloat f(bfloat v) { return bfloat(exp(v)) + bfloat(fmax(v, v)); }",
    "functions of the program for float and half, of a bfloat": "float g(float v) { return v; } half g(half v) { "
    "return v; }\nfloat f(bfloat v) { float x = g(v); x += v; return max(v, 1.0f) + x; }",
    "casts of bfloat": "half f(bfloat v) { return half(v) + (half)v + half4(v).x + half(int(v)) + half(bool(v)); }",
    "bfloat to integers": "void f(bfloat v) { int i = v; bool b = v; i += v; uint u; u = v; }",
    "bfloat compared": "bool f(bfloat v) { return v < v && v == 1 && 0u <= v && v > 0.5f && !(v != v) && (v || !v); }",
    "overloads of the program": "namespace metal { bfloat exp(bfloat v) { return v; } float4 mine(float4 "
    "v) { return v; } }\n"
    "bfloat f(bfloat v) { return exp(v); }",
    "limits of the program": "template <class T> struct pair { int i; T v; };\nnamespace metal { template <class T>\n"
    "struct _numeric_limits_impl<pair<T>> { static constexpr pair<T> max() { return {0, "
    "numeric_limits<T>::max()}; } }; }\n"
    "static_assert(numeric_limits<pair<half>>::max().v == 65504);",
    "names of the program": "namespace metal { template <class T> struct is_empty {}; template "
    "<class...> using void_t = void; }\n"
    "constexpr SOFT_CONSTANT bool forward = true; int f() { return forward ? 1 : 2; }",
    "fast and precise": "float f(float x) { return fast::exp(x) + precise::sin(x) + metal::fast::length(float2(x)); }",
    "values by reference": "float f(float x) { int e; float w, c; return frexp(x, e) + modf(x, w) + "
    "sincos(x, c) + e + w + c; }",
    "matrix columns": "void f(SOFT_DEVICE float4x4 *m, __local half4x4 *t) { float4x4 a = *m; __private "
    "float4 &c = a[1];\n"
    "  c.x = 2; m[1] = a * a; (*m)[2][3] = 1; t[0] = half4x4(a); (*t)[0] = half4(1.0h); }",
    "bfloat in unions": "union bits { bfloat b; ushort u; bfloat4 v; }; ushort f(bfloat b) { bits x; x.b "
    "= b; return x.u; }",
    "internal names": "float f(float x) { int e; return __metal_exp(x, 1) + __metal_fma(x, x, x) + "
    "__metal_frexp(x, &e); }",
    "arrays": "float f(SOFT_DEVICE array<float, 3> *p) { array<float, 3> a = {1, 2, 3}; *p = a; (*p)[1] "
    "= a.size(); return a[2]; }",
    "uniform": "int f(int n) { const uniform<int> a = make_uniform(n), b = a / 2; return b * 2; }",
    "logging": 'constexpr __global os_log logger("a", "b"); void f(half x) { logger.log_debug("%f %d", x, 1); }',
    "class that converts": "struct none { constexpr operator bool() const { return true; } };\n"
    "bfloat f(none n) { bfloat b; b = n; return b * bfloat(n); }",
}

REFUSED = {
    "too few components": ("float4 f(float2 v) { return float4(v, 1.0f); }", "no matching"),
    "another vector type": ("float4 f(int4 v) { return v; }", "no viable conversion"),
    "another width": ("float4 f(float4 v, float3 w) { return v + w; }", "invalid operands"),
    "float scalar with integers": ("int4 f(int4 v) { return v + 1.5f; }", "invalid operands"),
    "remainder of floats": ("float2 f(float2 v) { return v % v; }", "integer operator"),
    "arithmetic of bools": ("bool2 f(bool2 v) { return v + v; }", "bool vector"),
    "repeated component": ("void f(float4 v) { v.xx = float2(1); }", "no setter"),
    "missing component": ("float f(float3 v) { return v.w; }", "no member named 'w'"),
    "mixed component names": ("float2 f(float4 v) { return v.xg; }", "no member named 'xg'"),
    "float to bfloat": ("void f(float x) { bfloat b = x; }", "no viable conversion"),
    "half to bfloat": ("void f(half x) { bfloat b = x; }", "no viable conversion"),
    "bfloat to half": ("void f(bfloat x) { half h = x; }", "no viable conversion"),
    "bfloat added to half": ("void f(half x, bfloat y) { x += y; }", "invalid operands"),
    "half added to bfloat": ("void f(bfloat x, half y) { x += y; }", "no viable overloaded"),
    "half compared with bfloat": ("bool f(half x, bfloat y) { return x < y; }", "deleted"),
    "half with bfloat": ("bfloat f(half x, bfloat y) { return x * y; }", "deleted|ambiguous"),
    "float vector to bfloat vector": ("void f(float4 x) { bfloat4 b = x; }", "no viable conversion"),
    "max of int and uint": ("int f(int x, uint y) { return max(x, y); }", "ambiguous"),
    "max of half and float": ("float f(half x, float y) { return max(x, y); }", "ambiguous"),
    "exp of int": ("float f(int x) { return exp(x); }", "ambiguous"),
    "as_type of another size": ("uint2 f(float x) { return as_type<uint2>(x); }", "different size"),
    "writing to constant": ("void f(SOFT_CONSTANT float4 &v) { v.x = 1; }", "read-only|not assignable|const-qualified"),
    "cross of two": ("float2 f(float2 v) { return cross(v, v); }", "no matching"),
    "matrix shapes": ("float4x4 f(float4x4 a, float3x3 b) { return a * b; }", "invalid operands"),
    "frexp into device memory": ("float f(float x, SOFT_DEVICE int *e) { return frexp(x, *e); }", "no matching"),
}
