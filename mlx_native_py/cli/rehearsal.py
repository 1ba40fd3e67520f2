"""`mlx-native doctor --mac`: checks every library, pipeline, op and capability of a device, and writes a report."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from .. import settings
from ..device import MlxDevice
from ..errors import MlxError
from ..pipelines.function_constants import Constants
from ..pipelines.pipeline import Pipeline
from ..pipelines.registry import KernelLibrary
from ..pipelines.sources import kernel_families
from ..profiling import kernel_profile
from ..settings import BackendName
from .finding import Finding, changed_settings

__all__ = ["TABLE", "rehearse", "write_report"]

TABLE = Path(__file__).parents[2] / "tests"
"""The folder of the conformance table in a checkout; it is not in the wheel."""

_PACKAGES = ("mlx_native_py", "numpy", "pyobjc-core", "pyobjc-framework-Cocoa", "pyobjc-framework-Metal")
_DISPATCHES = 1000
_DROPPED = 16 << 20
_USUAL_THREADS = 1024
_FAILURES = (MlxError, ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError)
_COUNT = """
kernel void count(device uint *x [[buffer(0)]], constant uint &by [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { x[i] += by; }
"""

Look = Callable[[MlxDevice], tuple[str, Any]]
"""A check: a short result, and details for the report."""


def rehearse(
    device: BackendName | None = None, *, table: Path = TABLE, families: Sequence[str] = ()
) -> Iterator[Finding]:
    """Runs all checks; failures are findings and do not stop it. `families` limits the kernels."""
    yield Finding("versions", True, _versions(), facts={name: _version(name) for name in _PACKAGES})
    yield Finding("settings", True, changed_settings(), facts=asdict(settings.current()))
    with MlxDevice(device) as opened:
        able = opened.capabilities
        newest = ".".join(map(str, able.language_version))
        yield Finding("device", True, f"{able.name}, MSL up to {newest}", facts=opened.info())
        for subject, look in _ABILITIES.items():
            yield _finding(subject, partial(look, opened))
        special: dict[str, list[str]] = {}
        for family in families or kernel_families():
            yield from _family(opened, family, special)
        yield from _ops(opened, table)
        for family, names in special.items():
            yield from _specialised(opened, family, names)


def write_report(findings: Iterable[Finding], path: Path) -> None:
    """Writes all findings as JSON, to attach to a bug report."""
    told = [asdict(finding) for finding in findings]
    good = all(finding["good"] is not False for finding in told)
    path.write_text(json.dumps({"findings": told, "good": good}, indent=1, default=str))


def _finding(subject: str, look: Callable[[], tuple[str, Any]]) -> Finding:
    begin = time.perf_counter()
    try:
        detail, facts = look()
    except _FAILURES as error:
        text = f"{type(error).__name__}: {error}"
        return Finding(subject, False, text.partition("\n")[0], "attach the report to a bug report", {"error": text})
    return Finding(subject, True, detail, facts={"seconds": time.perf_counter() - begin, "found": facts})


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> str:
    system = f"macOS {platform.mac_ver()[0]}" if platform.system() == "Darwin" else platform.platform()
    bridge = _version("pyobjc-framework-Metal")
    return f"Python {platform.python_version()}, {system}" + (f", PyObjC's Metal {bridge}" if bridge else "")


# Device capabilities


def _memory(device: MlxDevice) -> tuple[str, Any]:
    """The retain self-check: the retain count of a new object, and whether dropped memory is freed."""
    before = device.mtl.currentAllocatedSize()
    with device.backend.autorelease_pool():
        buffer = device.mtl.newBufferWithLength_options_(_DROPPED, device.backend.Metal.MTLResourceStorageModeShared)
        count = buffer.retainCount() if hasattr(buffer, "retainCount") else None
        held = device.mtl.currentAllocatedSize()
        del buffer
    after = device.mtl.currentAllocatedSize()
    if after >= held:
        raise RuntimeError(f"{held - before} bytes were allocated, dropped, and are still held")
    counted = "" if count is None else f"a new buffer has retain count {count}; "
    return f"{counted}what is dropped comes back", {
        "retain_count": count,
        "before": before,
        "held": held,
        "after": after,
    }


def _counter(device: MlxDevice) -> Any:
    return device.kernels.get_pipeline("count", library=device.kernels.library(_COUNT))


def _bfloat(device: MlxDevice) -> tuple[str, Any]:
    source = "kernel void f(device bfloat *x [[buffer(0)]]) { x[0] = bfloat(float(x[0]) + 1.0f); }"
    library = device.kernels.library(source)
    x = device.buffer([2.0], "bf16")
    with device.command_encoder() as enc:
        enc.dispatch(device.kernels.get_pipeline("f", library=library), x, threads=1)
    if float(x.numpy()[0]) != 3.0:
        raise ArithmeticError(f"2 + 1 in bfloat is {x.numpy()[0]}")
    version = library.options.language
    return f"bfloat runs, compiled as MSL {'.'.join(map(str, version or ('by default',)))}", version


def _residency(device: MlxDevice) -> tuple[str, Any]:
    return (device.residency.reason or f"in use, {device.residency.count} allocations"), device.residency_sets_enabled


def _sampling(device: MlxDevice) -> tuple[str, Any]:
    """Times of single dispatches, and how they were obtained."""
    kernel_profile.reset()
    x = device.alloc_buffer(4096, "u32", 1024)
    with settings.override(profile_cb=True, profile_dispatch=True):
        enc = device.command_encoder()
        for _ in range(3):
            enc.dispatch(_counter(device), x, 1, threads=1024)
        enc.commit_and_wait("rehearsal")
    told = [entry for _, entries in kernel_profile.dump_dispatches() for entry in entries]
    kernel_profile.reset()
    if not told:
        return "none: only whole command buffers are timed", []
    times = ", ".join(f"{entry.gpu_ns / 1e3:.1f}" for entry in told)
    return f"{told[0].provenance.how}: {times} us", [asdict(entry) for entry in told]


def _replay(device: MlxDevice) -> tuple[str, Any]:
    """A plan of ten dependent dispatches, as an indirect command buffer if possible."""
    x = device.alloc_buffer(4096, "u32", 1024)
    with device.capture(x=x) as graph:
        for _ in range(10):
            graph.encoder.dispatch(_counter(device), x, 1, threads=1024)
    plan = graph.plan()
    before = int(x.numpy()[0])
    for _ in range(3):
        plan.run()
    if not np.array_equal(x.numpy(), np.full(1024, before + 30, np.uint32)):
        raise ArithmeticError(f"thirty increments of {before} gave {np.unique(x.numpy())}")
    return (f"right, {plan!r}" if plan.is_indirect else f"right; no indirect commands: {plan.declined}"), repr(plan)


def _encoding(device: MlxDevice) -> tuple[str, Any]:
    """The Python time of a dispatch."""
    x, kernel = device.alloc_buffer(4096, "u32", 1024), _counter(device)
    rounds = []
    for _ in range(3):
        with device.command_encoder() as enc:
            begin = time.perf_counter()
            for _ in range(_DISPATCHES):
                enc.dispatch(kernel, x, 1, threads=1024)
            rounds.append((time.perf_counter() - begin) / _DISPATCHES * 1e6)
    if int(x.numpy()[-1]) != 3 * _DISPATCHES:
        raise ArithmeticError(f"{3 * _DISPATCHES} increments gave {x.numpy()[-1]}")
    return f"{min(rounds):.1f} us a dispatch, the best of {len(rounds)} times {_DISPATCHES}", rounds


_ABILITIES: dict[str, Look] = {
    "memory": _memory,
    "bfloat": _bfloat,
    "residency": _residency,
    "dispatch times": _sampling,
    "replay": _replay,
    "encoding": _encoding,
}


# Kernels


def _family(device: MlxDevice, family: str, special: dict[str, list[str]]) -> Iterator[Finding]:
    """A library and its pipelines; kernels that need function constants are added to `special`."""
    compiled = _finding(f"library {family}", lambda: ("compiles", device.kernels.shipped(family).names))
    yield compiled
    if not compiled.good:
        return
    library = device.kernels.shipped(family)
    with device.backend.autorelease_pool():
        needy = sorted(name for name in library.names if any(_constants(library, name).values()))
    plain = sorted(set(library.names) - set(needy))
    if needy:
        special[family] = needy
    if plain:
        yield _finding(
            f"pipelines {family}", lambda: _told(device.kernels.get_pipeline(n, library=library) for n in plain)
        )


def _constants(library: KernelLibrary, name: str) -> dict[str, bool]:
    """A kernel's function constants, and whether each is required."""
    declared = library.mtl.newFunctionWithName_(name).functionConstantsDictionary() or {}
    return {str(constant.name()): bool(constant.required()) for constant in declared.values()}


def _specialised(device: MlxDevice, family: str, names: Sequence[str]) -> Iterator[Finding]:
    """The pipelines of a family that need function constants, with values that ops have used."""
    library = device.kernels.shipped(family)
    origins = [pipeline.origin for pipeline in device.kernels.pipelines]
    used = [constants for home, constants in sorted(origins, key=lambda origin: origin[0] is not library)]
    with device.backend.autorelease_pool():
        values = {name: _values(_constants(library, name), used) for name in names}
    known = [name for name in names if values[name] is not None]
    if known:
        yield _finding(
            f"specialised pipelines {family}",
            lambda: _told(device.kernels.get_pipeline(name, values[name], library=library) for name in known),
        )
    if missing := [name for name in names if values[name] is None]:
        yield Finding(f"other pipelines {family}", None, f"no op here has given constants for {', '.join(missing)}")


def _values(declared: Mapping[str, bool], used: Iterable[Constants]) -> Constants | None:
    """The first constants that include all required ones."""
    required = {name for name, needed in declared.items() if needed}
    for constants in used:
        if required <= constants.keys():
            return {name: value for name, value in constants.items() if name in declared}
    return None


def _told(pipelines: Iterable[Pipeline]) -> tuple[str, Any]:
    """The pipelines with their limits."""
    limits = {
        each.label: {
            "max_threads": each.max_threads,
            "width": each.width,
            "static_threadgroup_bytes": each.static_threadgroup_bytes,
        }
        for each in pipelines
    }
    narrow = [
        f"{label} {told['max_threads']}" for label, told in limits.items() if told["max_threads"] < _USUAL_THREADS
    ]
    few = f"; fewer than {_USUAL_THREADS} threads: {', '.join(narrow)}" if narrow else ""
    return f"{len(limits)} built{few}", limits


# Ops


def _ops(device: MlxDevice, table: Path) -> Iterator[Finding]:
    """One case of the conformance table per op, compared with numpy."""
    folder = table / "ops"
    if not (folder / "table.py").is_file():
        yield Finding("ops", None, f"{folder} is not here", "run this in a checkout of the source")
        return
    sys.path.insert(0, os.fspath(table.resolve()))
    try:
        cases, bench = _cases(folder)
    except ImportError as missing:
        yield Finding("ops", False, str(missing), "pip install '.[test]'")
        return
    finally:
        sys.path.pop(0)
    for op, case in cases.items():
        yield _finding(f"op {op}", partial(_run, device, case, bench))


def _cases(folder: Path) -> tuple[dict[str, Any], Any]:
    """An ordinary case per op (the last of its first row), and the class that runs cases."""
    for path in sorted(folder.glob("rows_*.py")):
        importlib.import_module(f"ops.{path.stem}")
    chosen: dict[str, Any] = {}
    for case in importlib.import_module("ops.table").CASES:
        if not case.long and chosen.get(case.op, case).check is case.check:
            chosen[case.op] = case
    return chosen, importlib.import_module("ops.bench").Bench


def _run(device: MlxDevice, case: Any, bench: Any) -> tuple[str, Any]:
    case.run(bench(device, case.number))
    return f"right ({case.id})", case.id
