"""ctypes mirror of `include/soft_check.h`."""

from __future__ import annotations

import ctypes
from ctypes import c_uint32 as u32
from ctypes import c_uint64 as u64

READ, WRITE, ATOMIC = 1, 2, 4
DEVICE, THREADGROUP, PRIVATE = 0, 1, 2
OUT_OF_BOUNDS, RACE_IN_GROUP, RACE_BETWEEN_GROUPS, OUTSIDE_ARRAY = 1, 2, 3, 4
UNINITIALISED, MISALIGNED, DIVERGENT = 5, 6, 7
AT_ANOTHER, ENDED = 0, 1
USE_BRANCH, USE_ADDRESS, USE_STORE, USE_READ, USE_CALL, USE_RESULT = 0, 1, 2, 3, 4, 5
ZONES, ZONE_SHIFT = 512, 37
BLOCK = 1024
WIDEST = 16  # bytes of an access that has a callback


class SoftSegment(ctypes.Structure):
    _fields_ = [("start", u64), ("end", u64), ("access", u32), ("area", u32)]


class ArgumentZone(ctypes.Structure):
    _fields_ = [
        ("start", u64),
        ("length", u64),
        ("delta", u64),
        ("seen", u64),
        ("seen_words", u64),
        ("ready", u64),
        ("ready_words", u64),
        ("access", u32),
        ("argument", u32),
    ]


class Area(ctypes.Structure):
    _fields_ = [
        ("start", u64),
        ("end", u64),
        ("reads", u64),
        ("writes", u64),
        ("atomic_reads", u64),
        ("atomic_writes", u64),
        ("reader", u64),
        ("writer", u64),
        ("reader_site", u64),
        ("writer_site", u64),
        ("fresh", u64),
        ("blocks", u64),
    ]


class Report(ctypes.Structure):
    _fields_ = [
        ("kind", u32),
        ("space", u32),
        ("access", u32),
        ("other_access", u32),
        ("address", u64),
        ("bytes", u64),
        ("site", u64),
        ("other_site", u64),
        ("group", u32 * 3),
        ("thread", u32 * 3),
        ("other_group", u32 * 3),
        ("other_thread", u32 * 3),
        ("other_known", u32),
        ("argument", u32),
        ("array", u64),
        ("index", u64),
    ]


class Check(ctypes.Structure):
    _fields_ = [
        ("segments", ctypes.POINTER(SoftSegment)),
        ("areas", ctypes.POINTER(Area)),
        ("reports", ctypes.POINTER(Report)),
        ("segment_count", u32),
        ("area_count", u32),
        ("report_capacity", u32),
        ("report_count", u32),
        ("reports_total", u64),
        ("serial", u64),
        ("zones", ctypes.POINTER(ArgumentZone)),
        ("zones_start", u64),
        ("tg_bytes", ctypes.POINTER(u32)),
        ("tg_count", u32),
        ("lock", u32),
    ]


STRUCTURES = {
    "soft_segment": SoftSegment,
    "soft_argument_zone": ArgumentZone,
    "soft_area": Area,
    "soft_report": Report,
    "soft_check": Check,
}
