"""The C ABI of include/soft_abi.h, as ctypes."""

from __future__ import annotations

import ctypes

from ..toolchain import ENGINE_NUMBERS

SLOTS = 31
WIDTH = 32
FLAT, FIBERS, LANES = (ENGINE_NUMBERS[engine] for engine in ("flat", "fibers", "lanes"))
MAX_THREADS = 1024
MAX_THREADGROUP_BYTES = 32768
MAX_STACK_BYTES = 1 << 31  # of the variables of a thread, or of the lanes that run as one
THREADGROUP_ZONE, THREADGROUP_ZONES = 128 * 2816, 256  # checked: bytes from one variable to the next

FAULTS = {
    1: "division by zero",
    2: "bad address",
    3: "stack overflow",
    4: "timeout",
    5: "illegal instruction",
    6: "out of memory",
    7: "checked",
}

ACCESSES = {1: "read", 2: "write"}
"""What a bad address was for, where the processor says it."""


class SoftLaunch(ctypes.Structure):
    """struct soft_launch: one dispatch."""

    _fields_ = [
        ("buffers", ctypes.c_void_p * SLOTS),
        ("lengths", ctypes.c_uint64 * SLOTS),
        ("tg_offsets", ctypes.c_uint32 * SLOTS),
        ("tg_bytes", ctypes.c_uint32),
        ("threads", ctypes.c_uint32 * 3),
        ("groups", ctypes.c_uint32 * 3),
        ("group", ctypes.c_uint32 * 3),
        ("engine", ctypes.c_uint32),
        ("stack_bytes", ctypes.c_uint32),
        ("entry", ctypes.c_void_p),
        ("edge_entry", ctypes.c_void_p),
        ("edge_engine", ctypes.c_uint32),
        ("group_step", ctypes.c_uint32),
        ("group_start", ctypes.c_uint32),
        ("check", ctypes.c_void_p),
    ]


class SoftArgument(ctypes.Structure):
    """struct soft_argument: one bindable argument according to the compiler."""

    _fields_ = [
        ("index", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("data_type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("alignment", ctypes.c_uint32),
        ("is_pointer", ctypes.c_uint32),
    ]


class ThreadgroupPlace(ctypes.Structure):
    """struct soft_tg_place: what stands in for a threadgroup variable in checked mode."""

    _fields_ = [("bytes", ctypes.c_uint32), ("alignment", ctypes.c_uint32), ("name", ctypes.c_char * 120)]


class Fault(ctypes.Structure):
    """struct soft_fault: why a run was aborted."""

    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("launch", ctypes.c_uint32),
        ("group", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("thread_known", ctypes.c_uint32),
        ("access", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
    ]
