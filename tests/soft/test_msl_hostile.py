"""Sources that nobody would write: refused with a message and a place, in little time, by no other exception."""

from __future__ import annotations

import random
import time

import pytest

from mlx_native_py.softmetal import msl
from mlx_native_py.softmetal.msl.lexer import Tokens, lex
from mlx_native_py.softmetal.msl.positions import Positions
from mlx_native_py.softmetal.program import CompileError, SourceOptions

from .msl_kit import translated
from .objects_kit import SOURCE

KERNEL = "kernel void f(device float* a [[buffer(0)]]) {{ {} }}"
TEMPLATES = """
template <typename T, int N> struct A { T x[N]; T get(int i) const device { return x[i]; } operator bool() const; };
constant int fc [[function_constant(0)]]; constant bool on = is_function_constant_defined(fc) ? fc > 1 : false;
template <typename T> [[kernel, max_total_threads_per_threadgroup(64)]] void k(device T* p [[buffer(0)]],
    constant uint& n [[buffer(1), function_constant(on)]], threadgroup T* s [[threadgroup(0)]]) {
  threadgroup float shared[32][4]; alignas(16) threadgroup T q = {0};
  for (uint i = 0; i < n; i++) { if (i & 1) p[i] = simd_sum(p[i]); else continue; do { p[0]++; } while (p[i] < 3); }
  auto f = [&](thread T& v) { return v ? p[1] : s[2]; }; T w = f(p[0]) < 3 ? T(1) : T(2); }
template [[host_name("k_float")]] [[kernel]] void k<float>(device float*, constant uint&, threadgroup float*);
"""


@pytest.mark.parametrize(
    "source",
    [
        "".join(f"namespace n{i} {{" for i in range(2000)) + "}" * 2000,
        "".join(f"struct n{i} {{" for i in range(2000)) + "};" * 2000,
        KERNEL.format("for (;;) " * 2000 + "threadgroup_barrier(mem_flags::mem_none);"),
        "kernel void f(device float* a [[buffer(" + "(" * 2000 + "1" + ")" * 2000 + ")]]) {}",
    ],
    ids=["namespaces", "classes", "loops", "brackets"],
)
def test_depth_is_refused(source: str) -> None:
    with pytest.raises(CompileError, match="nested too deeply"):
        translated(source)


def test_a_circle_of_constants_is_refused() -> None:
    with pytest.raises(CompileError, match="requires an integer constant"):
        translated("constant int a = b; constant int b = a; kernel void f(device float* x [[buffer(a)]]) {}")


@pytest.mark.parametrize("amount", ["99999999999", "-1", "64"])
def test_wild_shifts_are_refused(amount: str) -> None:
    with pytest.raises(CompileError, match="shift by"):
        translated(f"kernel void f(device float* a [[buffer(1 << {amount})]]) {{}}")


def test_a_circle_of_conditions_is_refused() -> None:
    source = "constant bool a = b; constant bool b = a; kernel void f(device int* x [[function_constant(a)]]) {}"
    with pytest.raises(CompileError):
        msl.open_library(source, SourceOptions()).build("f", {})


def test_a_condition_may_stand_at_the_end_of_a_long_chain() -> None:
    chain = "".join(f"constant int a{n + 1} = a{n} + 1;" for n in range(3000))
    condition = "constant int twice = a3000 + 1; constant bool on = twice > a3000;"
    kernel = "kernel void f(device int* x [[buffer(0), function_constant(on)]]) { if (on) x[0] = 1; }"
    library = msl.open_library(
        f"constant int a0 [[function_constant(0)]]; {chain} {condition} {kernel}", SourceOptions()
    )
    assert len(library.build("f", {0: b"\1\0\0\0"}).kernel.arguments) == 1


@pytest.mark.parametrize("end", ["template <typename T>", "template", "template <typename T", "namespace", "struct"])
def test_a_source_that_ends_too_soon_is_refused(end: str) -> None:
    with pytest.raises(CompileError):
        msl.open_library(f"{KERNEL.format('')}\n{end}", SourceOptions())


@pytest.mark.parametrize(
    "body", ["auto", "auto p =", "constant int *p = c", "thread const int &r = n", "thread const int &r"]
)
def test_a_body_that_ends_too_soon_is_refused(body: str) -> None:
    with pytest.raises(CompileError):
        msl.open_library(f"kernel void f(device int *o, constant int *c) {{ {body} }}", SourceOptions())


@pytest.mark.parametrize("text", ["a[0] = " + "b + " * 20000 + "1; goto x;", "goto x; " * 500])
def test_messages_on_long_lines_come_soon(text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(CompileError) as refused:
        translated(KERNEL.format(text))
    assert time.monotonic() - begin < 10
    assert refused.value.diagnostics[0].column == KERNEL.format(text).index("goto") + 1


_LONG = 200_000
ENDLESS = {
    "string": '"' + '\\"' * _LONG,
    "character": "'" + "\\'" * _LONG,
    "raw string": 'R""( ' + 'R"a( ' * _LONG + ')"" goto x;',
    "zeros": f"threadgroup float t = {'0' * _LONG}z; goto x;",
    "digits": f"{'1' * _LONG}zbf; goto x;",
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_no_text_is_searched_again_and_again(text: str) -> None:
    begin = time.monotonic()
    with pytest.raises(CompileError):
        translated(KERNEL.format(text))
    assert time.monotonic() - begin < 20


LINES = {"number": f"# {'1' * _LONG}x", "comments": "/* " * _LONG, "strings": "goto x; '\"'\"" + '\\"' * _LONG}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_no_line_is_searched_again_and_again(line: str) -> None:
    begin = time.monotonic()
    positions = Positions(f"\n{line}", "p")
    tokens = Tokens(["goto", "x"], [("p", 2), ("p", 2)], [-1, -1])
    assert positions.diagnostic(tokens, 0, "no").line == 2
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("words", [1000, 100_000])
def test_messages_show_little_of_long_lines(words: int) -> None:
    with pytest.raises(CompileError) as refused:
        translated(KERNEL.format("goto x; " * 200 + "b + " * words))
    assert len(refused.value.diagnostics) > 50
    assert len(str(refused.value)) < 1000 * len(refused.value.diagnostics)


def test_warnings_come_to_an_end() -> None:
    library = msl.open_library("[[foo::bar]] void f();\n" * 300 + KERNEL.format(""), SourceOptions())
    assert 50 < len(library.warnings) <= 100


def test_a_macro_of_many_tokens_is_named() -> None:
    many = "#define MANY " + "x + " * 2000 + "goto\n"
    with pytest.raises(CompileError) as refused:
        msl.open_library(many + "kernel void f(device int* x) { x[0] = MANY y; }\n", SourceOptions())
    first = refused.value.diagnostics[0]
    assert (first.line, first.column) == (2, 39)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_sources_raise_nothing_else(seed: int) -> None:
    draw = random.Random(seed)
    whole = [lex(text.replace("#include <metal_stdlib>", ""), "p").text for text in (SOURCE, TEMPLATES)]
    for _ in range(150):
        words = list(draw.choice(whole))
        if draw.random() < 0.4:
            del words[draw.randrange(1, len(words)) :]
            words += ["}"] * draw.randrange(3)
        for _ in range(draw.randrange(3)):
            at = draw.randrange(len(words))
            words[at : at + draw.randrange(3)] = draw.sample(words, 1)
        try:
            translated(" ".join(words))
        except CompileError:
            pass
