"""Shared memory between a process and its helper: struct soft_channel of runtime/isolate.h, as ctypes."""

from __future__ import annotations

import ctypes

from ..engines.abi import Fault, SoftLaunch

RUN, CALL, IMPORT, IMPORT_DATA = range(4)
GONE, OVERDUE = 256, 257  # beside the faults of kernels
LAUNCHES = 512
CHANGES = 512
LOG_BYTES = 1 << 20
_LINE = 64


class PageChange(ctypes.Structure):
    """struct soft_change: pages for the helper to map or unmap."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("address", "length", "offset", "is_open")]


class Channel(ctypes.Structure):
    """struct soft_channel: one request at a time, and its reply."""

    _fields_ = [
        ("request", ctypes.c_uint32),
        ("holder", ctypes.c_uint32),
        ("_line_1", ctypes.c_char * (_LINE - 8)),
        ("answer", ctypes.c_uint32),
        ("helper_core", ctypes.c_uint32),
        ("_line_2", ctypes.c_char * (_LINE - 8)),
        ("kind", ctypes.c_uint32),
        ("changed", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("nanoseconds", ctypes.c_uint64),
        ("function", ctypes.c_uint64),
        ("result", ctypes.c_uint64),
        ("log_size", ctypes.c_uint64),
        ("log_lost", ctypes.c_uint64),
        ("fault", Fault),
        ("changes", PageChange * CHANGES),
        ("times", ctypes.c_uint64 * (2 * LAUNCHES)),
        ("launches", SoftLaunch * LAUNCHES),
        ("log", ctypes.c_char * LOG_BYTES),
    ]


CHANNEL_BYTES = -(-ctypes.sizeof(Channel) // _LINE) * _LINE
