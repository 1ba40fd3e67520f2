"""Run with memory_faults.c loaded first: work while malloc, mmap, mprotect or pthread_create fails, and after it."""

from __future__ import annotations

import ctypes
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from test_faults import NOTHING_LEFT, Bench, settled

from mlx_native_py import MlxDevice, MlxError

KINDS = ("malloc", "mmap", "mprotect", "pthread_create")
# Where not even an encoder could be ended for lack of memory, its buffers go when 64 others have come.
MORE = 12
_faults = ctypes.CDLL(None)


def asking(bench: Bench, kind: int) -> list[bytes]:
    """Work that makes such calls: only a new device starts a thread."""
    if KINDS[kind] != "pthread_create":
        return bench.work("kept")
    with MlxDevice("soft") as device:
        return Bench(device, bench.file.parent).work("kept")


def attempts(bench: Bench, kind: int, lasting: bool, most: int) -> tuple[int, int]:
    """How many calls were made to fail, and how often an exception told of it."""
    right = bench.work("kept")
    settled(bench)
    _faults.faults_set(kind, 0, 0)
    asking(bench, kind)
    chances = _faults.faults_seen(kind)
    tried = raised = 0
    for nth in range(1, chances + 1, max(1, chances // most)):
        print(f"{KINDS[kind]} {nth} of {chances}{' and all behind' * lasting}", flush=True)
        try:
            _faults.faults_set(kind, nth, lasting)
            found = asking(bench, kind)
        except Exception:  # Python and numpy have several for it: MemoryError, RuntimeError, SystemError
            raised += 1
        else:
            assert found == right
        finally:
            _faults.faults_set(kind, 0, 0)
        tried += 1
        with suppress(MlxError):  # of work that was committed, and whose wait was cut off
            bench.device.submissions.wait_all()
        for _ in range(MORE):
            assert bench.work("kept") == right
            if bench.state() == NOTHING_LEFT:
                break
        settled(bench)
    return tried, raised


def main(most: int) -> None:
    with tempfile.TemporaryDirectory() as folder, MlxDevice("soft") as device:
        bench = Bench(device, Path(folder))
        for _ in range(3):
            bench.work("kept")
        for kind in range(len(KINDS)):
            for lasting in (False, True):
                tried, raised = attempts(bench, kind, lasting, most)
                print("=", KINDS[kind], tried, raised, flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
