"""Peak rates of a device, measured: bytes per second of a copy, operations per second of multiply-adds.

They are cached on disk with the compiled kernels for a week.
"""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import closing
from dataclasses import asdict
from weakref import WeakKeyDictionary

from .. import settings
from ..dtypes import DType
from ..encoder import CommandEncoder, DeviceContext
from ..errors import MlxError
from ..pipelines.pipeline import Pipeline
from ..softmetal.cache import Store, default_directory, digest
from . import observer
from .summary import Peaks

__all__ = ["kept_peaks", "measured_peaks"]

_SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void peak_copy(device const float4 *x, device float4 *y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }

// Eight chains of multiply-adds, so that none waits for the one before it.
kernel void peak_fma(device float *y, constant float &a, constant uint &n, uint i [[thread_position_in_grid]]) {
    float x = y[i], c0 = x, c1 = x + 1, c2 = x + 2, c3 = x + 3, c4 = x + 4, c5 = x + 5, c6 = x + 6, c7 = x + 7;
    for (uint step = 0; step < n; ++step) {
        c0 = fma(c0, a, x); c1 = fma(c1, a, x); c2 = fma(c2, a, x); c3 = fma(c3, a, x);
        c4 = fma(c4, a, x); c5 = fma(c5, a, x); c6 = fma(c6, a, x); c7 = fma(c7, a, x);
    }
    y[i] = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7;
}
"""
_COPIED = 64 << 20  # bytes, more than caches hold
_THREADS, _STEPS, _CHAINS = 1 << 17, 256, 8
_RUNS = 5
_WEEK_S = 7 * 86400.0

_known: WeakKeyDictionary[DeviceContext, Peaks] = WeakKeyDictionary()


def measured_peaks(device: DeviceContext) -> Peaks | None:
    """Cached, or measured at the first call; None while a profile is running or if measuring fails.

    For a closed device another one is opened on its backend, since scripts usually close theirs before reading a
    profile.
    """
    if device not in _known and not observer.watchers:
        try:
            if device.is_closed:
                with closing(type(device)(device.backend)) as again:
                    _known[device] = kept_peaks(again, _store())
            else:
                _known[device] = kept_peaks(device, _store())
        except (MlxError, RuntimeError):  # a device that is out of memory, an interpreter that is going down
            return None
    return _known.get(device)


def _store() -> Store:
    now = settings.current()
    return Store(now.kernel_cache or default_directory(), now.soft_cache_limit << 20)


def kept_peaks(device: DeviceContext, store: Store) -> Peaks:
    """The stored peaks of such a device, or newly measured and stored ones."""
    key = _key(device)
    try:
        known = json.loads(store.record(key) or b"{}")
        if 0 <= time.time() - known["at"] < _WEEK_S:
            return Peaks(float(known["bandwidth"]), float(known["flops"]), str(known["how"]))
    except (KeyError, TypeError, ValueError):  # nothing there, or nothing that was written here
        pass
    with settings.override(profile_cb=False, profile_dispatch=False):
        peaks = _measured(device)
    store.put_record(key, json.dumps({**asdict(peaks), "at": time.time()}).encode())
    return peaks


def _key(device: DeviceContext) -> str:
    """The cache key: the device, the system and the software device's settings."""
    now = settings.current()
    how = (now.soft_engine, now.soft_threads, now.soft_checked, now.soft_cpu, os.cpu_count())
    machine = (platform.platform(), platform.machine(), platform.node())
    return digest("peaks", _SOURCE, device.backend.kind, device.name, repr(machine), repr(how))


def _measured(device: DeviceContext) -> Peaks:
    library = device.kernels.library(_SOURCE, name="peaks")
    copy, fma = (device.kernels.get_pipeline(name, library=library) for name in ("peak_copy", "peak_fma"))
    elements = _COPIED // DType.F32.size
    x, y = device.empty(elements), device.empty(elements)
    x.fill(1.0)
    y.fill(0.0)
    copying = _best(device, copy, x, y, threads=elements // 4)
    adding = _best(device, fma, y, 0.5, _STEPS, threads=_THREADS)
    operations = 2 * _THREADS * _STEPS * _CHAINS
    return Peaks(2 * _COPIED / copying, operations / adding, str(device.submissions.provenance))


def _best(device: DeviceContext, pipeline: Pipeline, *args: object, threads: int) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(_RUNS):
        enc = CommandEncoder(device)
        enc.dispatch(pipeline, *args, threads=threads)
        start, end = enc.commit_wait_with_gpu_time("peaks")
        times.append(max(end - start, 1e-9))
    return min(times)
