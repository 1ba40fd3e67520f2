"""Small faulty MSL programs, what checked mode must say about each, and how each is put right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlx_native_py.softmetal.checked import CheckedError, DataRace, OutOfBounds

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@dataclass(frozen=True)
class Part:
    """A buffer with the bytes of `array`, bound at a byte offset."""

    array: Any
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """Inline bytes that hold the address of a buffer; it is made resident or not."""

    array: Any
    resident: bool


@dataclass(frozen=True)
class Program:
    """One faulty kernel `k`. `fix` replaces text so that it becomes right; an empty one says it has no right form."""

    name: str
    body: str
    args: Sequence[Any]
    error: type[CheckedError]
    text: Sequence[str]
    fix: tuple[str, str] = ("", "")
    params: str = "device float* a [[buffer(0)]], device float* b [[buffer(1)]]"
    before: str = ""
    threads: int = 64
    group: int = 64
    shared: Sequence[int] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        builtins = (
            "uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]], "
            "uint n [[threads_per_threadgroup]], uint g [[threadgroup_position_in_grid]]"
        )
        return f"{HEAD}{self.before}\nkernel void k({self.params}, {builtins}) {{\n{self.body}\n}}\n"

    @property
    def fixed(self) -> str:
        assert self.fix[0] in self.source, self.name
        return self.source.replace(*self.fix)


def floats(count: int) -> Any:
    return np.arange(count, dtype=np.float32)


def zeros(count: int, kind: Any = np.float32) -> Any:
    return np.zeros(count, kind)


AB = (floats(64), zeros(64))
_STRUCT = "struct P { device float* data; };"
_ADDRESS = "constant P& p [[buffer(0)]], device float* b [[buffer(1)]]"
_SLOT_B = {"place.slot": 1, "place.name": "b"}

OUTSIDE = [
    Program("write past the end", "b[i + 1] = a[i];", AB, OutOfBounds,
            ["write of 4 bytes", "'b'", "byte offset 256", "(63, 0, 0)"], ("i + 1", "i"),
            fields={**_SLOT_B, "place.offset": 256, "place.length": 256, "access.thread": (63, 0, 0)}),
    Program("read past the end", "b[i] = a[i + 1];", AB, OutOfBounds, ["read of 4 bytes", "'a'", "byte offset 256"], ("i + 1", "i")),
    Program("write before the start", "b[int(i) - 1] = a[i];", AB, OutOfBounds,
            ["write of 4 bytes", "byte offset -4"], ("int(i) - 1", "i"), fields={"place.offset": -4}),
    Program("unsigned index below zero", "b[i] = a[i - 1];", AB, OutOfBounds, ["read of 4 bytes", "17179869180"], ("i - 1", "i")),
    Program("stride of two", "b[i] = a[2 * i];", AB, OutOfBounds, ["byte offset 256", "thread (32, 0, 0)"], ("2 * i", "i")),
    Program("more threads than elements", "b[i] = a[i];", (floats(60), zeros(64)), OutOfBounds,
            ["'a'", "240 bytes", "byte offset 240"], ("b[i]", "if (i < 60) b[i]")),
    Program("loop one too far", "float s = 0; for (uint j = 0; j <= 64; j++) s += a[j]; b[i] = s;", AB, OutOfBounds,
            ["'a'", "byte offset 256", "thread (0, 0, 0)"], ("j <= 64", "j < 64")),
    Program("last half", "b[i] = a[i + 1];", (zeros(64, np.float16), zeros(64, np.float16)), OutOfBounds,
            ["read of 2 bytes", "byte offset 128"], ("i + 1", "i"), params="device half* a [[buffer(0)]], device half* b [[buffer(1)]]"),
    Program("one byte", "b[i + 1] = a[i];", (zeros(64, np.uint8), zeros(64, np.uint8)), OutOfBounds,
            ["write of 1 bytes", "byte offset 64"], ("i + 1", "i"), params="device uchar* a [[buffer(0)]], device uchar* b [[buffer(1)]]"),
    Program("a vector over the edge", "b[i] = a[i].x + a[i].w;", (floats(62), zeros(64)), OutOfBounds,
            ["byte offset 2", "'a'"], ("b[i]", "if (i < 15) b[i]"), threads=16, group=16,
            params="device float4* a [[buffer(0)]], device float* b [[buffer(1)]]"),
    Program("a whole vector over the edge", "b[i] = a[i];", (floats(64), floats(62)), OutOfBounds,
            ["write of 16 bytes", "byte offset 240"], ("b[i]", "if (i < 15) b[i]"), threads=16, group=16,
            params="device float4* a [[buffer(0)]], device float4* b [[buffer(1)]]"),
    Program("a struct over the edge", "b[i] = a[i];", (floats(63), zeros(96)), OutOfBounds,
            ["read of 12 bytes", "'a'", "byte offset 252"], ("b[i]", "if (i < 21) b[i]"), threads=22, group=22,
            before="struct S { float x, y, z; };", params="device S* a [[buffer(0)]], device S* b [[buffer(1)]]"),
    Program("a member over the edge", "b[i] = a[i].values[3];", (zeros(62), zeros(64)), OutOfBounds,
            ["read of 4 bytes", "byte offset 252"], ("a[i].values[3]", "a[i].values[1]"), threads=16, group=16,
            before="struct S { float values[4]; };",
            params="device S* a [[buffer(0)]], device float* b [[buffer(1)]]"),
    Program("a packed vector", "b[i] = float3(a[i]).z;", (zeros(62), zeros(64)), OutOfBounds, ["'a'", "byte offset 24"],
            ("b[i]", "if (i < 20) b[i]"), threads=21, group=21,
            params="device packed_float3* a [[buffer(0)]], device float* b [[buffer(1)]]"),
    Program("atomic update past the end", "atomic_fetch_add_explicit(&a[i], 1u, memory_order_relaxed);", (zeros(60, np.uint32),), OutOfBounds,
            ["atomic update of 4 bytes", "byte offset 240"], ("&a[i]", "&a[i % 60]"), params="device atomic_uint* a [[buffer(0)]]"),
    Program("atomic load past the end", "b[i] = atomic_load_explicit(&a[i + 1], memory_order_relaxed);",
            (zeros(64, np.int32), zeros(64, np.int32)), OutOfBounds, ["atomic read of 4 bytes", "byte offset 256"], ("i + 1", "i"),
            params="device atomic_int* a [[buffer(0)]], device int* b [[buffer(1)]]"),
    Program("atomic maximum past the end", "atomic_fetch_max_explicit(&a[i], int(i), memory_order_relaxed);", (zeros(60, np.int32),), OutOfBounds,
            ["byte offset 240"], ("&a[i]", "&a[i % 60]"), params="device atomic_int* a [[buffer(0)]]"),
    Program("atomic float past the end", "atomic_fetch_add_explicit(&a[i], 1.0f, memory_order_relaxed);", (zeros(60),), OutOfBounds,
            ["byte offset 240"], ("&a[i]", "&a[i % 60]"), params="device atomic_float* a [[buffer(0)]]"),
    Program("rows and columns exchanged", "uint x = i % 4, y = i / 4; b[y * 16 + x] = a[i];", AB, OutOfBounds,
            ["'b'", "byte offset 256"], ("y * 16 + x", "y * 4 + x")),
    Program("a table of constants", "b[i] = lut[i];", (floats(16), zeros(64)), OutOfBounds, ["'lut'", "byte offset 64"],
            ("lut[i]", "lut[i % 16]"), params="constant float* lut [[buffer(0)]], device float* b [[buffer(1)]]"),
    Program("past the inline bytes", "b[i] = p[1] + p[0];", (np.float32(1), zeros(64)), OutOfBounds,
            ["inline bytes 'p'", "byte offset 4", "4 bytes"], ("p[1] +", ""), fields={"place.space": "inline bytes", "place.slot": 0},
            params="constant float* p [[buffer(0)]], device float* b [[buffer(1)]]"),
    Program("a member past the inline bytes", "b[i] = p->scale[i % 4];", (floats(3).tobytes(), zeros(64)), OutOfBounds,
            ["inline bytes 'p'", "byte offset 12"], ("i % 4", "i % 2"), before="struct P { uint n; float scale[4]; };",
            params="constant P* p [[buffer(0)]], device float* b [[buffer(1)]]"),
    Program("before a bound offset", "b[i] = a[int(i) - 1];", (Part(floats(96), 128), zeros(64)), OutOfBounds,
            ["'a'", "byte offset -4"], ("int(i) - 1", "i")),
    Program("past a bound offset", "b[i] = a[i];", (Part(floats(96), 192), zeros(64)), OutOfBounds,
            ["'a'", "192 bytes", "byte offset 192"], ("b[i] = a[i]", "if (i < 48) b[i] = a[i]")),
    Program("a buffer that nobody made resident", "b[i] = p.data[i];", (Address(floats(64), False), zeros(64)), OutOfBounds,
            ["read of 4 bytes"], params=_ADDRESS, before=_STRUCT),
    Program("past the end of a resident buffer", "b[i] = p.data[i + 1];", (Address(floats(64), True), zeros(64)), OutOfBounds,
            ["resident buffer", "byte offset 256"], ("i + 1", "i"),
            params=_ADDRESS, before=_STRUCT),
    Program("a null pointer", "b[i] = p.data[i];", (bytes(8), zeros(64)), OutOfBounds, ["null pointer"],
            ("= p.data[i]", "= p.data ? p.data[i] : 0"), params=_ADDRESS, before=_STRUCT),
    Program("a far address", "b[i + (ulong(1) << 44)] = 1;", AB, OutOfBounds, ["write of 4 bytes"], ("ulong(1) << 44", "0 * i")),
    Program("a write through const", "((device float*)a)[i] = b[i];", AB, OutOfBounds, ["write of 4 bytes", "'a'", "read-only"],
            ("((device float*)a)[i] = b[i]", "b[i] = a[i]"), params="const device float* a [[buffer(0)]], device float* b [[buffer(1)]]"),
]

_S = "threadgroup float s[64];\n"
_ARG = "device float* a [[buffer(0)]], device float* b [[buffer(1)]], threadgroup float* s [[threadgroup(0)]]"
_SYNC = "threadgroup_barrier(mem_flags::mem_threadgroup);"

THREADGROUP_OUTSIDE = [
    Program("past a threadgroup array", _S + "s[t + 1] = a[i]; b[i] = 0;", AB, OutOfBounds,
            ["outside threadgroup memory", "byte offset 256", "256 bytes"], ("t + 1", "t"), fields={"place.space": "threadgroup memory"}),
    Program("past a threadgroup argument", "s[t] = a[i]; b[i] = 0;", AB, OutOfBounds,
            ["threadgroup memory", "byte offset 128", "128 bytes"], ("s[t] = a[i]", "if (t < 32) s[t] = a[i]"),
            params=_ARG, shared=[128], fields={"place.name": "s"}),
    Program("before threadgroup memory", _S + "s[int(t) - 1] = a[i]; b[i] = 0;", AB, OutOfBounds,
            ["threadgroup memory", "byte offset -4"], ("int(t) - 1", "t")),
    Program("reading past a threadgroup array", _S + f"s[t] = a[i]; {_SYNC} b[i] = s[t + 1];", AB, OutOfBounds,
            ["read of 4 bytes", "byte offset 256"], ("t + 1", "63 - t")),
    Program("a threadgroup counter past the end", "atomic_fetch_add_explicit(&c[t], 1u, memory_order_relaxed); b[i] = a[i];", AB, OutOfBounds,
            ["atomic", "byte offset 64"], ("&c[t]", "&c[t % 16]"),
            params="device float* a [[buffer(0)]], device float* b [[buffer(1)]], threadgroup atomic_uint* c [[threadgroup(0)]]", shared=[64]),
]

_TG = ["data race", "threadgroup memory", "threadgroup_barrier(mem_flags::mem_threadgroup)"]

THREADGROUP_RACES = [
    Program("neighbour without a barrier", _S + "s[t] = a[i];\n/**/ b[i] = s[(t + 1) % 64];", AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("barrier without memory", _S + "s[t] = a[i]; threadgroup_barrier(mem_flags::mem_none); b[i] = s[63 - t];", AB, DataRace, _TG,
            ("mem_none", "mem_threadgroup")),
    Program("barrier for the other memory", _S + "s[t] = a[i]; threadgroup_barrier(mem_flags::mem_device); b[i] = s[63 - t];", AB, DataRace, _TG,
            ("mem_device", "mem_threadgroup")),
    Program("tree without inner barriers", _S + f"s[t] = a[i]; {_SYNC}\nfor (uint k = 32; k > 0; k /= 2) {{ if (t < k) s[t] += s[t + k]; /**/ }}\nb[i] = s[t];",
            AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("next round before all have read", _S + f"for (uint k = 0; k < 4; k++) {{ s[t] = a[i] + k; {_SYNC} b[i] += s[63 - t]; /**/ }}",
            AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("two writers", _S + "if (t == 3 || t == 40) s[7] = t; b[i] = a[i];", AB, DataRace, [*_TG, "byte 28"], (" || t == 40", "")),
    Program("everybody sets a flag", "threadgroup uint f; f = 1; b[i] = a[i];", AB, DataRace, _TG, ("f = 1", "if (t == 0) f = 1")),
    Program("one byte of four", "threadgroup uchar c[64]; c[t] = t; b[i] = c[t ^ 1];", AB, DataRace, _TG, ("t ^ 1", "t")),
    Program("simdgroup barrier across simdgroups", _S + "s[t] = a[i]; simdgroup_barrier(mem_flags::mem_threadgroup); b[i] = s[63 - t];",
            AB, DataRace, _TG, ("s[63 - t]", "s[t ^ 31]")),
    Program("plain read of a threadgroup atomic", "threadgroup atomic_uint c;\n"
            "if (t == 0) atomic_store_explicit(&c, 0, memory_order_relaxed);\n" + _SYNC + "if (t < 8) atomic_fetch_add_explicit(&c, 1, memory_order_relaxed);\n"
            "/**/ if (t > 8) b[i] = *(threadgroup uint*)&c;", AB, DataRace, [*_TG, "atomic"], ("/**/", _SYNC)),
    Program("the first of two readers", _S + "if (t == 1 || t == 2) b[i] = s[0]; if (t == 2) s[0] = 1;", AB, DataRace, _TG, ("t == 1 || ", "")),
    Program("the second of two readers", _S + "if (t == 1 || t == 2) b[i] = s[0]; if (t == 1 && a[i] < 0) s[1] = 0; if (t == 3 && a[i] > 0) s[0] = 1;",
            AB, DataRace, _TG, ("s[0] = 1", "s[3] = 1")),
    Program("everybody reads, one writes", _S + "b[i] = s[5]; if (t == 5) s[5] = 2;", AB, DataRace, _TG, ("if (t == 5)", _SYNC + " if (t == 5)")),
    Program("scan without a second barrier", _S + f"s[t] = a[i]; {_SYNC}\nfor (uint k = 1; k < 64; k *= 2) {{ float v = t >= k ? s[t - k] : 0; /**/ s[t] += v; {_SYNC} }}\n"
            "b[i] = s[t];", AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("a tile read sideways", "threadgroup float q[8][8]; uint x = t % 8, y = t / 8; q[y][x] = a[i]; /**/ b[i] = q[x][y];", AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("a vector beside a scalar", "threadgroup float4 v[16]; if (t < 16) v[t] = float4(a[t]); /**/ b[i] = ((threadgroup float*)v)[t];",
            AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("simdgroup sums without a barrier", "threadgroup float p[2]; float v = simd_sum(a[i]); if (t % 32 == 0) p[t / 32] = v; /**/ b[i] = p[0] + p[1];",
            AB, DataRace, _TG, ("/**/", _SYNC)),
    Program("a barrier in only one of two rounds", _S + f"s[t] = a[i]; {_SYNC} float v = s[63 - t]; if (g > 9) s[0] = 1; s[t] = v; b[i] = s[t];",
            AB, DataRace, _TG, ("if (g > 9)", _SYNC + " if (g > 9)")),
]

_DEVICE = ["data race", "'b'"]

DEVICE_RACES = [
    Program("neighbour in device memory", "b[i] = a[i]; /**/ a[i] = b[63 - t];", AB, DataRace,
            [*_DEVICE, "mem_device"], ("/**/", "threadgroup_barrier(mem_flags::mem_device);")),
    Program("barrier for threadgroup memory only", f"b[i] = a[i]; {_SYNC} a[i] = b[63 - t];", AB, DataRace, _DEVICE,
            ("mem_threadgroup", "mem_device")),
    Program("a plain counter", "b[0] += a[i];", AB, DataRace, [*_DEVICE, "byte 0"], ("b[0]", "b[i]")),
    Program("halves of one word", "b[i / 2] = a[i];", (zeros(64, np.float16), zeros(64, np.float16)), DataRace, _DEVICE, ("i / 2", "i"),
            params="device half* a [[buffer(0)]], device half* b [[buffer(1)]]"),
    Program("in place with a shift", "b[i] = b[(i + 1) % 64] + a[i];", AB, DataRace, _DEVICE, ("(i + 1) % 64", "i")),
    Program("plain store beside atomics", "atomic_fetch_add_explicit((device atomic_uint*)b, 1u, memory_order_relaxed); if (t == 9) b[0] = 0; a[i] = 0;",
            AB, DataRace, [*_DEVICE, "atomic"], ("b[0]", "b[1]")),
]

_GROUPS = ["data race", "'b'", "no order between threadgroups"]

GROUP_RACES = [
    Program("all groups write the same place", "b[t] = a[i];", (floats(256), zeros(256)), DataRace, _GROUPS, ("b[t]", "b[i]"), threads=256),
    Program("a histogram without atomics", "if (t == 0) b[g / 2] += a[i];", (floats(256), zeros(256)), DataRace, _GROUPS, ("g / 2", "g"), threads=256),
    Program("reading the next group's output", "b[i] = a[i]; a[i] = b[(i + 64) % 256];", (floats(256), zeros(256)), DataRace, _GROUPS,
            ("b[(i + 64) % 256]", "b[i]"), threads=256),
    Program("reversed in place", "float v = b[255 - i]; b[i] = v + a[i];", (floats(256), zeros(256)), DataRace, _GROUPS, ("b[255 - i]", "b[i]"), threads=256),
    Program("plain read of another group's atomic", "if (g == 0) atomic_fetch_add_explicit((device atomic_uint*)b, 1u, memory_order_relaxed); "
            "else a[i] = b[0];", (floats(256), zeros(256)), DataRace, [*_GROUPS, "atomic"], ("b[0]", "b[1]"), threads=256),
    Program("one byte shared by two groups", "if (t == 0) b[3] = g;", (zeros(64, np.uint8), zeros(64, np.uint8)), DataRace, _GROUPS, ("b[3]", "b[g]"),
            threads=128, params="device uchar* a [[buffer(0)]], device uchar* b [[buffer(1)]]"),
]

PROGRAMS = [*OUTSIDE, *THREADGROUP_OUTSIDE, *THREADGROUP_RACES, *DEVICE_RACES, *GROUP_RACES]
