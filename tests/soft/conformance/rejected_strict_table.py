"""Programs that plain C++ takes and Apple's compiler refuses: inputs that do not agree, types, builtins, atomics."""

from __future__ import annotations

from mlx_native_py import softmetal as Metal

from .rejected_table import Refused, in_kernel


def inputs(name: str, declarations: str, pattern: str, before: str = "") -> Refused:
    return Refused(f"inputs-{name}", f"{before}kernel void k(device float* out,\n{declarations}) {{ }}", pattern)


SAME_WIDTH = "either all scalar types or all vector types"
SAME_TYPE = "must have the same type"

INPUTS = (
    inputs(
        "vector-and-scalar",
        "uint3 at [[threadgroup_position_in_grid]],\nuint n [[threads_per_threadgroup]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "scalar-and-vector",
        "uint at [[thread_position_in_grid]],\nuint3 n [[threads_per_grid]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "widths",
        "uint2 at [[thread_position_in_grid]],\nuint3 g [[threadgroup_position_in_grid]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "widths-of-vec",
        "vec<uint, 2> at [[thread_position_in_grid]],\nushort3 g [[thread_position_in_threadgroup]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "widths-of-aliases",
        "P at [[thread_position_in_grid]],\nns::Q g [[threadgroup_position_in_grid]] // HERE\n",
        SAME_WIDTH,
        "using P = uint2;\nnamespace ns { typedef uint3 R; using Q = R; }\n",
    ),
    inputs(
        "types-of-aliases",
        "P at [[thread_position_in_grid]],\nuint2 n [[threads_per_grid]] // HERE\n",
        SAME_TYPE,
        "typedef ushort2 P;\n",
    ),
    inputs("alias-of-floats", "P at [[thread_position_in_grid]] // HERE\n", "invalid type", "using P = float2;\n"),
    inputs(
        "ushort-and-uint-of-the-grid",
        "uint3 at [[thread_position_in_grid]],\nushort3 n [[threads_per_grid]] // HERE\n",
        SAME_TYPE,
    ),
    inputs(
        "ushort-and-uint-of-the-threadgroup",
        "ushort at [[thread_position_in_threadgroup]],\nuint n [[threads_per_threadgroup]] // HERE\n",
        SAME_TYPE,
    ),
    inputs(
        "ushort-and-uint-of-threadgroups",
        "ushort2 at [[threadgroup_position_in_grid]],\nuint2 n [[threadgroups_per_grid]] // HERE\n",
        SAME_TYPE,
    ),
    inputs(
        "simd-width-twice",
        "uint a [[thread_execution_width]],\nuint b [[threads_per_simdgroup]] // HERE\n",
        "thread_execution_width",
    ),
)


def line(name: str, statement: str, pattern: str, before: str = "", parameters: str = "") -> Refused:
    """A statement of a kernel, refused where it stands."""
    more = f", {parameters}" if parameters else ""
    return Refused(
        name,
        before + in_kernel(f"{statement} // HERE", f"device float* out, uint i [[thread_position_in_grid]]{more}"),
        pattern,
    )


NO_MATCH = "no matching function|call to deleted function"
LEFT_OUT = (
    line("short-vector", "float4 v = float4(1, 2, 3); out[i] = v.x;", "no matching constructor"),
    line("short-vector-of-two", "int3 v = int3(1, -2); out[i] = v.x;", "no matching constructor"),
    line("short-vector-of-variables", "float a = out[i]; float4 v = float4(a, a, a);", "no matching constructor"),
    line("short-vector-variable", "float a = out[i]; float4 v(a, a);", "no matching constructor"),
    line(
        "short-vector-of-alias",
        "float a = out[i]; out[i] = V(a, a).x;",
        "no matching constructor",
        "using V = float3;\n",
    ),
    line(
        "short-packed-vector", "float a = out[i]; packed_float4 v = packed_float4(a, a, a);", "no matching constructor"
    ),
    Refused(
        "short-vector-of-template",
        "template <class T> T f(T a) {\nreturn vec<T, 4>(a, a, a).x; // HERE\n}\n" + in_kernel("out[i] = f(out[i]);"),
        "no matching constructor",
    ),
    Refused(
        "short-vector-of-member",
        "struct S {\nfloat4 v;\nS(float a) : v(a, a, a) {} // HERE\n};\n" + in_kernel("out[i] = S(out[i]).v.x;"),
        "no matching constructor",
    ),
    line("structured-binding", "auto [a, b] = S{1, 2}; out[i] = a;", "structured binding", "struct S { int a, b; };\n"),
    line(
        "structured-binding-reference",
        "thread auto& [a, b] = s; out[i] = a;".replace("thread auto&", "S s{1, 2}; auto& "),
        "structured binding",
        "struct S { int a, b; };\n",
    ),
    line(
        "class-argument-deduction",
        "S s(1.0f); out[i] = s.v;",
        "deduc",
        "template <class T> struct S { T v; S(T a) : v(a) {} };\n",
    ),
    Refused(
        "deduction-guide",
        "template <class T> struct S { T v; };\ntemplate <class T> S(T) -> S<T>; // HERE\n" + in_kernel("out[i] = 1;"),
        "deduction",
    ),
    Refused(
        "recursion",
        "int f(int n) {\nreturn n < 2 ? 1 : n * f(n - 1); // HERE\n}\n" + in_kernel("out[i] = f(i);"),
        "recursive call of 'f'.*2.4",
        language=Metal.MTLLanguageVersion2_3,
    ),
    Refused(
        "mutual-recursion",
        "int g(int n);\nint f(int n) {\nreturn g(n - 1); // HERE\n}\nint g(int n) {\nreturn n < 2 ? 1 : f(n - 1);\n}\n"
        + in_kernel("out[i] = f(i);"),
        "recursive call of 'f'.*2.4",
        language=Metal.MTLLanguageVersion2_3,
    ),
    line("int128", "__int128 x = i; out[i] = x;", "__int128"),
    line("unsigned-int128", "unsigned __int128 x = i; out[i] = x;", "__int128"),
    line("float16", "_Float16 x = i; out[i] = x;", "_Float16"),
    line("float128", "__float128 x = i; out[i] = x;", "__float128"),
    line("bit-int", "_BitInt(24) x = i; out[i] = x;", "_BitInt"),
    Refused(
        "pointer-to-function-parameter",
        "int f(int n) { return n; }\nint g(int n, int (*h)(int)) { return h(n); } // HERE\n"
        + in_kernel("out[i] = g(i, f);"),
        "pointers to functions.*2.3",
        language=Metal.MTLLanguageVersion2_2,
    ),
    line("pointer-to-function", "void (*f)(int); f(1);", "pointers to functions"),
    line("pointer-to-function-null", "void (*f)(int) = 0; f(1);", "cannot bind"),
    line("pointer-to-function-cast", "void (*f)(int) = (void (*)(int))7; f(1);", "pointers to functions"),
    line(
        "pointer-to-member",
        "int S::* p = &S::a; S s{1}; out[i] = s.*p;",
        "pointers to members",
        "struct S { int a; };\n",
    ),
    line("block", "int (^f)(void) = ^{ return 1; }; out[i] = f();", "blocks"),
    Refused("extern-function", "extern float f(float); // HERE\n" + in_kernel("out[i] = f(1);"), "extern"),
    Refused("no-body", "float f(float); // HERE\n" + in_kernel("out[i] = f(1);"), "not defined|undefined"),
    Refused(
        "computed-constant",
        "constant float x = sin(1.0f); // HERE\n" + in_kernel("out[i] = x;"),
        "constructor|constant",
    ),
    Refused("embed", in_kernel('const char a[] = {\n#embed "x" // HERE\n};'), "embed"),
)

SPACES = (
    Refused(
        "device-for-constant-parameter",
        "float f(constant float* p) { return p[0]; }\n" + in_kernel("out[i] = f(out); // HERE"),
        "constant memory",
    ),
    Refused(
        "device-for-constant-offset",
        "float f(int n, constant float* p) { return p[n]; }\n" + in_kernel("out[i] = f(1, out + i); // HERE"),
        "constant memory",
    ),
    Refused(
        "device-for-constant-reference",
        "float f(constant float& p) { return p; }\n" + in_kernel("out[i] = f(out[i]); // HERE"),
        "constant memory",
    ),
    line("device-kept-as-constant", "constant float* p = out; out[i] = p[0];", "constant memory"),
)

_SIMD = ("simd_sum", "simd_product", "simd_min", "simd_max", "simd_prefix_inclusive_sum", "quad_sum", "quad_max")
_MOVES = (
    "simd_broadcast",
    "simd_shuffle",
    "simd_shuffle_xor",
    "simd_shuffle_up",
    "simd_shuffle_down",
    "quad_broadcast",
)
_HALF = "half h = half(out[i]); bfloat b = bfloat(out[i]); "
BFLOAT = (
    line("bfloat-to-half", _HALF + "half x = b;", "conversion"),
    line("bfloat-assigned-to-half", _HALF + "h = b;", "incompatible"),
    line("bfloat-passed-as-half", _HALF + "f(b);", "no matching", "void f(half x) {}\n"),
    line("bfloat-in-half-vector", _HALF + "half2 v = half2(b, b);", "no matching"),
    line("bfloat-stored-as-half", "p[0] = bfloat(1.0f);", "incompatible", "", "device half* p"),
    line("bfloat-added-to-half", _HALF + "h += b;", "invalid operands"),
    line("half-to-bfloat", _HALF + "bfloat x = h;", "conversion"),
    line("half-assigned-to-bfloat", _HALF + "b = h;", "no viable"),
    line("half-added-to-bfloat", _HALF + "b += h;", "no viable"),
    line("half-compared-with-bfloat", _HALF + "out[i] = h < b;", "deleted"),
    Refused(
        "bfloat-returned-as-half",
        "half f(bfloat b) {\nreturn b; // HERE\n}\n" + in_kernel("out[i] = f(bfloat(1.0f));"),
        "conversion",
    ),
)
_NARROW = ("abs(b)", "max(b, b)", "min(b, b)", "clamp(b, b, b)", "max3(b, b, b)", "min3(b, b, b)", "median3(b, b, b)")
BUILTINS = (
    *(
        line(f"{name}-of-{kind}", f"{kind} v = {kind}(i); auto w = {name}(v);", NO_MATCH)
        for name in _SIMD
        for kind in ("ulong", "long", "bool", "bfloat")
    ),
    *(
        line(f"{name}-of-{kind}", f"{kind} v = {kind}(i); auto w = {name}(v, 1);", NO_MATCH)
        for name in _MOVES
        for kind in ("ulong", "long", "bool", "bfloat")
    ),
    line("simd-sum-of-ulong2", "ulong2 v = ulong2(i); auto w = simd_sum(v);", NO_MATCH),
    line("simd-broadcast-first-of-bool", "bool v = i > 1; auto w = simd_broadcast_first(v);", NO_MATCH),
    line("popcount-of-float", "out[i] = popcount(out[i]);", NO_MATCH),
    line("dot-of-integers", "int4 v = int4(i); out[i] = dot(v, v);", NO_MATCH),
    line("length-of-a-scalar", "out[i] = length(out[i]);", NO_MATCH),
    line("cross-of-two", "out[i] = cross(float2(1), float2(2)).x;", NO_MATCH),
    line("clamp-of-float-and-int", "out[i] = clamp(out[i], 0, 1);", "ambiguous"),
    line("clamp-of-half-and-float", "out[i] = clamp(half(1), 0.0f, 1.0f);", "ambiguous"),
    line("exp-of-bfloat4", "bfloat4 v = bfloat4(1.0f); out[i] = exp(v).x;", NO_MATCH),
    line("dot-of-bfloat4", "bfloat4 v = bfloat4(1.0f); out[i] = dot(v, v);", NO_MATCH),
    line("fast-exp-of-half4", "half4 v = half4(1); out[i] = fast::exp(v).x;", NO_MATCH),
    line("mul24-of-short4", "short4 v = short4(1); out[i] = mul24(v, v).x;", NO_MATCH),
    line("transpose-of-bfloat", "out[i] = transpose(bfloat2x2(bfloat(1.0f)))[0].x;", NO_MATCH),
    line("simd-and-of-float", "out[i] = simd_and(out[i]);", NO_MATCH),
    line("quad-xor-of-half2", "out[i] = quad_xor(half2(1)).x;", NO_MATCH),
    line("pack-of-half4", "out[i] = pack_float_to_unorm4x8(half4(1));", "no matching|no viable"),
    line(
        "barrier-with-a-scope",
        "threadgroup_barrier(mem_flags::mem_device, thread_scope_device);",
        "no matching|too many",
    ),
    line("as-type-of-a-pointer", "out[i] = as_type<ulong>(out);", NO_MATCH),
    line("as-type-of-bool", "bool b = out[i] > 0; out[i] = as_type<uchar>(b);", NO_MATCH),
    line("as-type-of-a-struct", "S s{1}; out[i] = as_type<float>(s);", NO_MATCH, "struct S { int a; };\n"),
    line(
        "simdgroup-load-from-constant",
        "simdgroup_float8x8 m; simdgroup_load(m, p);",
        "device or threadgroup memory",
        "",
        "constant float* p",
    ),
    line(
        "simdgroup-load-of-another-type",
        "simdgroup_float8x8 m; simdgroup_load(m, p);",
        "element type",
        "",
        "device half* p",
    ),
    line("select-with-another-width", "out[i] = select(float2(1), float2(2), bool3(true)).x;", NO_MATCH),
    *(
        line(f"bfloat-{call.partition('(')[0]}", f"bfloat b = bfloat(out[i]); auto w = {call};", "deleted|ambiguous")
        for call in _NARROW
    ),
)


_ORDERS = ("acquire", "release", "acq_rel", "seq_cst")
_NO_ORDER = "relaxed|undeclared"
_INT = "device atomic_int* a"
ATOMICS = (
    *(
        line(f"atomic-add-{order}", f"atomic_fetch_add_explicit(a, 1, memory_order_{order});", _NO_ORDER, "", _INT)
        for order in _ORDERS
    ),
    line("atomic-load-acquire", "out[i] = atomic_load_explicit(a, memory_order_acquire);", _NO_ORDER, "", _INT),
    line("atomic-store-release", "atomic_store_explicit(a, 1, memory_order_release);", _NO_ORDER, "", _INT),
    line("atomic-exchange-acq-rel", "atomic_exchange_explicit(a, 1, memory_order_acq_rel);", _NO_ORDER, "", _INT),
    line(
        "atomic-compare-seq-cst",
        "int e = 0; atomic_compare_exchange_weak_explicit(a, &e, 1, memory_order_relaxed, memory_order_seq_cst);",
        "relaxed",
        "",
        _INT,
    ),
    *(
        line(
            f"atomic-ulong-{name}",
            f"atomic_{name}_explicit(a, 1ul, memory_order_relaxed);",
            "no matching",
            "",
            "device atomic_ulong* a",
        )
        for name in (
            "fetch_add",
            "fetch_sub",
            "fetch_and",
            "fetch_or",
            "fetch_xor",
            "fetch_min",
            "fetch_max",
            "store",
            "exchange",
        )
    ),
    line(
        "atomic-ulong-load",
        "ulong v = atomic_load_explicit(a, memory_order_relaxed);",
        "no matching",
        "",
        "device atomic_ulong* a",
    ),
    *(
        line(
            f"atomic-float-{name}",
            f"atomic_fetch_{name}_explicit(a, 1.0f, memory_order_relaxed);",
            "no matching",
            "",
            "device atomic_float* a",
        )
        for name in ("min", "max", "or", "xor")
    ),
    line(
        "atomic-bool-add",
        "atomic_fetch_add_explicit(a, true, memory_order_relaxed);",
        "no matching",
        "",
        "device atomic_bool* a",
    ),
    Refused(
        "atomic-float-in-threadgroup-memory",
        in_kernel("threadgroup atomic_float t;\natomic_fetch_add_explicit(&t, 1.0f, memory_order_relaxed); // HERE"),
        "no matching",
    ),
    *(
        Refused(
            f"atomic-float-{name}-in-threadgroup-memory",
            in_kernel(f"threadgroup atomic_float t;\natomic_{call}; // HERE"),
            "no matching",
        )
        for name, call in (
            ("load", "load_explicit(&t, memory_order_relaxed)"),
            ("store", "store_explicit(&t, 1.0f, memory_order_relaxed)"),
            ("exchange", "exchange_explicit(&t, 1.0f, memory_order_relaxed)"),
        )
    ),
    line("fence-acquire", "atomic_thread_fence(mem_flags::mem_device, memory_order_acquire);", "undeclared"),
    Refused("atomic-long", "kernel void k(device atomic_long* a) { // HERE\n}", "atomic_long|type"),
)
