"""The helper program: maps shared memory, enters the sandbox, then serves requests.

It runs in a new interpreter without the package, so that its memory contains nothing worth reading.
"""

import ctypes
import json
import mmap
import os
import resource
import sys

_ALL_ACCESS = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # and no memory promised
_FIXED, _FIXED_NOREPLACE = 0x10, 0x100000


def _map(start: int, size: int, access: int, flags: int, file: int = -1) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address: int | None = libc.mmap(start, size, access, flags, file, 0)
    if address == ctypes.c_void_p(-1).value or (start and address != start):
        sys.exit(f"a helper cannot map {size} bytes at {start:#x}: {os.strerror(ctypes.get_errno())}")
    return address or 0


def _limit(memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def main() -> None:
    """Never returns."""
    given = json.loads(sys.argv[1])
    _limit(given["memory"])
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    runtime = ctypes.CDLL(given["runtime"], mode=ctypes.RTLD_GLOBAL)
    _map(given["start"], given["size"], 0, _RESERVED | _FIXED_NOREPLACE)
    _map(given["imports"], given["import_bytes"], _ALL_ACCESS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _FIXED)
    readable = mmap.PROT_READ | mmap.PROT_EXEC
    _map(given["code"], given["code_bytes"], readable, mmap.MAP_SHARED | _FIXED, given["code_file"])
    channel = _map(0, given["channel_bytes"], mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, given["channel"])
    os.close(given["code_file"])
    os.close(given["channel"])
    if error := runtime.soft_close_process():
        sys.exit(f"seccomp is not available: {os.strerror(error)}")
    runtime.soft_serve(ctypes.c_void_p(channel), given["lifeline"], given["file"])


if __name__ == "__main__":
    main()
