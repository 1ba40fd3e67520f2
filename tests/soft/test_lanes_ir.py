"""The lanes engine's reading and rewriting of LLVM's text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mlx_native_py.softmetal.engines.lanes.analysis.groups import find_groups
from mlx_native_py.softmetal.engines.lanes.analysis.shape import VARYING
from mlx_native_py.softmetal.engines.lanes.ir import flow, private_arrays
from mlx_native_py.softmetal.engines.lanes.ir.layout import offset_of, size_of, terms
from mlx_native_py.softmetal.engines.lanes.ir.model import (
    BasicBlock,
    Declined,
    IntType,
    IrFunction,
    StructType,
    VectorType,
    uses,
)
from mlx_native_py.softmetal.engines.lanes.ir.narrow import narrow
from mlx_native_py.softmetal.engines.lanes.ir.parse import parse_function, parse_module
from mlx_native_py.softmetal.engines.lanes.ir.small_vectors import is_many, split
from mlx_native_py.softmetal.engines.lanes.ir.text import render

from .ir_kit import SOURCES, assembled, called, function_of, function_text, kernel_texts, verified, written


def graph(edges: dict[str, str], entry: str = "a") -> IrFunction:
    """A function of blocks that branch as told: {"a": "b c"}; a block without successors returns."""
    lines = []
    for name, targets in edges.items():
        lines.append(f"{name}:")
        labels = [f"label %{target}" for target in targets.split()]
        if not labels:
            lines.append("  ret void")
        elif len(labels) == 1:
            lines.append(f"  br {labels[0]}")
        else:
            lines.append(f"  br i1 %c, {', '.join(labels)}")
    return function_of("define void @f(i1 %c) {\n" + "\n".join(lines) + "\n}\n")


def named(result: dict[BasicBlock, BasicBlock | None]) -> dict[str, str | None]:
    return {block.name: other.name if other else None for block, other in result.items()}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_kernels_survive(path: Path, tmp_path: Path) -> None:
    for text in kernel_texts(path, tmp_path):
        module = parse_module(text)
        function = parse_function(module, "soft_entry_point")
        assert flow.analyse(function).order[0] is function.entry
        verified(written(module, [function]), tmp_path)
        split(function)
        assert not any(is_many(i.type) for i in function.instructions())
        again = written(module, [function])
        verified(again, tmp_path)
        lines = [render(i) for i in function.instructions()]
        assert [render(i) for i in function_of(again, "soft_entry_point").instructions()] == lines


CASES = {
    "arithmetic": "v4 a = *(v4 *)in, b = *(v4 *)(in + 16); *(v4 *)out = (a * b + a) / (b - 3.0f);",
    "shuffles": "v4 a = *(v4 *)in; *(v4 *)out = __builtin_shufflevector(a, a, 3, 0, 6, 1) + a.wzyx;",
    "bits": "u4 a = *(u4 *)in; *(u4 *)out = (a >> (u4){0, 4, 8, 12}) & 15; *(v2 *)(out + 16) = *(v2 *)in;",
    "compare": "i4 a = *(i4 *)in, b = *(i4 *)(in + 16); *(i4 *)out = a < b ? a : (b == 7) & a;",
    "reinterpreted": "*(s8 *)out = (s8)(*(v4 *)in * 2.0f); *(long *)(out + 16) = *(long *)&((v2 *)in)[1];",
    "indexed": "v4 a = *(v4 *)in; a[in[0] & 3] = a[in[1] & 3]; *(v4 *)out = a;",
    "loop": "v4 a = 0; for (int i = 0; i < (in[0] & 15); i++) a += ((v4 *)in)[i & 3]; *(v4 *)out = a;",
    "bytes": "b16 a = *(b16 *)in; *(b16 *)out = a + (a >> 1);"
    "*(i4 *)(out + 16) = __builtin_convertvector(*(b4 *)in, i4);",
    "minimum": "v4 a = *(v4 *)in; *(v4 *)out = __builtin_elementwise_min(a, a.yxwz); *(float *)(out + 16) = a.x + a.y;",
    "passed": "v2 a = h(*(v2 *)in, ((v2 *)in)[1]); *(v2 *)out = a; ((v2 *)out)[1] = h(a, a);",
    "struct": "struct p { long a; v2 b; } q = *(p *)in; if (in[3] & 1) q.b += 1; *(p *)out = q;",
    "switch": "v2 a = *(v2 *)in; switch (in[0] & 7) { case 1: a *= 2; break; case 5: a = -a; break; case 6: a = 0; } "
    "*(v2 *)out = a;",
    "overflow": "unsigned r; bool o = __builtin_mul_overflow(*(unsigned *)in, *(unsigned *)(in + 4), &r); "
    "*(unsigned *)out = o ? 7 : r;",
}
PRELUDE = """
typedef float v4 __attribute__((ext_vector_type(4))); typedef float v2 __attribute__((ext_vector_type(2)));
typedef int i4 __attribute__((ext_vector_type(4))); typedef unsigned u4 __attribute__((ext_vector_type(4)));
typedef short s8 __attribute__((ext_vector_type(8))); typedef signed char b4 __attribute__((ext_vector_type(4)));
typedef unsigned char b16 __attribute__((ext_vector_type(16)));
static inline v2 h(v2 a, v2 b) { return a * b + a.yx; }
extern "C" void f(const char *in, char *out) {
"""


@pytest.mark.parametrize("case", CASES)
def test_split_vectors_mean_the_same(case: str, tmp_path: Path) -> None:
    text = function_text(PRELUDE + CASES[case] + "}", tmp_path)
    module = parse_module(text)
    function = parse_function(module, "f")
    split(function)
    assert not any(is_many(i.type) and i.opcode != "call" for i in function.instructions())
    narrow(function)
    before, after = assembled(text, tmp_path, "before"), assembled(written(module, [function]), tmp_path, "after")
    random = np.random.default_rng(0)
    for _ in range(20):
        given = random.integers(0, 9, 64, np.uint8).tobytes() if case == "compare" else random.bytes(64)
        assert called(before, "f", given, 64) == called(after, "f", given, 64)


def test_wide_accesses_of_small_values_are_split() -> None:
    function = function_of(
        "define void @f(ptr %p, i32 %a, i32 %b) {\n  %d = load double, ptr %p, align 8\n"
        "  %i = bitcast double %d to i64\n  %low = trunc i64 %i to i32\n  %s = lshr i64 %i, 32\n"
        "  %high = trunc i64 %s to i32\n  %x = add i32 %a, %low\n  %wx = zext i32 %x to i64\n"
        "  %y = add i32 %b, %high\n  %wy = zext i32 %y to i64\n  %up = shl i64 %wy, 32\n"
        "  %both = or disjoint i64 %up, %wx\n  store i64 %both, ptr %p, align 8\n  ret void\n}\n"
    )
    narrow(function)
    accesses = [render(i) for i in function.instructions() if i.opcode in ("load", "store")]
    assert [line.split(" = ")[-1].split("%")[0] for line in accesses] == ["load i32, ptr "] * 2 + ["store i32 "] * 2


@pytest.mark.parametrize("use", ["add i64 %i, 1", "lshr i64 99, %i", "lshr i64 %i, %i", "and i64 %i, 255"])
def test_wide_loads_stay_where_more_than_parts_is_used(use: str) -> None:
    function = function_of(
        f"define void @f(ptr %p) {{\n  %i = load i64, ptr %p, align 8\n  %u = {use}\n  %t = trunc i64 %u to i32\n"
        "  %l = trunc i64 %i to i32\n  %s = add i32 %t, %l\n  store i32 %s, ptr %p, align 4\n  ret void\n}\n"
    )
    before = [render(i) for i in function.instructions()]
    narrow(function)
    assert [render(i) for i in function.instructions()] == before


def test_kept_vectors_stay(tmp_path: Path) -> None:
    module = parse_module(function_text(PRELUDE + CASES["loop"] + "}", tmp_path))
    function = parse_function(module, "f")
    before = [render(i) for i in function.instructions()]
    split(function, lambda value: True)
    assert {render(i) for i in function.instructions()} <= set(before)
    assert any(is_many(i.type) for i in function.instructions())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("call void %p()", "indirect call"),
        ('call void asm sideeffect "nop", ""()', "call of asm"),
        ("indirectbr ptr %p, [label %x]", "unknown instruction 'indirectbr'"),
        ('%x = load target("spirv.Image"), ptr %p', "unknown type 'target'"),
        ("store i32 %nobody, ptr %p, align 4", "unknown value %nobody"),
        ("call void @g(ptr byval(i64) %p)", "unknown constant 'byval'"),
        ("%x = add fancy i32 1, 2", "unknown type 'fancy'"),
        ("%x = add i32 1, 2 surprise", "unexpected 'surprise'"),
        ("%x = getelementptr i8, <2 x ptr> %ps, i64 1", "vector of pointers"),
    ],
)
def test_what_is_not_understood_is_declined(line: str, reason: str) -> None:
    with pytest.raises(Declined, match=re.escape(reason)):
        function_of(f"define void @f(ptr %p, <2 x ptr> %ps) {{\n  {line}\n  ret void\n}}\n")


def test_values_may_be_named_before_their_lines() -> None:
    function = function_of(
        "define i32 @f(i32 %0) {\n  br label %4\n\n2:\n  %3 = select i1 true, i32 %5, i32 0\n  ret i32 %3\n\n"
        "4:\n  %5 = add nuw i32 %0, -7\n  br label %2\n}\n"
    )
    select = function.blocks[1].instructions[0]
    assert select.type == IntType(32)
    added = select.operands[1]
    assert uses(function)[added] == [select]
    assert render(function.blocks[2].instructions[0]) == "%v5 = add nuw i32 %v0, -7"


def test_layout() -> None:
    pair = StructType((IntType(8), IntType(32), VectorType(3, IntType(32))))
    assert [offset_of(pair, i) for i in range(3)] == [0, 4, 16]
    assert size_of(pair) == 32
    assert size_of(StructType((IntType(8), IntType(32)), packed=True)) == 5
    function = function_of(
        "%s = type { i32, [4 x i16] }\ndefine void @f(ptr %p, i64 %i) {\n"
        "  %q = getelementptr %s, ptr %p, i64 2, i32 1, i64 %i\n  ret void\n}\n"
    )
    constant, indices = terms(function.blocks[0].instructions[0])
    assert (constant, [(value.text, scale) for value, scale in indices]) == (28, [("%i", 2)])


def test_dominators_of_a_diamond() -> None:
    result = flow.analyse(graph({"a": "b c", "b": "d", "c": "d", "d": ""}))
    assert named(result.idom) == {"a": None, "b": "a", "c": "a", "d": "a"}
    assert named(result.ipdom) == {"a": "d", "b": "d", "c": "d", "d": None}


def test_early_returns_have_the_end_in_common() -> None:
    result = flow.analyse(graph({"a": "b c", "b": "", "c": "d e", "d": "", "e": "d"}))
    assert named(result.ipdom) == {"a": None, "b": None, "c": "d", "d": None, "e": "d"}


def test_loops_lie_side_by_side() -> None:
    edges = {"a": "h", "h": "x i", "i": "j k", "j": "i k", "k": "h y", "x": "y", "y": ""}
    result = flow.analyse(graph(edges))
    outer, inner = result.loops
    assert (outer.header.name, inner.header.name, inner.parent) == ("h", "i", outer)
    assert {block.name for block in outer.blocks} == {"h", "i", "j", "k"}
    assert sorted((a.name, b.name) for a, b in outer.exits) == [("h", "x"), ("k", "y")]
    assert sorted((a.name, b.name) for a, b in inner.exits) == [("i", "k"), ("j", "k")]
    for loop in result.loops:
        places = sorted(result.index[block] for block in loop.blocks)
        assert places == list(range(places[0], places[0] + len(places)))
        assert result.order[places[0]] is loop.header
    for block in result.order:
        for after in block.successors:
            back = any(after is loop.header and block in loop.latches for loop in result.loops)
            assert back or result.index[after] > result.index[block]


@pytest.mark.parametrize(
    ("edges", "reason"),
    [
        ({"a": "b c", "b": "c d", "c": "b", "d": ""}, "irreducible"),
        ({"a": "b c", "b": "b", "c": ""}, "no path leads from block b"),
    ],
)
def test_flow_that_lanes_cannot_follow(edges: dict[str, str], reason: str) -> None:
    with pytest.raises(Declined, match=reason):
        flow.analyse(graph(edges))


def test_random_graphs_agree_with_the_definitions() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        names = "abcdefgh"
        count = random.integers(0, 3, len(names))
        edges = {
            n: " ".join(random.choice(list(names[1:]), c, replace=False)) for n, c in zip(names, count, strict=True)
        }
        try:
            result = flow.analyse(graph(edges))
        except Declined:
            continue
        for above in result.order:
            without = _reached(result.order[0], above)
            for below in result.order:
                assert result.dominates(above, below) == (below is above or below not in without)


def _reached(entry: BasicBlock, barred: BasicBlock) -> set[BasicBlock]:
    result: set[BasicBlock] = set()
    waiting = [entry]
    while waiting:
        block = waiting.pop()
        if block is not barred and block not in result:
            result.add(block)
            waiting += block.successors
    return result


PRIVATE = """
define void @f(ptr %p, i64 %i) {
  %a = alloca [8 x float], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %a, i8 0, i64 32, i1 false)
  %q = getelementptr [8 x float], ptr %a, i64 0, i64 %i
  store i32 1, ptr %q, align 4
  %r = getelementptr i8, ptr %a, i64 8
  %both = load i64, ptr %r, align 8
  store i64 %both, ptr %p, align 8
KEEP  ret void
}
declare void @g(ptr)
"""


def test_private_arrays_are_laid_out_by_lanes() -> None:
    function = function_of(PRIVATE.replace("KEEP", ""))
    private_arrays.rewrite(function)
    text = "\n".join(render(i) for i in function.entry.instructions)
    alloca = function.entry.instructions[0]
    assert (str(alloca.element), alloca.flags) == ("[256 x i32]", ("shared",))
    assert text.count("store i32 0, ptr") == 8
    assert "getelementptr [128 x i8]" in text
    assert text.count("load i32, ptr") == 2
    assert "__lane_number" in text


def test_arrays_that_go_elsewhere_stay() -> None:
    function = function_of(PRIVATE.replace("KEEP", "  call void @g(ptr %q)\n"))
    before = [render(i) for i in function.instructions()]
    private_arrays.rewrite(function)
    assert [render(i) for i in function.instructions()] == before


def test_neighbouring_accesses_form_groups() -> None:
    function = function_of(
        "define void @f(ptr %p, i64 %i) {\n"
        "  %b = getelementptr i8, ptr %p, i64 %i\n"
        + "".join(f"  %q{n} = getelementptr i8, ptr %b, i64 {4 * n}\n" for n in range(6))
        + "".join(f"  %v{n} = load float, ptr %q{n}, align 4\n" for n in (2, 0, 1, 3, 5))
        + "  store float %v0, ptr %p, align 4\n  %w = load float, ptr %q4, align 4\n  ret void\n}\n"
    )
    outcome = find_groups(function, lambda value: VARYING)
    members = {result.name: [m.name for m in group.members] for result, group in outcome.items()}
    assert members == {name: ["v0", "v1", "v2", "v3"] for name in ("v0", "v1", "v2", "v3")}
