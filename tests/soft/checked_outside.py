"""Programs that reach outside of their memory."""

from __future__ import annotations

import numpy as np

from mlx_native_py.softmetal.checked import OutOfBounds

from .checked_programs import AB, SYNC, VARIABLE, Address, Part, Program, floats, zeros

_STRUCT = "struct P { device float* data; };"
_ADDRESS = "constant P& p [[buffer(0)]], device float* b [[buffer(1)]]"
_SLOT_B = {"place.slot": 1, "place.name": "b"}

_ARG = "device float* a [[buffer(0)]], device float* b [[buffer(1)]], threadgroup float* s [[threadgroup(0)]]"
OUTSIDE = [
    *(
        Program(
            f"{what} of a wide vector, {form}",
            body,
            [np.zeros(256, np.int64), np.zeros(256, np.int64)],
            OutOfBounds,
            [what, f"'{name}'", "byte offset 2048", "(63, 0, 0)"],
            ("i + 1", "i"),
            params="device long4* a [[buffer(0)]], device ulong3* b [[buffer(1)]]",
        )
        for what, form, body, name in (
            ("read", "whole", "b[i] = ulong3((a[i + 1] * a[i]).xyz);", "a"),
            ("read", "in part", "b[i] = ulong3(a[i + 1].xyz) * 2;", "a"),
            ("write", "computed", "b[i + 1] = ulong3(a[i].xyz) * 2;", "b"),
            ("write", "copied", "if (i == 63) b[i + 1] = b[0];", "b"),
        )
    ),
    Program(
        "write past the end",
        "b[i + 1] = a[i];",
        AB,
        OutOfBounds,
        ["write of 4 bytes", "'b'", "byte offset 256", "(63, 0, 0)"],
        ("i + 1", "i"),
        fields={**_SLOT_B, "place.offset": 256, "place.length": 256, "access.thread": (63, 0, 0)},
    ),
    Program(
        "read past the end",
        "b[i] = a[i + 1];",
        AB,
        OutOfBounds,
        ["read of 4 bytes", "'a'", "byte offset 256"],
        ("i + 1", "i"),
    ),
    Program(
        "write before the start",
        "b[int(i) - 1] = a[i];",
        AB,
        OutOfBounds,
        ["write of 4 bytes", "byte offset -4"],
        ("int(i) - 1", "i"),
        fields={"place.offset": -4},
    ),
    Program(
        "unsigned index below zero",
        "b[i] = a[i - 1];",
        AB,
        OutOfBounds,
        ["read of 4 bytes", "17179869180"],
        ("i - 1", "i"),
    ),
    Program(
        "stride of two", "b[i] = a[2 * i];", AB, OutOfBounds, ["byte offset 256", "thread (32, 0, 0)"], ("2 * i", "i")
    ),
    Program(
        "more threads than elements",
        "b[i] = a[i];",
        (floats(60), zeros(64)),
        OutOfBounds,
        ["'a'", "240 bytes", "byte offset 240"],
        ("b[i]", "if (i < 60) b[i]"),
    ),
    Program(
        "loop one too far",
        "float s = 0; for (uint j = 0; j <= 64; j++) s += a[j]; b[i] = s;",
        AB,
        OutOfBounds,
        ["'a'", "byte offset 256", "thread (0, 0, 0)"],
        ("j <= 64", "j < 64"),
    ),
    Program(
        "last half",
        "b[i] = a[i + 1];",
        (zeros(64, np.float16), zeros(64, np.float16)),
        OutOfBounds,
        ["read of 2 bytes", "byte offset 128"],
        ("i + 1", "i"),
        params="device half* a [[buffer(0)]], device half* b [[buffer(1)]]",
    ),
    Program(
        "one byte",
        "b[i + 1] = a[i];",
        (zeros(64, np.uint8), zeros(64, np.uint8)),
        OutOfBounds,
        ["write of 1 bytes", "byte offset 64"],
        ("i + 1", "i"),
        params="device uchar* a [[buffer(0)]], device uchar* b [[buffer(1)]]",
    ),
    Program(
        "a vector over the edge",
        "b[i] = a[i].x + a[i].w;",
        (floats(62), zeros(64)),
        OutOfBounds,
        ["byte offset 2", "'a'"],
        ("b[i]", "if (i < 15) b[i]"),
        threads=16,
        group=16,
        params="device float4* a [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
    Program(
        "a whole vector over the edge",
        "b[i] = a[i];",
        (floats(64), floats(62)),
        OutOfBounds,
        ["write of 16 bytes", "byte offset 240"],
        ("b[i]", "if (i < 15) b[i]"),
        threads=16,
        group=16,
        params="device float4* a [[buffer(0)]], device float4* b [[buffer(1)]]",
    ),
    Program(
        "a struct over the edge",
        "b[i] = a[i];",
        (floats(63), zeros(96)),
        OutOfBounds,
        ["read of 12 bytes", "'a'", "byte offset 252"],
        ("b[i]", "if (i < 21) b[i]"),
        threads=22,
        group=22,
        before="struct S { float x, y, z; };",
        params="device S* a [[buffer(0)]], device S* b [[buffer(1)]]",
    ),
    Program(
        "a member over the edge",
        "b[i] = a[i].values[3];",
        (zeros(62), zeros(64)),
        OutOfBounds,
        ["read of 4 bytes", "byte offset 252"],
        ("a[i].values[3]", "a[i].values[1]"),
        threads=16,
        group=16,
        before="struct S { float values[4]; };",
        params="device S* a [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
    Program(
        "a packed vector",
        "b[i] = float3(a[i]).z;",
        (zeros(62), zeros(64)),
        OutOfBounds,
        ["'a'", "byte offset 24"],
        ("b[i]", "if (i < 20) b[i]"),
        threads=21,
        group=21,
        params="device packed_float3* a [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
    Program(
        "atomic update past the end",
        "atomic_fetch_add_explicit(&a[i], 1u, memory_order_relaxed);",
        (zeros(60, np.uint32),),
        OutOfBounds,
        ["atomic update of 4 bytes", "byte offset 240"],
        ("&a[i]", "&a[i % 60]"),
        params="device atomic_uint* a [[buffer(0)]]",
    ),
    Program(
        "atomic load past the end",
        "b[i] = atomic_load_explicit(&a[i + 1], memory_order_relaxed);",
        (zeros(64, np.int32), zeros(64, np.int32)),
        OutOfBounds,
        ["atomic read of 4 bytes", "byte offset 256"],
        ("i + 1", "i"),
        params="device atomic_int* a [[buffer(0)]], device int* b [[buffer(1)]]",
    ),
    Program(
        "atomic maximum past the end",
        "atomic_fetch_max_explicit(&a[i], int(i), memory_order_relaxed);",
        (zeros(60, np.int32),),
        OutOfBounds,
        ["byte offset 240"],
        ("&a[i]", "&a[i % 60]"),
        params="device atomic_int* a [[buffer(0)]]",
    ),
    Program(
        "atomic float past the end",
        "atomic_fetch_add_explicit(&a[i], 1.0f, memory_order_relaxed);",
        (zeros(60),),
        OutOfBounds,
        ["byte offset 240"],
        ("&a[i]", "&a[i % 60]"),
        params="device atomic_float* a [[buffer(0)]]",
    ),
    Program(
        "rows and columns exchanged",
        "uint x = i % 4, y = i / 4; b[y * 16 + x] = a[i];",
        AB,
        OutOfBounds,
        ["'b'", "byte offset 256"],
        ("y * 16 + x", "y * 4 + x"),
    ),
    Program(
        "a table of constants",
        "b[i] = lut[i];",
        (floats(16), zeros(64)),
        OutOfBounds,
        ["'lut'", "byte offset 64"],
        ("lut[i]", "lut[i % 16]"),
        params="constant float* lut [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
    Program(
        "past the inline bytes",
        "b[i] = p[1] + p[0];",
        (np.float32(1), zeros(64)),
        OutOfBounds,
        ["inline bytes 'p'", "byte offset 4", "4 bytes"],
        ("p[1] +", ""),
        fields={"place.space": "inline bytes", "place.slot": 0},
        params="constant float* p [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
    Program(
        "a member past the inline bytes",
        "b[i] = p->scale[i % 4];",
        (floats(3).tobytes(), zeros(64)),
        OutOfBounds,
        ["inline bytes 'p'", "byte offset 12"],
        ("i % 4", "i % 2"),
        before="struct P { uint n; float scale[4]; };",
        params="constant P* p [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
    Program(
        "before a bound offset",
        "b[i] = a[int(i) - 1];",
        (Part(floats(96), 128), zeros(64)),
        OutOfBounds,
        ["'a'", "byte offset -4"],
        ("int(i) - 1", "i"),
    ),
    Program(
        "past a bound offset",
        "b[i] = a[i];",
        (Part(floats(96), 192), zeros(64)),
        OutOfBounds,
        ["'a'", "192 bytes", "byte offset 192"],
        ("b[i] = a[i]", "if (i < 48) b[i] = a[i]"),
    ),
    Program(
        "a buffer that nobody made resident",
        "b[i] = p.data[i];",
        (Address(floats(64), False), zeros(64)),
        OutOfBounds,
        ["read of 4 bytes"],
        params=_ADDRESS,
        before=_STRUCT,
    ),
    Program(
        "past the end of a resident buffer",
        "b[i] = p.data[i + 1];",
        (Address(floats(64), True), zeros(64)),
        OutOfBounds,
        ["resident buffer", "byte offset 256"],
        ("i + 1", "i"),
        params=_ADDRESS,
        before=_STRUCT,
    ),
    Program(
        "a null pointer",
        "b[i] = p.data[i];",
        (bytes(8), zeros(64)),
        OutOfBounds,
        ["null pointer"],
        ("= p.data[i]", "= p.data ? p.data[i] : 0"),
        params=_ADDRESS,
        before=_STRUCT,
    ),
    Program(
        "a far address",
        "b[i + (ulong(1) << 44)] = 1;",
        AB,
        OutOfBounds,
        ["write of 4 bytes"],
        ("ulong(1) << 44", "0 * i"),
    ),
    Program(
        "a write through const",
        "((device float*)a)[i] = b[i];",
        AB,
        OutOfBounds,
        ["write of 4 bytes", "'a'", "read-only"],
        ("((device float*)a)[i] = b[i]", "b[i] = a[i]"),
        params="const device float* a [[buffer(0)]], device float* b [[buffer(1)]]",
    ),
]

_BYTES = (np.zeros(64, np.uint8), np.arange(64, dtype=np.uint8) % 16)
_UCHAR = "device uchar* a [[buffer(0)]], device const uchar* b [[buffer(1)]]"


def _bytes_in_a_loop(name: str, body: str, fix: tuple[str, str]) -> Program:
    """A loop that compilers like to make vectors of, with masks."""
    return Program(name, body, _BYTES, OutOfBounds, ["'a' (slot 0, 64 bytes)"], fix, _UCHAR, threads=1, group=1)


LOOPS_OUTSIDE = [
    _bytes_in_a_loop(
        "a loop of bytes with a condition", "for (int j = 0; j < 64; j++) if (b[j] > 3) a[j + 16] = 1;", ("+ 16", "+ 0")
    ),
    _bytes_in_a_loop(
        "a loop that reads bytes with a condition",
        "int s = 0;\nfor (int j = 0; j < 64; j++) if (b[j] > 3) s += a[j + 16];\na[0] = s;",
        ("+ 16", "+ 0"),
    ),
    _bytes_in_a_loop(
        "a loop of few rounds", "int c = b[15] & 7;\nfor (int j = 0; j < c; j++) a[60 + j] = c;", ("& 7", "& 3")
    ),
]

THREADGROUP_OUTSIDE = [
    Program(
        "past a threadgroup array",
        VARIABLE + "s[t + 1] = a[i]; b[i] = 0;",
        AB,
        OutOfBounds,
        ["outside threadgroup memory", "byte offset 256", "256 bytes"],
        ("t + 1", "t"),
        fields={"place.space": "threadgroup memory"},
    ),
    Program(
        "past a threadgroup argument",
        "s[t] = a[i]; b[i] = 0;",
        AB,
        OutOfBounds,
        ["threadgroup memory", "byte offset 128", "128 bytes"],
        ("s[t] = a[i]", "if (t < 32) s[t] = a[i]"),
        params=_ARG,
        shared=[128],
        fields={"place.name": "s"},
    ),
    Program(
        "before threadgroup memory",
        VARIABLE + "s[int(t) - 1] = a[i]; b[i] = 0;",
        AB,
        OutOfBounds,
        ["threadgroup memory", "byte offset -4"],
        ("int(t) - 1", "t"),
    ),
    Program(
        "reading past a threadgroup array",
        VARIABLE + f"s[t] = a[i]; {SYNC} b[i] = s[t + 1];",
        AB,
        OutOfBounds,
        ["read of 4 bytes", "byte offset 256"],
        ("t + 1", "63 - t"),
    ),
    Program(
        "a threadgroup counter past the end",
        f"if (t < 16) atomic_store_explicit(&c[t], 0u, memory_order_relaxed);\n{SYNC}\n"
        "atomic_fetch_add_explicit(&c[t], 1u, memory_order_relaxed); b[i] = a[i];",
        AB,
        OutOfBounds,
        ["atomic", "byte offset 64"],
        ("&c[t]", "&c[t % 16]"),
        params=_ARG.replace("float* s", "atomic_uint* c"),
        shared=[64],
    ),
]

MATRIX = "simdgroup_float8x8 m; simdgroup_load(m, a, 8); simdgroup_store(m, b, 8);"

MATRICES_OUTSIDE = [
    Program(
        "a matrix past the end",
        MATRIX,
        (floats(60), zeros(64)),
        OutOfBounds,
        ["read of", "'a'", "byte offset 2"],
        ("a, 8", "a, 7"),
        threads=32,
        group=32,
    ),
    Program(
        "a matrix stored past the end",
        MATRIX,
        (floats(64), zeros(60)),
        OutOfBounds,
        ["write of", "'b'", "byte offset 2"],
        ("simdgroup_store", "if (a[0] > 0) simdgroup_store"),
        threads=32,
        group=32,
    ),
]
