"""Bytes that no member of a stored object has: zero, whatever was there and whichever engine stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .program import Program

COUNT = 64
OLD, COPIED = 0xA5, 0x5A  # what lies where stores go, and in the padding of what is copied

_TYPES = """
struct Small { char a; float b; uchar c; };
struct Pair { char a; float b; };
struct Vector { float3 p; };
struct Tail { float4 a; float b; };
struct Halves { half3 h; bool f; };
struct Packed { char c; packed_float3 p; char d; };
struct Brain { float a; bfloat b; };
struct Nested { Pair p; short t; Tail q; };
struct Items { char n; Pair items[3]; };
struct Long { char a; float list[12]; char z; };
struct Large { char a; float list[100]; char z; };
union Word { char c; uint w; };
struct Holder { char k; Word u; };
struct Either { char k; union { char c; uint w; }; };
struct Bits { uint a : 3; uint b : 7; };
struct Word20 { uint a : 3; uint b : 20; };
struct Wide { long4 a; char b; };
struct Rows { float3x3 m; char c; };
struct Column { float a; array<Pair, 2> list; };
struct Ends { float2 a; char b; static constant int count = 3; float sum() const thread { return a.x + b; } };
struct Made { int a; char b; Made(int x) : a(x), b(1) {} };
struct Guarded { Guarded(float x) : v(x), n(2) {} private: float4 v; char n; };
struct Base { float4 a; float b; };
struct Derived : Base { float c; };
typedef struct { float4 a; float b; } Named;
typedef struct Tagged { float4 a; float b; } Also;
template <class T> struct Box { T v; char flag; };
template <class T> struct Boxes { Box<T> both[2]; short end; };
template <class T, int N> struct Row { T a, b[N]; char c; };
namespace inner { struct Pair { float2 a; char b; }; }

Pair pair(float x) { return Pair{1, x}; }
Pair listed(float x) { return {1, x}; }
Tail tail(float x) { return Tail{float4(x), x}; }
Small filled(float x) { Small s; s.a = 1; s.b = x; s.c = 3; return s; }
template <class T> Box<T> box(T v) { return Box<T>{v, 7}; }
template <class T> void put(device T *place, T value) { *place = value; }
Tail passed(Tail t) { t.b += 1; return t; }
void into(thread Pair &p, float x) { p = Pair{1, x}; }
constant Pair known = {1, 5};
constant Tail tails[2] = {{float4(1), 2}, {float4(3), 4}};
"""


@dataclass(frozen=True)
class Row:
    """`code` stores one `type` at `out`; `parts` has its numbers by offset, and `size` its bytes."""

    name: str
    type: str
    size: int
    code: str
    parts: dict[int, Any]

    def expected(self) -> np.ndarray:
        stored = np.zeros(self.size, np.uint8)
        for offset, value in self.parts.items():
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            stored[offset : offset + data.size] = data
        return np.tile(stored, COUNT)


def _f(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


_PAIR: dict[int, Any] = {0: np.int8(1), 4: _f(5)}
_TAIL: dict[int, Any] = {0: _f(1, 1, 1, 1), 16: _f(2)}
_FILLED: dict[int, Any] = {0: np.int8(1), 4: _f(5), 8: np.uint8(3)}
_LIST: dict[int, Any] = {4 + 8 * n + at: value for n in range(3) for at, value in _PAIR.items()}
_ROWS = [
    Row("variable", "Small", 12, "Small x; x.a = 1; x.b = five; x.c = 3; *out = x;", _FILLED),
    Row("variable-with-a-value", "Pair", 8, "Pair x = {one, five}; *out = x;", _PAIR),
    Row("variable-from-a-call", "Pair", 8, "Pair x = pair(five); *out = x;", _PAIR),
    Row("temporary", "Pair", 8, "*out = Pair{1, 5};", _PAIR),
    Row("temporary-of-values", "Pair", 8, "*out = Pair{one, five};", _PAIR),
    Row("temporary-zero", "Pair", 8, "*out = Pair{};", {}),
    Row("list", "Pair", 8, "*out = {one, five};", _PAIR),
    Row("returned", "Pair", 8, "*out = pair(five);", _PAIR),
    Row("returned-list", "Pair", 8, "out[0] = listed(five);", _PAIR),
    Row("returned-variable", "Small", 12, "*out = filled(five);", _FILLED),
    Row("lambda", "Pair", 8, "auto made = [&](float x) { return Pair{one, x}; }; *out = made(five);", _PAIR),
    Row("conditional", "Pair", 8, "*out = i & 1 ? Pair{one, five} : pair(5);", _PAIR),
    Row("conditional-of-variables", "Pair", 8, "Pair x{one, five}, y = pair(5); *out = i & 1 ? x : y;", _PAIR),
    Row("conditional-with-memory", "Pair", 8, "*out = i < 1000 ? Pair{one, five} : given[i];", _PAIR),
    Row("loop", "Pair", 8, "for (int n = 0; n < 3; n++) *out = n & 1 ? given[i] : Pair{one, n + 3.0f};", _PAIR),
    Row("by-reference", "Pair", 8, "Pair x; into(x, five); device Pair &to = *out; to = x;", _PAIR),
    Row("by-template", "Pair", 8, "put(out, Pair{one, five});", _PAIR),
    Row("constant", "Pair", 8, "*out = known;", _PAIR),
    Row("threadgroup", "Pair", 8, "pairs[t] = Pair{one, five}; *out = pairs[t];", _PAIR),
    Row(
        "private-array",
        "Pair",
        8,
        "Pair all[4]; for (int n = 0; n < 4; n++) all[n] = pair(n + 2); *out = all[int(five) - 2];",
        _PAIR,
    ),
    Row("constructor", "Made", 8, "*out = Made(5);", {0: np.int32(5), 4: np.int8(1)}),
    Row("copied", "Pair", 8, "*out = given[i];", {0: np.int8(2), 1: np.full(3, COPIED, np.uint8), 4: _f(9)}),
    Row(
        "copied-by-variable",
        "Pair",
        8,
        "Pair x = given[i]; x.b = 7; *out = x;",
        {0: np.int8(2), 1: np.full(3, COPIED, np.uint8), 4: _f(7)},
    ),
    Row("three-elements", "Vector", 16, "*out = Vector{float3(1, 2, five)};", {0: _f(1, 2, 5)}),
    Row("three-elements-variable", "Vector", 16, "Vector x = {float3(1, 2, five)}; *out = x;", {0: _f(1, 2, 5)}),
    Row("three-elements-member", "Vector", 16, "out->p = float3(1, 2, five);", {0: _f(1, 2, 5)}),
    Row("tail", "Tail", 32, "*out = Tail{float4(1), 2};", _TAIL),
    Row("tail-variable", "Tail", 32, "Tail x; x.a = 1; x.b = 2; *out = x;", _TAIL),
    Row("tail-returned", "Tail", 32, "*out = tail(2);", {0: _f(2, 2, 2, 2), 16: _f(2)}),
    Row("tail-passed", "Tail", 32, "*out = passed(Tail{float4(1), 1});", _TAIL),
    Row("tail-of-typedef", "Named", 32, "*out = Named{float4(1), 2};", _TAIL),
    Row("tail-of-typedef-with-tag", "Also", 32, "*out = Tagged{float4(1), 2};", _TAIL),
    Row("tail-constant", "Tail", 32, "*out = tails[0];", _TAIL),
    Row("tail-by-pointer", "Tail", 32, "shared[t] = tails[0]; threadgroup Tail *p = shared + t; *out = *p;", _TAIL),
    Row("tail-of-long", "Wide", 64, "*out = Wide{long4(1), 2};", {0: np.ones(4, np.int64), 32: np.int8(2)}),
    Row(
        "tail-of-matrix",
        "Rows",
        64,
        "*out = Rows{float3x3(float3(1), float3(2), float3(3)), 4};",
        {0: _f(1, 1, 1), 16: _f(2, 2, 2), 32: _f(3, 3, 3), 48: np.int8(4)},
    ),
    Row("tail-with-functions", "Ends", 16, "*out = Ends{float2(1, 2), 3};", {0: _f(1, 2), 8: np.int8(3)}),
    Row("tail-of-private-members", "Guarded", 32, "*out = Guarded(3);", {0: _f(3, 3, 3, 3), 16: np.int8(2)}),
    Row("tail-of-bfloat", "Brain", 8, "*out = Brain{five, bfloat(1)};", {0: _f(5), 4: np.uint16(0x3F80)}),
    Row("tail-in-namespace", "inner::Pair", 16, "*out = inner::Pair{float2(1, 2), 3};", {0: _f(1, 2), 8: np.int8(3)}),
    Row("halves", "Halves", 16, "*out = Halves{half3(1), true};", {0: np.ones(3, np.float16), 8: np.int8(1)}),
    Row(
        "packed",
        "Packed",
        20,
        "*out = Packed{1, packed_float3(1, 2, 3), 4};",
        {0: np.int8(1), 4: _f(1, 2, 3), 16: np.int8(4)},
    ),
    Row(
        "nested",
        "Nested",
        48,
        "*out = Nested{Pair{1, 5}, 3, Tail{float4(1), 2}};",
        {**_PAIR, 8: np.int16(3), **{16 + at: value for at, value in _TAIL.items()}},
    ),
    Row(
        "nested-member",
        "Nested",
        48,
        "Nested x; x.p = pair(five); x.t = 3; x.q = Tail{float4(1), 2}; *out = x;",
        {**_PAIR, 8: np.int16(3), **{16 + at: value for at, value in _TAIL.items()}},
    ),
    Row(
        "array-of-structs",
        "Items",
        28,
        "*out = Items{2, {{1, five}, Pair{one, 5}, pair(five)}};",
        {0: np.int8(2), **_LIST},
    ),
    Row(
        "array-inside",
        "Long",
        56,
        "Long w; w.a = 1; for (int j = 0; j < 12; j++) w.list[j] = j; w.z = 3; *out = w;",
        {0: np.int8(1), 4: np.arange(12, dtype=np.float32), 52: np.int8(3)},
    ),
    Row(
        "large",
        "Large",
        408,
        "Large w; w.a = 1; for (int j = 0; j < 100; j++) w.list[j] = j; w.z = 3; *out = w;",
        {0: np.int8(1), 4: np.arange(100, dtype=np.float32), 404: np.int8(3)},
    ),
    Row(
        "metal-array",
        "Column",
        20,
        "*out = Column{five, {{{1, five}, {1, 5}}}};",
        {0: _f(5), **{4 + at: value for at, value in _PAIR.items()}, **{12 + at: value for at, value in _PAIR.items()}},
    ),
    Row("union", "Word", 4, "*out = Word{char(one)};", {0: np.int8(1)}),
    Row("union-member", "Holder", 8, "*out = Holder{one, {7}};", {0: np.int8(1), 4: np.int8(7)}),
    Row("union-without-name", "Either", 8, "Either x = {one, {7}}; *out = x;", {0: np.int8(1), 4: np.int8(7)}),
    Row("bits", "Bits", 4, "*out = Bits{uint(one), 5};", {0: np.uint32(1 | 5 << 3)}),
    Row("bits-of-a-word", "Word20", 4, "*out = Word20{uint(one), 5};", {0: np.uint32(1 | 5 << 3)}),
    Row("template", "Box<float>", 8, "*out = box(five);", {0: _f(5), 4: np.int8(7)}),
    Row("template-vector", "Box<float2>", 16, "*out = box(float2(1, 2));", {0: _f(1, 2), 8: np.int8(7)}),
    Row(
        "template-nested",
        "Boxes<float2>",
        40,
        "*out = Boxes<float2>{{box(float2(1, 2)), {float2(1, 2), 7}}, 3};",
        {0: _f(1, 2), 8: np.int8(7), 16: _f(1, 2), 24: np.int8(7), 32: np.int16(3)},
    ),
    Row(
        "template-rows",
        "Row<float2, 2>",
        32,
        "*out = Row<float2, 2>{1, {2, 3}, 4};",
        {0: _f(1, 1, 2, 2, 3, 3), 24: np.int8(4)},
    ),
    Row(
        "derived",
        "Derived",
        48,
        "Derived x; x.a = 1; x.b = 2; out->c = 3; out->Base::operator=(x);",
        {**_TAIL, 32: _f(3), 36: np.full(12, OLD, np.uint8)},
    ),
]


def all_programs() -> list[Program]:
    body, results, place = [], {}, 0
    for row in _ROWS:
        body.append(f"{{ device {row.type} *out = (device {row.type} *)(raw + {place}) + i; {row.code} }}")
        results[row.name] = (0, row.expected(), place)
        place += -(-row.size * COUNT // 64) * 64
    kernel = f"""{_TYPES}
kernel void k(device uchar *raw, device const Pair *given, constant float &five, constant char &one,
              uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {{
  threadgroup Pair pairs[32];
  threadgroup Tail shared[32];
  {chr(10).join(body)}
}}
"""
    given = np.full((COUNT, 8), COPIED, np.uint8)
    given[:, 0] = 2
    given[:, 4:] = _f(9).view(np.uint8)
    args = [np.full(place, OLD, np.uint8), given.reshape(-1), np.float32(5), np.int8(1)]
    return [Program("padding", kernel, args, results, threads=COUNT, group=32)]
