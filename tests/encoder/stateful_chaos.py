"""Calls that are wrong, or may be: what each one has to be refused with, and values that nobody would mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from encoder.stateful_draws import Draw, either_of, one_of, several, together, whole
from mlx_native_py import MlxBuffer, MlxDevice
from mlx_native_py.encoder import CapturedOpKind, Out


@dataclass(frozen=True)
class Bench:
    """Where wrong calls are tried: a device, another one, kernels by name, a buffer nobody looks at."""

    device: MlxDevice
    other: MlxDevice
    kernels: dict[str, Any]
    scratch: MlxBuffer
    foreign: MlxBuffer


def _axpy(*arguments: Any, **more: Any) -> Callable[[Any, Bench], object]:
    shape = more or {"threads": 4}

    def call(enc: Any, at: Bench) -> object:
        return enc.dispatch(
            at.kernels["axpy"], *(at.scratch if each is MlxBuffer else each for each in arguments), **shape
        )

    return call


B = MlxBuffer
WRONG_DISPATCHES: dict[str, tuple[str, Callable[[Any, Bench], object]]] = {
    "too few": ("axpy.*3 arguments.*2 were given", _axpy(B, B)),
    "too many": ("axpy.*3 arguments.*4 were given", _axpy(B, B, 1, 1)),
    "a number for memory": ("axpy.*'y'", _axpy(B, 3, 1)),
    "bytes for memory": ("axpy.*'y'", _axpy(B, bytes(64), 1)),
    "negative": ("axpy.*'a'", _axpy(B, B, -1)),
    "too big": ("axpy.*'a'", _axpy(B, B, 1 << 32)),
    "a fraction": ("axpy.*'a'", _axpy(B, B, 0.5)),
    "a string": ("axpy.*'a'", _axpy(B, B, "1")),
    "an object": ("axpy.*'a'", _axpy(B, B, object())),
    "too short": ("axpy.*'a'", _axpy(B, B, b"12")),
    "an array": ("axpy.*'a'", _axpy(B, B, np.zeros(3, np.uint32))),
    "Out of an input": (
        "axpy.*Out",
        lambda enc, at: enc.dispatch(at.kernels["axpy"], Out(at.scratch), at.scratch, 1, threads=4),
    ),
    "no grid": ("axpy.*threads= or threadgroups=", _axpy(B, B, 1, group=4)),
    "two grids": ("axpy.*threads= or threadgroups=", _axpy(B, B, 1, threads=4, threadgroups=1)),
    "negative grid": ("axpy.*threads", _axpy(B, B, 1, threads=-4)),
    "broken grid": ("axpy.*threads", _axpy(B, B, 1, threads=4.5)),
    "four axes": ("axpy.*threads", _axpy(B, B, 1, threads=(1, 1, 1, 1))),
    "endless grid": ("axpy.*threads", _axpy(B, B, 1, threads=1 << 32)),
    "wordy grid": ("axpy.*threads", _axpy(B, B, 1, threads="4")),
    "zero group": ("axpy.*group", _axpy(B, B, 1, threads=4, group=0)),
    "large group": ("axpy.*1024", _axpy(B, B, 1, threads=4, group=2048)),
    "large groups": ("axpy.*1024", _axpy(B, B, 1, threads=4, group=(64, 64))),
    "memory nobody asked for": ("axpy.*threadgroup", _axpy(B, B, 1, threads=4, shared=16)),
    "no memory": ("total.*part", lambda enc, at: enc.dispatch(at.kernels["total"], at.scratch, at.scratch, threads=1)),
    "too much memory": (
        "total.*32768",
        lambda enc, at: enc.dispatch(at.kernels["total"], at.scratch, at.scratch, threads=1, shared=32769),
    ),
    "zero memory": (
        "total.*part",
        lambda enc, at: enc.dispatch(at.kernels["total"], at.scratch, at.scratch, threads=1, shared=0),
    ),
    "misaligned": ("wide.*multiple of 16", lambda enc, at: enc.dispatch(at.kernels["wide"], at.scratch[1:], threads=1)),
    "shorter than a value": (
        "wide.*16 bytes",
        lambda enc, at: enc.dispatch(at.kernels["wide"], at.scratch[0:3], threads=1),
    ),
    "another device's": (
        "axpy.*another device",
        lambda enc, at: enc.dispatch(at.kernels["axpy"], at.foreign, at.scratch, 1, threads=4),
    ),
    "no such slot": (
        "gap.*slot 1",
        lambda enc, at: enc.dispatch(at.kernels["gap"], at.scratch, 5, (1, 2, 3), threads=1),
    ),
    "two of three": (
        "gap.*uint3",
        lambda enc, at: enc.dispatch(at.kernels["gap"], at.scratch, None, (1, 2), threads=1),
    ),
    "larger than the kernel allows": (
        "narrow.*64",
        lambda enc, at: enc.dispatch(at.kernels["narrow"], at.scratch, threads=64, group=65),
    ),
    "no pipeline": ("[Pp]ipeline", lambda enc, at: enc.dispatch(None, at.scratch, threads=1)),
    "a name for a pipeline": ("[Pp]ipeline", lambda enc, at: enc.dispatch("axpy", at.scratch, threads=1)),
    "reads of a number": ("reads", _axpy(B, B, 1, threads=4, reads=5)),
    "writes of numbers": ("writes", _axpy(B, B, 1, threads=4, writes=[5])),
    "a kind that is none": ("[Kk]ind", _axpy(B, B, 1, threads=4, kind="Sdpa")),
    "replay of nothing": ("replay_dispatch", lambda enc, at: enc.replay_dispatch(None)),
    "a tag that is none": ("[Kk]ind", lambda enc, at: enc.set_op_kind("Sdpa")),
    "a label that is none": ("label", lambda enc, at: enc.commit(label=5)),
    "an empty label": ("label", lambda enc, at: enc.commit_and_wait(label="")),
}

WRONG_CALLS: dict[str, tuple[str, Callable[[Bench], object]]] = {
    "no bytes": ("byte_len", lambda at: at.device.alloc_buffer(0, "f32", 0)),
    "negative bytes": ("byte_len", lambda at: at.device.alloc_buffer(-4, "f32", 1)),
    "other shape": ("takes 32 bytes", lambda at: at.device.alloc_buffer(16, "f32", (2, 4))),
    "no dtype": ("dtype|type", lambda at: at.device.empty(4, "f33")),
    "too large": ("bytes", lambda at: at.device.empty(1 << 50, "u8")),
    "empty shape": ("shape|0", lambda at: at.device.empty((4, 0), "u8")),
    "past the end": ("end", lambda at: at.scratch.slice_view(0, at.scratch.size + 1)),
    "odd offset": ("byte_offset", lambda at: at.scratch.slice_view(2, 1)),
    "empty view": ("empty", lambda at: at.scratch[4:4]),
    "strides": ("step", lambda at: at.scratch[::-1]),
    "beyond": ("index", lambda at: at.scratch[at.scratch.size]),
    "stranger to a pool": ("pool", lambda at: at.device.buffer_pool().release(at.scratch)),
    "no copy of small memory": ("copy", lambda at: at.device.buffer(np.arange(5, dtype=np.uint32), copy=False)),
    "no kernel": ("nobody", lambda at: at.device.kernels.get_pipeline("nobody")),
    "no source": ("empty", lambda at: at.device.kernels.register_source("x", " ")),
    "not MSL": ("error", lambda at: at.device.kernels.library("kernel void f(")),
}

NONE = either_of([None])
ODD_NUMBERS = either_of([0, -1, 1, 3, 64, 1.0, 2.5, math.nan, math.inf, True, None, "4", b"4", 1 << 32, 1 << 70, 10**6])
ODD_LIST = several(ODD_NUMBERS, 0, 4)
ODD_SIZES = one_of(ODD_NUMBERS, ODD_LIST, lambda random: tuple(ODD_LIST(random)))
SMALL = one_of(NONE, whole(1, 64), together(whole(1, 8), whole(1, 8)))
ODD_SHAPE: dict[str, Draw] = {
    "threads": one_of(SMALL, SMALL, ODD_SIZES),
    "threadgroups": one_of(SMALL, ODD_SIZES),
    "group": one_of(SMALL, SMALL, ODD_SIZES),
    "shared": one_of(either_of([()]), either_of([4096]), ODD_SIZES),
}
ODD_VALUES = one_of(
    ODD_NUMBERS,
    lambda random: random.randbytes(random.randint(0, 24)),
    either_of([bytearray(8), np.uint32(7), np.float32(1.5), np.zeros(4, np.uint32)]),
    either_of([[1, 2, 3], (1, 2, 3), [], object(), CapturedOpKind.Sdpa, np.zeros((), np.uint32), 1j, np.nan]),
    either_of(["scratch", "part", "out", "foreign", "inline", "long"]),
)


def chosen(value: Any, at: Bench) -> Any:
    """An odd value, or the buffer that its name stands for."""
    if isinstance(value, str):
        places = {"scratch": at.scratch, "part": at.scratch[4:1000], "out": Out(at.scratch), "foreign": at.foreign}
        return {**places, "inline": bytes(4096), "long": bytes(4100)}.get(value, value)
    return value


def volume(value: Any, unless: int = 1) -> int:
    """How many threads or groups a size asks for, as far as it makes sense."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    try:
        return max(1, math.prod(int(part) for part in parts))
    except (TypeError, ValueError, OverflowError):
        return unless
