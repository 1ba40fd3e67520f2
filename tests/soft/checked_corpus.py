"""Faults by the table: kinds of memory, types and distances, each with the report that it must bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlx_native_py import MlxDevice, ops
from mlx_native_py.softmetal import checked as found

COUNT, GROUP, THREAD = 64, 64, (3, 0, 0)
TYPES = {"uchar": 1, "half": 2, "float": 4, "uint2": 8, "ulong": 8, "float4": 16}
PAGE = 4096


def _kernels(name: str) -> str:
    return f"""
kernel void load_{name}(device const {name} *a, device {name} *b, constant long &k, ARGS) {{
  if (i == 3)
    b[i] = a[k];
}}
kernel void store_{name}(device {name} *a, device const {name} *b, constant long &k, ARGS) {{
  if (i == 3)
    a[k] = b[i];
}}
kernel void table_{name}(constant {name} *a, device {name} *b, constant long &k, ARGS) {{
  if (i == 3)
    b[i] = a[k];
}}
kernel void shared_{name}(device const {name} *b, device {name} *o, constant long &k, threadgroup {name} *a, ARGS) {{
  a[t] = b[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 3)
    o[i] = a[k];
}}
kernel void unwritten_{name}(device const {name} *b, device {name} *o, constant long &k, threadgroup {name} *a, ARGS) {{
  if (t < 8) a[t] = b[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 3)
    o[i] = a[k];
}}
kernel void variable_{name}(device const {name} *b, device {name} *o, constant long &k, ARGS) {{
  {name} v;
  if (i != 3) v = b[i];
  o[i] = v;
}}
kernel void element_{name}(device const {name} *b, device {name} *o, constant long &k, ARGS) {{
  {name} v[64];
  for (long j = 0; j < k; j++) v[j] = b[j];
  if (i == 3)
    o[i] = v[k];
}}
kernel void late_{name}(device const {name} *b, device {name} *o, threadgroup {name} *a, ARGS) {{
  a[t] = b[t];
  o[i] = a[63 - t];
}}
kernel void twice_{name}(device const {name} *b, device {name} *o, threadgroup {name} *a, ARGS) {{
  a[t / 2] = b[t];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  o[i] = a[t / 2];
}}
kernel void groups_{name}(device const {name} *b, device {name} *o, ARGS) {{
  o[t] = b[t];
}}
"""


_DIVERGENT = {
    "two branches": "if (t < 32) { SYNC } else { SYNC }",
    "a branch and what follows": "if (t < 32) SYNC SYNC",
    "within a simdgroup": "if (t % 2) { SYNC } else { SYNC }",
    "rounds by thread": "for (uint n = 0; n < t % 3; n++) { SYNC } SYNC",
    "rounds by simdgroup": "for (uint n = 0; n < t / 32; n++) { SYNC } SYNC",
    "one thread": "if (t == 63) { SYNC } SYNC",
    "a switch": "switch (t % 3) { case 0: SYNC break; case 1: SYNC break; default: SYNC }",
    "left early": "for (uint n = 0; n < 4; n++) { if (n == t % 4) break; SYNC } SYNC",
    "while data says so": "while (o[t] < b[t]) { o[t] += 4; SYNC } SYNC",
    "nested": "if (t < 32) { if (t < 16) { SYNC } else { SYNC } } else { SYNC }",
}
_ATOMICS = ("atomic_uint", "atomic_int", "atomic_float")


def source() -> str:
    """All kernels; each is compiled when it is asked for."""
    head = (
        "#include <metal_stdlib>\nusing namespace metal;\n"
        "#define ARGS uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]\n"
        "#define SYNC threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    )
    divergent = "".join(
        f"kernel void divergent_{n}(device const float *b, device float *o, ARGS) {{ o[i] = 0; {body} o[i] = 1; }}\n"
        for n, body in enumerate(_DIVERGENT.values())
    )
    atomics = "".join(
        f"kernel void {name}_add(device {name} *a, device float *b, ARGS) {{\n  if (i == 3)\n"
        "    atomic_fetch_add_explicit(a + i, 1, memory_order_relaxed);\n}\n"
        for name in _ATOMICS
    )
    return head + "".join(map(_kernels, TYPES)) + divergent + atomics


@dataclass(frozen=True)
class Fault:
    """A kernel, its arguments, and the report: class, fields, and in `line` part of the source line that it shows."""

    name: str
    kernel: str
    arguments: Callable[[MlxDevice], list[Any]]
    error: type[found.CheckedError]
    fields: dict[str, Any]
    line: str = "a[k]"
    shared: int = 0
    threads: int = COUNT
    short: bool = False  # whether it is among those of a normal run


def _data(device: MlxDevice, nbytes: int) -> Any:
    return device.buffer((np.arange(nbytes) % 7).astype(np.uint8))


def _indexed(
    size: int, k: int, make: Callable[[MlxDevice, int], Any] | None = None
) -> Callable[[MlxDevice], list[Any]]:
    """Two buffers, the first made in some way, and an index."""

    def arguments(device: MlxDevice) -> list[Any]:
        first = make(device, size) if make else _data(device, COUNT * size)
        return [first, _data(device, COUNT * size), np.int64(k)]

    return arguments


def _apart(device: MlxDevice, size: int) -> tuple[list[Any], int]:
    """Two buffers, and the distance from the first to the second in elements."""
    one, two = _data(device, COUNT * size), _data(device, COUNT * size)
    return [one, two], (two.allocation.address - one.allocation.address) // size


def _outside() -> Iterator[Fault]:
    distances = {"one past": COUNT, "one before": -1, "a far one": 1 << 30, "a far one before": -(1 << 30)}
    for kind, size in TYPES.items():
        pages = {"a page past": COUNT + PAGE // size, "a page before": -(PAGE // size)}
        for where, k in {**distances, **pages}.items():
            for verb in ("load", "store"):
                yield _bound(f"{verb} of {kind}, {where}", f"{verb}_{kind}", size, k)
            if where in distances:
                yield _bound(f"constant {kind}, {where}", f"table_{kind}", size, k, table=True)
        for verb in ("load", "store"):
            yield _neighbour(verb, kind, size)
            for where, k in (("past a view", 16), ("before a view", -1)):
                yield _view(f"{verb} of {kind}, {where}", f"{verb}_{kind}", size, k)
        for where, k in (("past", COUNT), ("before", -1), ("far from", 1 << 18)):
            fields = {"place.space": "threadgroup memory", "place.offset": k * size, "access.thread": THREAD}
            yield Fault(
                f"{kind}, {where} threadgroup memory",
                f"shared_{kind}",
                _indexed(size, k),
                found.OutOfBounds,
                fields,
                shared=COUNT * size,
                short=kind == "float",
            )


def _fields(size: int, k: int, length: int, space: str = "buffer") -> dict[str, Any]:
    return {
        "place.name": "a",
        "place.slot": 0,
        "place.space": space,
        "place.offset": k * size,
        "place.length": length,
        "access.bytes": size,
        "access.thread": THREAD,
        "access.group": (0, 0, 0),
    }


def _bound(name: str, kernel: str, size: int, k: int, *, table: bool = False) -> Fault:
    def arguments(device: MlxDevice) -> list[Any]:
        first = bytes(COUNT * size) if table else _data(device, COUNT * size)
        return [first, _data(device, COUNT * size), np.int64(k)]

    fields = _fields(size, k, COUNT * size, "inline bytes" if table else "buffer")
    return Fault(name, kernel, arguments, found.OutOfBounds, fields, short="float," in name and k == COUNT)


def _neighbour(verb: str, kind: str, size: int) -> Fault:
    """An index of one buffer that lands in the middle of another one that is bound, too."""

    def arguments(device: MlxDevice) -> list[Any]:
        buffers, k = _apart(device, size)
        return [*buffers, np.int64(k + 5)]

    fields = {"place.name": "a", "place.slot": 0, "access.thread": THREAD}
    name = f"{verb} of {kind}, into another argument"
    return Fault(name, f"{verb}_{kind}", arguments, found.OutOfBounds, fields, short=kind == "float")


def _view(name: str, kernel: str, size: int, k: int) -> Fault:
    """Outside of a view, but inside of its allocation."""

    def arguments(device: MlxDevice) -> list[Any]:
        whole = _data(device, COUNT * size)
        return [whole[16 * size : 32 * size], _data(device, COUNT * size), np.int64(k)]

    return Fault(name, kernel, arguments, found.OutOfBounds, _fields(size, k, 16 * size), short="float," in name)


def _unwritten() -> Iterator[Fault]:
    def fresh(device: MlxDevice, size: int) -> Any:
        return device.empty(COUNT * size, "u8")

    def pooled(device: MlxDevice, size: int) -> Any:
        pool = device.buffer_pool()
        pool.release(pool.alloc(PAGE, "u8", PAGE))
        return pool.alloc(PAGE, "u8", PAGE)

    def half_written(device: MlxDevice, size: int) -> Any:
        buffer = device.empty(COUNT * size, "u8")
        buffer.numpy()[: COUNT * size // 2] = 1
        return buffer

    def written_before(device: MlxDevice, size: int) -> Any:
        """By a dispatch that fills the first half."""
        buffer = device.empty(COUNT * size, "u8")
        with device.command_encoder() as enc:
            ops.fill(enc, buffer[: COUNT * size // 2], 1)
        return buffer

    makers = {"fresh": fresh, "from a pool": pooled, "half written": half_written, "filled by a kernel": written_before}
    for kind, size in TYPES.items():
        for what, make in makers.items():
            yield Fault(
                f"{kind} of a buffer, {what}",
                f"load_{kind}",
                _indexed(size, 40, make),
                found.UninitialisedRead,
                {"place.name": "a", "place.offset": 40 * size, "access.thread": THREAD, "access.bytes": size},
                short=kind == "float",
            )
        for k in (8, 40, 63):
            yield Fault(
                f"{kind} of threadgroup memory, {k}",
                f"unwritten_{kind}",
                _indexed(size, k),
                found.UninitialisedRead,
                {"place.space": "threadgroup memory", "place.offset": k * size, "access.thread": THREAD},
                shared=COUNT * size,
                short=kind == "float" and k == 8,
            )
        yield from _private(kind, size)
    for name in _ATOMICS:
        yield Fault(
            f"{name} of a fresh buffer",
            f"{name}_add",
            lambda device: [device.empty(COUNT), _data(device, 4 * COUNT)],
            found.UninitialisedRead,
            {"place.name": "a", "place.offset": 12, "access.bytes": 4, "access.thread": THREAD},
            line="atomic_fetch_add_explicit",
        )


def _private(kind: str, size: int) -> Iterator[Fault]:
    for what in ("variable", "element"):
        yield Fault(
            f"{kind}, private {what}",
            f"{what}_{kind}",
            _indexed(size, 40),
            found.UninitialisedRead,
            {"place.space": "private memory", "place.name": "v", "access.thread": THREAD},
            line="o[i] = v",
            short=kind == "float",
        )


def _races() -> Iterator[Fault]:
    def two(size: int) -> Callable[[MlxDevice], list[Any]]:
        return lambda device: [_data(device, COUNT * size), _data(device, COUNT * size)]

    for kind, size in TYPES.items():
        shared, short = COUNT * size, kind == "float"
        space = {"place.space": "threadgroup memory", "access.group": (0, 0, 0)}
        yield Fault(
            f"{kind}, read too early", f"late_{kind}", two(size), found.DataRace, space, "a[", shared, short=short
        )
        yield Fault(
            f"{kind}, written twice",
            f"twice_{kind}",
            two(size),
            found.DataRace,
            space,
            "a[t / 2] =",
            shared,
            short=short,
        )
        fields = {"place.name": "o", "place.offset": 0, "access.kind": "write", "other.kind": "write"}
        yield Fault(
            f"{kind}, by two groups", f"groups_{kind}", two(size), found.DataRace, fields, "o[t]", 0, 2 * COUNT, short
        )


def _divergence() -> Iterator[Fault]:
    for number, name in enumerate(_DIVERGENT):
        yield Fault(
            name,
            f"divergent_{number}",
            lambda device: [device.buffer(np.arange(COUNT, dtype=np.float32)), device.zeros(COUNT)],
            found.DivergentBarrier,
            {"group": (0, 0, 0)},
            line="SYNC",
            short=number == 0,
        )


CORPUS = {
    "outside": list(_outside()),
    "unwritten": list(_unwritten()),
    "races": list(_races()),
    "divergence": list(_divergence()),
}
