"""What becomes of words, members, conditionals and parameters on their way to clang."""

from __future__ import annotations

import pytest

from mlx_native_py.softmetal.msl.spaces import restore
from mlx_native_py.softmetal.program import CompileError

from .msl_kit import manifest, text, translated


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "void f(device int* a, constant int& b);",
            "void f ( __attribute__((opencl_global_device)) int * a , const __global int & b ) ;",
        ),
        ("constant int local = 1;", "const __global int soft_name_local = 1 ;"),
        (
            "constant float a = 1.0, b = .5, c = 2e3, d = 0x1p3, e = 1.0h;",
            "a = 1.0f , b = .5f , c = 2e3f , d = 0x1p3f , e = 1.0h ;",
        ),
        ("constant bfloat a = 1.5bf, b = 2bf;", "a = bfloat(1.5f) , b = bfloat(2.0f) ;"),
        ("constant int a = 0x1bf;", "= 0x1bf ;"),
        (
            "void f(volatile coherent(system) device uint* a);",
            "volatile __attribute__((opencl_global_device)) uint * a",
        ),
    ],
)
def test_words(source: str, expected: str) -> None:
    assert expected in text(source)


MEMBERS = """
struct S {
  int v;
  S(int x) thread : v(x) {}
  S(int x) device : v(x) {}
  int get() const thread { return v; }
  int get() const device { return v; }
  int only() constant { return v; }
};
"""


def test_equal_members_become_one() -> None:
    translated = text(MEMBERS)
    assert translated.count("S ( int x )") == 1
    assert translated.count("int get ( )") == 1
    assert "int only ( ) const __global { return v ; }" in translated


def test_members_that_differ_stay_apart() -> None:
    translated = text("struct S { int f() thread { return 1; } int f() device { return 2; } };")
    assert "f ( ) & { return 1 ; }" in translated
    assert "f ( ) __global & { return 2 ; }" in translated
    assert "f ( ) && { return (( __private S &) *this) . f () ; }" in translated


def test_members_speak_of_their_object_in_its_space() -> None:
    output = text(
        "struct S { float v[4]; thread float& at(int i) { return v[i]; } float sum() const { return v[0]; } };"
    )
    assert (
        "at ( int i ) { __private S * const soft_this = (__private S *) this ; return soft_this->v [ i ] ; }" in output
    )
    output = text("struct S { int v; device int& f(int x) device { int v = x; return this->v; } };")
    assert "int v = x ; return soft_this -> v ; }" in output


def test_members_for_device_and_constant_that_differ() -> None:
    with pytest.raises(CompileError, match="cannot tell this function from the one for 'device' objects"):
        translated("struct S { int f() const device { return 1; } int f() const constant { return 2; } };")


def test_conditionals_nest() -> None:
    output = text("int f(int a, int b) { return a ? 1 : b ? 2 : a; }")
    assert (
        "? soft::like<decltype((a))>(1) : (SOFT_VALUE_OF b ? soft::like<decltype((a))>(2) : (SOFT_VALUE_OF a))"
        in output
    )


def test_what_is_not_compute_is_left_out() -> None:
    source = (
        "float4 look(instance_acceleration_structure t);\nvertex float4 v() { return 0; }\n"
        "kernel void image(instance_acceleration_structure t [[buffer(0)]]) { look(t); }\n"
        "kernel void f(device float* a) { a[0] = 1; }"
    )
    output = translated(source)
    assert list(output.entries) == ["f"]
    assert [(note.line, note.severity) for note in output.unit.warnings] == [(3, "warning")]
    assert (
        "kernel 'image' is left out: 'instance_acceleration_structure' is not supported"
        in output.unit.warnings[0].message
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("int f(int a, int b) { return a > b ? a : b; }", "? (SOFT_VALUE_OF a) : (SOFT_VALUE_OF b) ;"),
        ("int f(int a) { return a ? 1 : 2; }", "a ? 1 : 2 ;"),
        ("int f(int a) { return a ? 0 : a; }", "? soft::like<decltype((a))>(0) : (SOFT_VALUE_OF a) ;"),
        ("void f(bool c, thread int& a, thread int& b) { (c ? a : b) = 1; }", "( c ? a : b ) = 1 ;"),
        ("int f(bool c) { return g<c ? A : B>(); }", "g < c ? A : B > ( ) ;"),
        ("int f(bool c, int a) { return c ? a : L<int>::min; }", "(SOFT_VALUE_OF L < int > :: min) ;"),
    ],
)
def test_conditionals(source: str, expected: str) -> None:
    assert expected in text(source)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v.x += a;", "soft::place_x(v ) += (SOFT_COUNT_OF a) ;"),
        ("v[i].y++;", "soft::place_y(v [ i ] ) ++ ;"),
        ("++s.v.z;", "++ soft::place_z(s . v ) ;"),
        ("v.x = a;", "v . x = a ;"),
        ("v.xy += a;", "v . xy +="),
    ],
)
def test_components_in_templates(body: str, expected: str) -> None:
    assert expected in text("template <typename T> void f(T v, T a, int i, T s) { " + body + " }")


def test_functions_as_template_arguments() -> None:
    source = (
        "template <typename T> using F = void (*)(T);\ntemplate <typename T, void (*g)(T), F<T> "
        "h> void f(T x) { g(x); h(x); }"
    )
    translated = text(source)
    assert "void ( & g ) ( T )" in translated
    assert "soft::function_reference<F < T >> h" in translated


def test_bodies_can_be_left_out() -> None:
    source = (
        "float used(float x) { return x; }\nfloat other(float x) { return -x; }\nkernel void "
        "f(device float* a) { a[0] = used(1); }\nkernel void g(device float* a) { a[0] = "
        "other(1); }"
    )
    described = manifest(source)
    assert described.reached("f") == {"f", "used"}
    bodies = [piece.owner for piece in described.pieces if piece.kind == "body"]
    assert bodies == ["used", "other", "f", "g"]


@pytest.mark.parametrize(
    ("source", "waits"),
    [
        ("kernel void f(device float* a, uint simd_lane [[thread_index_in_simdgroup]]) { a[simd_lane] = 1; }", False),
        ("kernel void f(device float* a) { a[0] = simd_sum(a[0]); }", True),
        ("float g(float x) { return metal::simd_max(x); }\nkernel void f(device float* a) { a[0] = g(a[0]); }", True),
        (
            (
                "struct Op { float operator()(float x) { return quad_sum(x); } };\ntemplate <class O> "
                'kernel void t(device float* a) { a[0] = O()(1); }\ntemplate [[host_name("f")]] kernel '
                "void t<Op>(device float*);"
            ),
            True,
        ),
        (
            (
                "float simd_sum(float x) { return x; }\nkernel void f(device float* a) { "
                "threadgroup_barrier(mem_flags::mem_none); }"
            ),
            True,
        ),
    ],
)
def test_who_waits(source: str, waits: bool) -> None:
    described = manifest(source)
    assert bool(described.reached("f") & described.waiting) is waits


def test_record_survives_storage() -> None:
    described = manifest(
        MEMBERS + "constant int n [[function_constant(1)]];\nkernel void f(device float* a [[buffer(2)]]) { a[0] = n; }"
    )
    again = type(described).from_json(described.to_json())
    assert again.functions == described.functions
    assert again.entries == described.entries
    assert again.constants == described.constants
    assert again.pieces == described.pieces


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "no conversion from '__local float *__private' to '__global_device float *'",
            "no conversion from 'threadgroup float *' to 'device float *'",
        ),
        ("'const __global int'", "'constant int'"),
        ("unknown 'soft_name_local' of '__private int'", "unknown 'local' of 'int'"),
        ("'__generic vec<float, 2>'", "'vec<float, 2>'"),
    ],
)
def test_messages_speak_metal(message: str, shown: str) -> None:
    assert restore(message) == shown


@pytest.mark.parametrize(
    "pragma", ["#pragma METAL internals : enable", "#pragma unroll", "#pragma clang loop unroll(full)"]
)
def test_known_pragmas(pragma: str) -> None:
    kept = "METAL" not in pragma
    assert (pragma in text(f"void f() {{\n{pragma}\nfor (;;) {{}}\n}}")) is kept


def test_unknown_pragma() -> None:
    output = translated("#pragma frobnicate\nkernel void f(device float* a) { a[0] = 1; }")
    assert [note.message for note in output.unit.warnings] == ["unknown pragma 'frobnicate' is ignored"]


def test_attributes_of_other_compilers() -> None:
    output = translated("[[clang::optnone]] void f() {}\n[[gnu::hot]] kernel void g(device float* a) { a[0] = 1; }")
    assert [note.message for note in output.unit.warnings] == [
        "attribute 'gnu::hot' is ignored",
        "attribute 'clang::optnone' is ignored",
    ]
    with pytest.raises(CompileError, match="unknown attribute 'optnone'"):
        translated("[[optnone]] void f() {}")
