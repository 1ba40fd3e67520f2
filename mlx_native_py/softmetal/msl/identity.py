"""A digest of everything that compiled kernels depend on besides their source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..cache import Store, digest
from ..toolchain import INCLUDE, RUNTIME_SOURCES, Toolchain, processor

_FRONT_END = Path(__file__).parent
_PACKAGE = _FRONT_END.parent
_COMPILER = (_PACKAGE / "toolchain.py", _PACKAGE / "system.py")
_READER = _PACKAGE / "engines" / "lanes" / "ir"  # by which padding.py reads what it changes


def identity(store: Store, toolchain: Toolchain) -> str:
    """Changes with the compiler, the processor, the headers, the runtime and the front end.

    The files are read only when their dates say that they may have changed; the store remembers the answer.
    """
    states = [f"{path} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}" for path, s in _files()]
    key = digest("identity", toolchain.version, *toolchain.compiler, toolchain.cpu, processor(), *states)
    known = store.record(key)
    if known is not None:
        own, fingerprint = known.decode().split()
        # The same answer, which would otherwise be worked out from all files again.
        vars(toolchain)["fingerprint"] = own
        return fingerprint
    sources = [path for folder in (_FRONT_END, _READER) for path in sorted(folder.glob("*.py"))]
    fingerprint = digest(toolchain.fingerprint, *(path.read_bytes() for path in sources))
    store.put_record(key, f"{toolchain.fingerprint} {fingerprint}".encode())
    return fingerprint


def _files() -> Iterator[tuple[str, os.stat_result]]:
    for path in _COMPILER:
        yield str(path), path.stat()
    for folder in (INCLUDE, RUNTIME_SOURCES, _FRONT_END, _READER):
        yield from _inside(folder)


def _inside(folder: Path | str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _inside(entry.path)
        else:
            yield entry.path, entry.stat()
