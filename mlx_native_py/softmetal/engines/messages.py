"""Messages that kernels write by `os_log`, forwarded to Python's logging after their command buffer."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Iterator

ROOM = 1 << 20
"""Bytes that the runtime keeps of messages that nobody has taken yet."""

_LOG = logging.getLogger("mlx_native_py.os_log")
# What `log` writes is shown on a Mac unless somebody turns it off, as warnings are in Python.
_LEVELS = {
    "": logging.WARNING,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "error": logging.ERROR,
    "fault": logging.CRITICAL,
}


class Messages:
    """The runtime's messages; `pending.value` is 0 if there are none."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.pending = ctypes.c_uint32.in_dll(library, "soft_log_pending")
        self._take = library.soft_log_take
        self._take.restype = ctypes.c_uint64
        self._take.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._lock = threading.RLock()
        self._room = ctypes.create_string_buffer(ROOM)

    def deliver(self) -> None:
        """Logs everything that kernels have written, in the order in which it came."""
        lost = ctypes.c_uint64()
        with self._lock:
            size = self._take(self._room, ctypes.byref(lost))
            data = self._room.raw[:size]
        hand_on(data, lost.value)


def hand_on(data: bytes, lost: int) -> None:
    """Logs messages as the runtime keeps them, and how many there was no room for."""
    for level, subsystem, category, text in _messages(data):
        origin = f"[{subsystem}:{category}] " if subsystem or category else ""
        extra = {"subsystem": subsystem, "category": category}
        _LOG.log(_LEVELS.get(level, logging.WARNING), "%s%s", origin, text, extra=extra)
    if lost:
        _LOG.warning("%d more messages of kernels were lost: %d bytes are kept at a time", lost, ROOM)


def _messages(data: bytes) -> Iterator[tuple[str, str, str, str]]:
    parts = [part.decode(errors="replace") for part in data.split(b"\0")[:-1]]
    for first in range(0, len(parts) - 3, 4):
        level, subsystem, category, text = parts[first : first + 4]
        yield level, subsystem, category, text
