"""Libraries from source: builds, constants, includes, and messages at the user's own line and column."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py.softmetal import msl
from mlx_native_py.softmetal.msl.build import BuildSpec
from mlx_native_py.softmetal.msl.manifest import LibraryManifest
from mlx_native_py.softmetal.msl.syntax import MOST_INSTANTIATIONS, MOST_KERNELS
from mlx_native_py.softmetal.program import CompileError, SourceOptions

from .harness import run
from .msl_kit import HEADER, manifest, opened, refusals


def test_reflection_of_a_build() -> None:
    library = opened(
        "struct P { float4 a; half b; };\nkernel void f(device P* p [[buffer(2)]], constant "
        "uint& n, uint i [[thread_position_in_grid]]) { if (i < n) p[i].b = 1; }"
    )
    assert list(library.kernels) == ["f"]
    built = library.build("f", {})
    first, second = built.kernel.arguments
    assert (first.index, first.size, first.alignment, first.data_type, first.is_pointer) == (2, 32, 16, 1, True)
    assert (second.index, second.size, second.data_type, second.is_pointer, second.access) == (0, 4, 33, False, "read")
    assert (built.engine, built.max_total_threads, built.static_threadgroup_bytes) == ("flat", 1024, 0)
    assert built.entry


def test_threadgroup_memory_is_exact() -> None:
    source = (
        "kernel void f(device float* a, uint i [[thread_index_in_threadgroup]]) { threadgroup "
        "float x[100]; threadgroup half y[3], z; x[i] = 1; y[0] = x[99]; z = y[0]; a[i] = z; }"
    )
    built = opened(source).build("f", {})
    assert built.static_threadgroup_bytes in range(408, 417)


def test_limit_that_depends_on_template_parameters() -> None:
    source = (
        "template <typename T, int N = 4> [[kernel, max_total_threads_per_threadgroup(N * 32)]] "
        "void f(device T* a) { a[0] = 1; }\n"
    )
    source += (
        'template [[host_name("f4")]] [[kernel]] void f<float>(device float*);\ntemplate '
        '[[host_name("f2")]] kernel decltype(f<float, 2>) f<float, 2>;'
    )
    library = opened(source)
    assert [library.build(name, {}).max_total_threads for name in ("f4", "f2")] == [128, 64]


ELSEWHERE = "float away(float);\nfloat unused(float a) { return away(a); }\nfloat used(float a) { return a; }\n"


@pytest.mark.parametrize("more", ["", "kernel void g(device float* a) { a[0] = 1; }"])
def test_what_no_kernel_calls_may_lack_its_body(more: str) -> None:
    library = opened(ELSEWHERE + more + "kernel void f(device float* a) { a[0] = used(1); }")
    assert library.build("f", {}).entry
    [refused] = refusals(ELSEWHERE + more + "kernel void f(device float* a) { a[0] = unused(1); }")
    assert "away" in refused.message


def test_kernels_defined_outside_their_namespace() -> None:
    source = (
        "namespace a::b { template <typename T> kernel void f(device T* a); kernel void g(device float* a); }\n"
        "template <typename T> kernel void a::b::f(device T* a [[buffer(1)]]) { a[0] = 3; }\n"
        'template [[host_name("f")]] kernel void a::b::f<float>(device float*);\n'
        "namespace a { kernel void b::g(device float* a [[buffer(0)]]) { a[0] = 4; } }\n"
    )
    library = opened(source)
    assert {name: library.build(name, {}).kernel.arguments[0].index for name in library.kernels} == {
        "f": 1,
        "a::b::g": 0,
    }


def test_builds_are_kept() -> None:
    library = opened("kernel void f(device float* a) { a[0] = 7; }")
    assert library.build("f", {}) is library.build("f", {9: b"\1"})
    with pytest.raises(KeyError):
        library.build("g", {})


def test_reason_against_the_flat_engine() -> None:
    built = opened(
        "kernel void f(device float* a, uint i [[thread_position_in_grid]]) { a[i] = simd_sum(a[i]); }"
    ).build("f", {})
    assert built.engine == "fibers"
    assert "wait" in built.declined["flat"]


CONSTANTS = (
    HEADER
    + """
constant float scale [[function_constant(0)]];
constant half4 tint [[function_constant(1)]];
constant long big [[function_constant(2)]];
constant bool twice = is_function_constant_defined(big) ? big < 0 : false;
kernel void f(device float* out, device float* extra [[buffer(1), function_constant(twice)]],
              uint i [[thread_position_in_grid]]) {
  out[i] = scale * float(tint[i]) * (twice ? 2 : 1);
  if (twice) extra[i] = big;
}
"""
)


@pytest.mark.parametrize("big", [None, -(2**63), 5])
def test_function_constants(big: int | None) -> None:
    tint = np.array([1, 2, 3, 4.5], np.float16)
    constants: dict[int | str, Any] = {0: np.float32(0.1), 1: tint}
    if big is not None:
        constants[2] = np.int64(big)
    out, extra = run(CONSTANTS, "f", np.zeros(4, np.float32), np.zeros(4, np.float32), threads=4, constants=constants)
    negative = big is not None and big < 0
    np.testing.assert_array_equal(out, np.float32(0.1) * tint.astype(np.float32) * (2 if negative else 1))
    np.testing.assert_array_equal(extra, np.full(4, big if negative else 0, np.float32))


def test_function_constants_may_be_written_constexpr() -> None:
    source = (
        HEADER
        + """
    static constant constexpr const int n [[function_constant(0)]];
    constexpr constant int m = n * 2;
    kernel void f(device int* out) { out[0] = m; }
    """
    )
    (out,) = run(source, "f", np.zeros(1, np.int32), threads=1, constants={0: np.int32(21)})
    assert out.tolist() == [42]


def test_arguments_switched_off_are_not_reflected() -> None:
    library = msl.open_library(CONSTANTS, SourceOptions())
    given = {0: struct.pack("f", 1), 1: bytes(8)}
    assert [a.name for a in library.build("f", given).kernel.arguments] == ["out"]
    assert [a.name for a in library.build("f", given | {2: struct.pack("q", -1)}).kernel.arguments] == ["out", "extra"]


def test_missing_constant_is_an_error_at_its_declaration() -> None:
    with pytest.raises(CompileError, match=r"program_source:4:16: error: function constant 'scale' \(index 0\)"):
        msl.open_library(CONSTANTS, SourceOptions()).build("f", {1: bytes(8)})


def test_macros_and_language_version() -> None:
    source = "kernel void f(device int* a) { a[0] = WIDTH; a[1] = __METAL_VERSION__; }"
    (result,) = run(HEADER + source, "f", np.zeros(2, np.int32), threads=1, macros={"WIDTH": "40 + 2"})
    assert result.tolist()[0] == 42
    assert opened("#if __METAL_VERSION__ != 310\n#error version\n#endif", language_version=(3, 1)).kernels == {}


def test_pragma_with_a_macro_in_it() -> None:
    source = (
        "#define N 4\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\nkernel void f(device int* a) {\n"
        "#pragma unroll (MIN(N / 2, 8))\nfor (int i = 0; i < N; i++) a[i] = i;\n}"
    )
    assert opened(source).build("f", {}).entry


def test_a_member_function_may_begin_with_a_math_pragma() -> None:
    source = (
        HEADER
        + """
        struct Sum {
          float first, second;
          float plus(float third) const thread {
        #pragma METAL fp contract(off)
            for (uint i = 0; i < 2; ++i) third = simd_max(third) + first * second;
            return third;
          }
        };
        kernel void f(device float* a) { Sum sum = {a[0], a[1]}; a[2] = sum.plus(a[2]); }"""
    )
    (result,) = run(source, "f", np.array([2, 3, 4], np.float32), threads=1)
    assert result.tolist() == [2, 3, 16]


def test_includes_come_from_the_given_paths(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "add.h").write_text(
        '#include "more.h"\ninline float add(float a, float b) { return a + b + MORE; }\n'
    )
    (tmp_path / "ops" / "more.h").write_text("#define MORE 1\n")
    source = HEADER + '#include "ops/add.h"\nkernel void f(device float* a) { a[0] = add(a[0], a[1]); }'
    options = SourceOptions(include_paths=(tmp_path,))
    first = msl.open_library(source, options)
    assert first._manifest.closure.keys() >= {str(tmp_path / "ops" / "add.h"), str(tmp_path / "ops" / "more.h")}
    (tmp_path / "ops" / "more.h").write_text("#error changed\n")
    with pytest.raises(CompileError, match=r"ops/more.h:1:2: error: changed"):
        msl.open_library(source, options)


def test_an_error_in_an_include_is_shown_there(tmp_path: Path) -> None:
    (tmp_path / "bad.h").write_text("\ninline float bad(float a) {\n  return   missing(a);\n}\n")
    (first,) = refusals('#include "bad.h"\nkernel void f(device float* a) { a[0] = bad(1); }', (tmp_path,))
    assert (Path(first.file).name, first.line, first.column, first.source_line) == (
        "bad.h",
        3,
        12,
        "  return   missing(a);",
    )


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ('kernel void f(device float* a) {}\n#include "nope.h"', 2, 10, "'nope.h' file not found"),
        ("kernel void f(device float* a) {\n  a[0]   =   wrong;\n}", 2, 14, "'wrong'"),
        ("#define BAD(x) x.no_such\nkernel void f(device float4* a) {\n  a[0] = 1; BAD(a[0]);\n}", 3, 13, "no_such"),
        ("kernel void f(device float* a) {\n  a[0] = 1\n}", 2, 10, "expected ';'"),
        ("kernel void f(constant float* a) {\n  a[0] = 1;\n}", 2, 8, "read-only"),
        (
            "void g(threadgroup float* p) {}\nkernel void f(device float* a) {\n  g(a);\n}",
            3,
            3,
            "address space 'device'.*'threadgroup'",
        ),
        (
            "template <typename T> kernel void f(device T* a) {\n  a[0].x = 1;\n}\n"
            + 'template [[host_name("f")]] kernel void f<float>(device float*);',
            2,
            7,
            "'device float' is not a structure",
        ),
        ("kernel void f(device float* a) {\n  int local = 1;\n  local();\n}", 3, 8, "called object type 'int'"),
        ("#error stop here", 1, 2, "stop here"),
        ("kernel void f(device float* a) {\n  threadgroup float x[4];\n  x = 1;\n}", 3, 5, "assignable"),
    ],
)
def test_errors_stand_at_the_users_own_place(source: str, line: int, column: int, message: str) -> None:
    refused = refusals(source)
    assert refused, "accepted"
    assert (refused[0].file, refused[0].line, refused[0].column) == ("program_source", line, column), str(refused[0])
    assert re.search(message, refused[0].message), refused[0].message
    assert refused[0].source_line == source.splitlines()[line - 1]
    assert "soft" not in refused[0].message


def test_the_report_has_a_caret() -> None:
    with pytest.raises(CompileError) as refused:
        opened("kernel void f(device float* a) { a[0] = nothing; }")
    assert str(refused.value).splitlines()[-1] == " " * 40 + "^"


def test_warnings_are_kept_with_the_library() -> None:
    library = opened(
        "#warning look here\nkernel void f(device float* a) { threadgroup float x[2] = {0}; a[0] = x[1]; }"
    )
    assert [(w.line, w.severity) for w in library.warnings] == [(4, "warning"), (3, "warning")]


def test_names_that_opencl_reserves() -> None:
    source = HEADER + (
        "struct S { int global; };\nkernel void f(device int* a) { S s; s.global = 2; int local "
        "= 3, pipe = 4; a[0] = s.global + local * pipe; }"
    )
    (result,) = run(source, "f", np.zeros(1, np.int32), threads=1)
    assert result.tolist() == [14]


def test_objects_of_any_space_meet_in_a_conditional() -> None:
    source = (
        HEADER
        + """
    struct S { int v; };
    constant S fixed = {5};
    kernel void f(device S* a, device bfloat4* b, device int* out, uint i [[thread_position_in_grid]]) {
      S own = {7};
      S s = i == 0 ? own : i == 1 ? a[0] : fixed;
      bfloat4 v = i == 0 ? b[0] : bfloat4(2);
      bfloat w = i == 2 ? 0 : v.x;
      out[i] = s.v * 10 + int(w);
    }"""
    )
    _, _, result = run(source, "f", np.array([6], np.int32), np.zeros(4, np.uint16), np.zeros(3, np.int32), threads=3)
    assert result.tolist() == [70, 62, 50]


def test_argument_buffers_are_plain_structs() -> None:
    source = (
        "struct A { device float* p [[id(0)]]; constant int* q [[id(1)]]; float s [[id(2)]]; };\n"
        "kernel void f(constant A& a [[buffer(0)]]) { a.p[0] = a.q[0] * a.s; }"
    )
    (argument,) = opened(source).build("f", {}).kernel.arguments
    assert (argument.size, argument.alignment) == (24, 8)


def test_of_many_instantiations_each_is_checked_when_it_is_asked_for() -> None:
    names = [f"f{n}" for n in range(MOST_INSTANTIATIONS + 1)]
    kernel = "template <int N> kernel void f(device float* a) { static_assert(N != 7); a[0] = N; }\n"
    source = (
        HEADER
        + kernel
        + "\n".join(
            f'template [[host_name("{name}")]] kernel void f<{n}>(device float*);' for n, name in enumerate(names)
        )
    )
    library = msl.open_library(source, SourceOptions())
    assert list(library.kernels) == names
    assert library.build("f3", {}).kernel.name == "f3"
    with pytest.raises(CompileError) as refused:
        library.build("f7", {})
    assert refused.value.diagnostics[0].line == 3


def test_many_kernels_are_checked_side_by_side() -> None:
    kernels = [f"kernel void f{n}(device float* a) {{ a[0] = {n}; }}" for n in range(2 * MOST_KERNELS)]
    kernels += ["float f9(float x) { return x; } kernel void g(device float* a) { a[0] = f9(a[0]); }"]
    assert len(opened("\n".join(kernels)).kernels) == len(kernels)
    kernels[3] = kernels[3].replace("= 3", "= missing")
    kernels[4] = kernels[4].replace("= 4", "= absent")
    with pytest.raises(CompileError) as refused:
        opened("\n".join(kernels))
    assert [error.line for error in refused.value.diagnostics] == [6, 7]


def test_a_library_from_the_cache_has_the_lines_of_its_first_opening() -> None:
    """A program that ran unchecked before is compiled for checked mode from what was kept of its library."""
    source = (
        "template <typename T> kernel void f(device T *y) { y[0] = 1; }\n"
        'template [[host_name("f_a")]] kernel void f<float>(device float *);\n'
        'template [[host_name("f_b")]] kernel void f<half>(device half *);\n'
        "kernel void g(device float *y) {\n  y[0] = 2;\n}\n"
    )
    first = manifest(source)
    kept = LibraryManifest.from_json(first.to_json())
    assert len(kept.pieces) == len(first.pieces) - 2, "instantiations are not kept"
    texts = [BuildSpec(each, "g", {}, True, "safe").text() for each in (first, kept)]
    assert texts[0] == texts[1]
    rows = texts[1].splitlines()
    line = next(number for number, row in enumerate(rows, 1) if "= 2" in row)
    locate = msl.open_library(source, SourceOptions()).build("g", {}, checked=True).locate
    assert locate is not None
    place = locate(line, rows[line - 1].index("=") + 1)
    assert place is not None and place.line == source[: source.index("y[0] = 2")].count("\n") + 1


def test_what_the_compiler_says_of_our_own_lines_has_no_place_in_the_source() -> None:
    """Constants of two types by one index, which are defined before the source."""
    lines = "".join(f"constant uint c{i} [[function_constant({i + 1})]];\n" for i in range(12))
    first, second = (f"constant {kind} again [[function_constant(0)]];\n{lines}" for kind in ("uint", "bool"))
    refused = refusals(f"inline float g() {{ return 1; }}\n{first}{second}kernel void f() {{ g(); }}")
    assert any("redefinition of 'again'" in each.message and each.line == 15 for each in refused)
