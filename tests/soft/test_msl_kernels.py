"""Kernels in all their forms, their arguments, and function constants, as the front end reads them."""

from __future__ import annotations

import struct

import pytest

from mlx_native_py.softmetal.data_types import data_type
from mlx_native_py.softmetal.msl.build import BuildSpec, MissingConstant
from mlx_native_py.softmetal.msl.evaluate import NotConstant, Value, evaluate
from mlx_native_py.softmetal.msl.lexer import lex
from mlx_native_py.softmetal.program import CompileError

from .msl_kit import manifest, text, translated

BODY = "(device T* a [[buffer(0)]], uint i [[thread_position_in_grid]]) { a[i] = 1; }\n"


@pytest.mark.parametrize(
    ("source", "expressions"),
    [
        ("kernel void f(device float* a) {}", {"f": "::f"}),
        ("[[kernel]] void f(device float* a) {}", {"f": "::f"}),
        ("[[kernel, max_total_threads_per_threadgroup(64)]] void f(device float* a) {}", {"f": "::f"}),
        ('[[host_name("x")]] kernel void f(device float* a) {}', {"x": "::f"}),
        ("namespace n { namespace m { kernel void f(device float* a) {} } }", {"n::m::f": "::n::m::f"}),
        (
            "template <typename T> kernel void f"
            + BODY
            + 'template [[host_name("a" "_" "b")]] kernel decltype(f<int>) f<int>;',
            {"a_b": "::f< int >"},
        ),
        (
            "template <typename T> [[kernel]] void f"
            + BODY
            + "typedef decltype(f<int>) f_t;\n"
            + 'template [[host_name("x")]] kernel f_t f<int>;',
            {"x": "::f< int >"},
        ),
        ("template <typename T> kernel void f" + BODY, {}),
    ],
)
def test_forms(source: str, expressions: dict[str, str]) -> None:
    assert {name: entry.expression for name, entry in manifest(source).entries.items()} == expressions


def test_instantiation_with_parameters_chooses_the_overload() -> None:
    source = """
    template <typename T> kernel void f(device T* a [[buffer(1)]]) {}
    template <typename T> kernel void f(device T* a [[buffer(2)]], device T* b [[buffer(3)]]) {}
    template [[host_name("one")]] kernel void f(device float*);
    template [[host_name("two")]] [[kernel]] void f<half>(device half* a [[buffer(2)]], device half* b [[buffer(3)]]);
    """
    described = manifest(source)
    assert [described.entries[name].function for name in ("one", "two")] == [0, 1]
    assert "static_cast<void (&)" in described.entries["one"].expression


def arguments(parameters: str) -> list[tuple[str, int, str, str]]:
    (function,) = manifest(f"kernel void f({parameters}) {{}}").functions
    return [(a.kind, a.index, a.name, a.access) for item in function.items if (a := item.argument)]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("device float* a, constant int& b", [("buffer", 0, "a", "read_write"), ("buffer", 1, "b", "read")]),
        (
            "device float* a, device const float* b [[buffer(0)]], device float* c",
            [("buffer", 1, "a", "read_write"), ("buffer", 0, "b", "read"), ("buffer", 2, "c", "read_write")],
        ),
        (
            "threadgroup float* s, device float* a, threadgroup int* t [[threadgroup(0)]]",
            [
                ("threadgroup", 1, "s", "read_write"),
                ("buffer", 0, "a", "read_write"),
                ("threadgroup", 0, "t", "read_write"),
            ],
        ),
        ("const device float* a [[buffer(1 + 2 * 3)]]", [("buffer", 7, "a", "read")]),
        (
            "constant const long strides[2], const constant S (&s)[3]",
            [("buffer", 0, "strides", "read"), ("buffer", 1, "s", "read")],
        ),
        (
            "device atomic<int>* a, device vec<float, 4>& b",
            [("buffer", 0, "a", "read_write"), ("buffer", 1, "b", "read_write")],
        ),
        ("device float*", [("buffer", 0, "", "read_write")]),
    ],
)
def test_arguments(parameters: str, expected: list[tuple[str, int, str, str]]) -> None:
    assert arguments(parameters) == expected


def test_type_and_pointer_of_an_argument() -> None:
    (function,) = manifest("kernel void f(device const uchar4* a, constant Args& b) {}").functions
    first, second = (item.argument for item in function.items)
    assert first and second
    assert (first.type_name, first.data_type, first.is_pointer) == ("uchar4", 52, True)
    assert (second.type_name, second.data_type, second.is_pointer) == ("Args", 0, False)


@pytest.mark.parametrize(
    "builtin",
    [
        "uint3 a [[thread_position_in_grid]]",
        "const ushort2 a [[threads_per_threadgroup]]",
        "unsigned int a [[thread_index_in_simdgroup]]",
        "metal::uint a [[simdgroups_per_threadgroup]]",
        "ushort a [[quadgroup_index_in_threadgroup]]",
        "uint3 a [[grid_origin]]",
        "uint a [[thread_execution_width]]",
    ],
)
def test_builtins(builtin: str) -> None:
    (function,) = manifest(f"kernel void f({builtin}) {{}}").functions
    assert function.items[0].macro == f"SOFT_IN({builtin.split('[[')[1][:-2]})"


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("kernel int f(device float* a) { return 1; }", 8, "void"),
        ("kernel void f(float* a [[buffer(0)]]) {}", 22, "address space"),
        ("kernel void f(device float* a [[buffer(0)]], device float* b [[buffer(0)]]) {}", 60, "index 0"),
        ("kernel void f(device float* a [[buffer(31)]]) {}", 33, "between 0 and 30"),
        ("kernel void f(device float* a [[buffer(n)]]) {}", 33, "integer constant"),
        ("kernel void f(uint i [[thread_pos]]) {}", 24, "unknown attribute 'thread_pos'"),
        ("kernel void f(int i [[thread_position_in_grid]]) {}", 19, "invalid type 'int'"),
        ("kernel void f(uint3 i [[thread_index_in_simdgroup]]) {}", 21, "invalid type 'uint3'"),
        ("kernel void f(device float* a [[threadgroup(0)]]) {}", 33, "does not fit"),
        ("kernel void f(device float* a) { threadgroup float x = 3; }", 52, "initializer"),
        ("void g() { threadgroup float x; }", 30, "kernel function"),
        ("int counter = 0;", 5, "constant address space"),
        ("kernel void f(device float* a) { [[nonsense]] int x; }", 36, "unknown attribute"),
        ("kernel void f(instance_acceleration_structure t [[buffer(0)]]) {}", 15, "not supported by software Metal"),
        ("kernel void f(texture2d<float> t [[texture(128)]]) {}", 36, "between 0 and 127"),
        ("kernel void f(sampler s [[sampler(16)]]) {}", 27, "between 0 and 15"),
        ("kernel void f(device float* a) { f(a); }", 34, "cannot be called"),
        (
            (
                "template <int N> kernel void f(device float* a) {}\ntemplate [[host_name(x)]] kernel "
                "void f<1>(device float*);"
            ),
            12,
            "string",
        ),
    ],
)
def test_refused(source: str, column: int, message: str) -> None:
    with pytest.raises(CompileError, match=message) as refused:
        translated(source)
    first = refused.value.diagnostics[0]
    assert (first.line, first.column) == (
        source.count("\n", 0, source.rfind("template [[")) + 1 if "\n" in source else 1,
        column,
    )


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 << 4) | 0x0F", 31),
        ("-7 / 2", -3),
        ("-7 % 2", -1),
        ("010", 8),
        ("true && !false", True),
        ("N == 4 ? 10u : 20u", 10),
        ("is_function_constant_defined(N) ? N : 9", 4),
        ("is_function_constant_defined(M) ? M : 9", 9),
        ("bool(N)", True),
        ("(int)2.5f * 2", 5.0),
    ],
)
def test_constant_expressions(source: str, value: Value) -> None:
    def lookup(name: str) -> Value:
        if name != "N":
            raise NotConstant(name)
        return 4

    assert evaluate(lex(source, "f").text, lookup, lambda name: name == "N") == value


@pytest.mark.parametrize("source", ["M", "1 / 0", "1 +", "f(1)", "1 2"])
def test_what_is_not_constant(source: str) -> None:
    def lookup(name: str) -> Value:
        raise NotConstant(name)

    with pytest.raises(NotConstant):
        evaluate(lex(source, "f").text, lookup, lambda name: False)


@pytest.mark.parametrize(
    ("name", "code", "size"),
    [
        ("float", 3, 4),
        ("half4", 19, 8),
        ("int3", 31, 16),
        ("uint8_t", 49, 1),
        ("bool", 53, 1),
        ("vec<ulong, 2>", 86, 16),
        ("bfloat", 121, 2),
        ("unsigned int", 33, 4),
    ],
)
def test_data_types(name: str, code: int, size: int) -> None:
    result = data_type(name)
    assert result and (result.code, result.size) == (code, size)


CONSTANTS = """
constant int base [[function_constant(3)]];
constant bool wanted [[function_constant(2 + 2)]];
constant float scale [[function_constant(5)]];
constant bool derived = is_function_constant_defined(wanted) ? wanted : true;
constant bool both = derived && base > 1;
kernel void f(device float* a, device float* b [[buffer(1), function_constant(both)]]) { a[0] = base; }
kernel void g(device float* a) { a[0] = scale; }
"""


def spec(entry: str, given: dict[int, bytes]) -> BuildSpec:
    return BuildSpec(manifest(CONSTANTS), entry, given, checked=False, math="fast")


def test_constants_of_a_kernel_are_those_it_reaches() -> None:
    assert [bound.constant.name for bound in spec("g", {}).used] == ["scale"]
    assert [(b.constant.name, b.constant.index, b.constant.required) for b in spec("f", {}).used] == [
        ("base", 3, True),
        ("wanted", 4, False),
    ]


@pytest.mark.parametrize(
    ("base", "wanted", "on"), [(2, None, True), (1, None, False), (2, False, False), (2, True, True)]
)
def test_derived_constant_switches_an_argument(base: int, wanted: bool | None, on: bool) -> None:
    given = {3: struct.pack("i", base)}
    if wanted is not None:
        given[4] = bytes([wanted])
    assert spec("f", given).switched_on() == [True, on]
    assert ("SOFT_NOTHING" in spec("f", given).text()) is not on


def test_constants_become_macros() -> None:
    defines = spec("f", {3: struct.pack("i", -5)}).defines().splitlines()
    assert "#define SOFT_FC_0 (int)(-4l - 1)" in defines
    assert "#define SOFT_FC_DEFINED_1 false" in defines


@pytest.mark.parametrize(("given", "message"), [({}, "'base'.*has no value"), ({3: b"\0"}, "1 bytes, expected 4")])
def test_missing_constants(given: dict[int, bytes], message: str) -> None:
    with pytest.raises(MissingConstant, match=message):
        spec("f", given).defines()


def test_index_may_come_from_an_enumerator_or_a_constant() -> None:
    source = (
        "enum Slot { A, B = 4, C };\nconstexpr constant int D = C + 1;\nkernel void f(device "
        "float* a [[buffer(C)]], device float* b [[buffer(D)]]) {}"
    )
    (function,) = manifest(source).functions
    assert [item.argument.index for item in function.items if item.argument] == [5, 6]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("threadgroup float x[4];", "typedef float soft_tg_x [ 4 ] ; SOFT_TG_VAR(soft_tg_x, x);"),
        (
            "threadgroup T a[N][2], b;",
            "typedef T soft_tg_a [ N ] [ 2 ] , soft_tg_b ; SOFT_TG_VAR(soft_tg_a, a); SOFT_TG_VAR(soft_tg_b, b);",
        ),
        ("alignas(16) threadgroup half y[8];", "typedef __attribute__((aligned(16))) half soft_tg_y [ 8 ] ;"),
        ("threadgroup vec<T, 4> z;", "typedef vec < T , 4 > soft_tg_z ;"),
        ("threadgroup unsigned int u;", "typedef unsigned int soft_tg_u ;"),
        ("threadgroup typename K::T v[K::N];", "typedef typename K :: T soft_tg_v [ K :: N ] ;"),
        ("threadgroup atomic_int c;", "typedef atomic_int soft_tg_c ;"),
        ("float threadgroup w[2];", "typedef float soft_tg_w [ 2 ] ;"),
    ],
)
def test_threadgroup_variables(statement: str, expected: str) -> None:
    translated = text("template <typename T, int N> kernel void f(device T* p) { " + statement + " }")
    assert expected in translated


def test_threadgroup_pointers_stay_pointers() -> None:
    source = (
        "kernel void f(device float* p) { threadgroup float x[4]; threadgroup float y[4]; threadgroup float* q = x; }"
    )
    translated = text(source)
    assert translated.count("SOFT_TG_VAR(") == 2
    assert "__local float * q = x ;" in translated
